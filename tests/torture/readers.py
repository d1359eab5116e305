"""Everything that reads data, each with a good input, what a right answer is, and the ways to spoil the input."""

from __future__ import annotations

import gzip
import json
import lzma
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.torture.common import ROOT
from tests.torture.mutate import Make, as_json, as_json_lines


@dataclass(frozen=True)
class Reader:
    """`read` takes the path of the spoilt file; what it returns is right where `right` says nothing against it."""

    name: str
    file: str  # its name, whose suffix may decide how it is read
    good: bytes
    read: Callable[[Path], Any]
    right: Callable[[Any], str | None] = lambda answer: None
    value: Any = None  # what `good` holds, where values are changed as well as bytes
    make: Make = as_json
    slow: bool = False  # it loads a model or trains each time: its turn is last


def _pairs(low: float, high: float) -> Callable[[Any], str | None]:
    def right(answer: Any) -> str | None:
        if not len(answer.first) == len(answer.second) == len(answer.gold):
            return "sides of different lengths"
        inside = all(math.isfinite(score) and low <= score <= high for score in answer.gold)
        return None if inside else "a score outside its bounds"

    return right


def _labelled(classes: int) -> Callable[[Any], str | None]:
    def right(answer: Any) -> str | None:
        if len(answer.first) != len(answer.labels):
            return "texts and labels of different lengths"
        return None if all(0 <= label < classes for label in answer.labels) else "a label that is no class"

    return right


def _vectors(answer: Any) -> str | None:
    import numpy as np

    words, matrix = answer
    if len(words) != len(matrix) or sorted(words.values()) != list(range(len(matrix))):
        return "words and rows that do not belong together"
    return None if np.isfinite(matrix).all() else "a number that is not finite"


def _texts(answer: Any) -> str | None:
    return None if all(isinstance(text, str) for text in answer) else "a text that is none"


def _lines(*rows: str) -> bytes:
    return "".join(row + "\n" for row in rows).encode()


def readers(folder: Path) -> list[Reader]:
    """Return all of them; `folder` holds the files beside the one that is spoilt."""
    return [*_pair_files(folder), *_labelled_files(folder), *_texts_and_vectors(folder), *_yaml(), *_ours(folder)]


def _pair_files(folder: Path) -> Iterator[Reader]:
    from benchmark.data.readers import pairs, phrases, ppdb, words

    kept = folder / "kept"
    kept.mkdir(parents=True)
    (kept / "STS.input").write_bytes(_lines("a dog\ta cat", "it rains\train falls", "one\ttwo"))
    (kept / "STS.gs").write_bytes(_lines("1.5", "", "4"))
    for name, right in (("STS.input", "STS.gs"), ("STS.gs", "STS.input")):
        order = slice(None, None, 1 if name == "STS.input" else -1)
        yield Reader(
            name, name, (kept / name).read_bytes(),
            lambda path, other=kept / right, order=order: pairs.read_sts(*(path, other)[order]), _pairs(0, 5),
        )  # fmt: skip
    row = "main-news\tMSRpar\t2012\t0001\t2.5\ta dog runs\ta cat runs"
    yield Reader("STS-B", "sts-dev.csv", _lines(row, row), pairs.read_stsb, _pairs(0, 5))
    sick = _lines("id\tA\tB\trelatedness\tentailment", "1\ta dog\ta cat\t3.5\tNEUTRAL", "2\tone\ttwo\t1\tCONTRADICTION")
    yield Reader("SICK", "SICK.txt", sick, pairs.read_sick, _pairs(1, 5))
    rows = [[1.5, "a dog", "a cat"], [4.0, "it rains", "rain falls"]]
    yield Reader(
        "rows of the hub", "test.jsonl", as_json_lines(rows), pairs.read_hub_rows, _pairs(0, 5), rows, as_json_lines
    )
    bird = ["pair", "term1", "term2", "term2: unigram or bigram", "source", "relation", "relatedness score", "pos"]
    yield Reader(
        "BiRD",
        "bird.txt",
        _lines("\t".join(bird), "a-b\ta\tb\tunigram\tx\ty\t0.25\tNN"),
        phrases.read_bird,
        _pairs(0, 1),
    )
    turney = _lines("black\tJJ", "cat\tNN", "panther", "black", "cat", "dog", "sun", "tree", "cup")
    yield Reader("Turney", "turney.txt", turney * 2, phrases.read_turney)
    yield Reader(
        "phrases of PPDB", "bigrams.txt", _lines("black\tJJ", "cat\tNN", "panther") * 2, phrases.read_bigram_words
    )
    semeval = _lines("black\tJJ", "cat\tNN", "panther", "1") * 2
    yield Reader("SemEval bigrams", "semeval.txt", semeval, phrases.read_semeval_bigrams, _labelled(2))
    instances = kept / "negative.txt"
    instances.write_bytes(_lines("sun\tblack cat"))
    yield Reader(
        "SemEval instances", "positive.txt", _lines("panther\tblack cat", "cup\ttea cup\t"),
        lambda path: phrases.read_semeval_instances(path, instances), _labelled(2),
    )  # fmt: skip
    yield Reader(
        "word pairs", "EN-WS-353.txt", _lines("cat\tdog\t7.5", "sun\tmoon\t5"),
        lambda path: words.read_word_pairs(path, 10), _pairs(0, 10),
    )  # fmt: skip
    context = "He saw a <b>bank</b> there ."
    scws = "\t".join(["1", "bank", "n", "money", "n", context, "The <b>money</b> .", "6.5", *["6"] * 10])
    yield Reader("SCWS", "ratings.txt", _lines(scws), words.read_scws, lambda answer: _pairs(0, 10)(answer[0]))
    pack = "[NN] ||| small dog ||| little dog ||| PPDB2.0Score=3.1 Equivalence=0.7 ||| 0-0 ||| Equivalence"
    for name, good in (("pack", _lines(pack, pack)), ("pack.gz", gzip.compress(_lines(pack, pack)))):
        yield Reader(f"PPDB {name}", name, good, lambda path: ppdb.ppdb_training_rows(path, ppdb.PPDBReport(), 10))
    human = _lines("4.5\tx\tsmall dog\tlittle dog\t[4, 5]", "1.5\tx\tbig cat\tlarge tree\t[1, 2]")
    yield Reader("PPDB of people", "ppdb-sample.tsv", human, lambda path: ppdb.human_training_rows([path], 10))


def _labelled_files(folder: Path) -> Iterator[Reader]:
    from benchmark.data.readers import transfer

    other = folder / "kept" / "rt-polarity.neg"
    other.write_bytes(_lines("a bad film", "dull"))
    yield Reader(
        "MR", "rt-polarity.pos", _lines("a good film", "fun , really"),
        lambda path: transfer.read_polar(path, other).ordered().head(3), _labelled(2),
    )  # fmt: skip
    yield Reader("TREC", "train.label", _lines("NUM:dist How far ?", "HUM:ind Who ?"), transfer.read_trec, _labelled(6))
    yield Reader("SST2", "sentiment-train", _lines("a good film\t1", "dull\t0"), transfer.read_sst_binary, _labelled(2))
    yield Reader("SST5", "sentiment-train", _lines("4 a good film", "0 dull"), transfer.read_sst_fine, _labelled(5))
    mrpc = _lines("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "1\t1\t2\ta dog\tthe dog", "0\t3\t4\ta cat\ta tree")
    yield Reader("MRPC", "msr_train.txt", mrpc, transfer.read_mrpc, _labelled(2))
    sick = _lines("id\tA\tB\trelatedness\tentailment", "1\ta dog\ta cat\t3.5\tNEUTRAL", "2\tone\ttwo\t1\tCONTRADICTION")
    yield Reader("SICK-E", "SICK.txt", sick, transfer.read_sick_entailment, _labelled(3))


def _texts_and_vectors(folder: Path) -> Iterator[Reader]:
    import numpy as np

    from benchmark.data.corpora import load_corpus, load_pairs
    from benchmark.data.sources import DataSource
    from benchmark.template_search.search import read_templates
    from zoo.encoder import Corpus
    from zoo.formats import text_vectors, word_vectors
    from zoo.srl.score import read_conllu
    from zoo.srl.verbs import read_verbs

    nowhere = DataSource(None, hub=False)
    sentences = _lines("A dog runs.", "", "Rain falls on the hill.", "One more.")

    def corpus(path: Path) -> Any:
        return load_corpus(str(path), nowhere, 2).sentences

    for name, good in (
        ("plain.txt", sentences),
        ("packed.txt.gz", gzip.compress(sentences * 20)),
        ("packed.txt.xz", lzma.compress(sentences * 20)),
    ):
        yield Reader(f"corpus {name}", name, good, corpus, _texts)

    def labelled(path: Path) -> Any:
        found = load_pairs(str(path), nowhere, 4)
        return found if isinstance(found, Corpus) and len(found.sentences) == 2 * len(found.labels or ()) else None

    nli = _lines("a dog runs\tan animal moves\tentailment", "it rains\tit is dry\tcontradiction\tmore", "a\tb\tneutral")
    yield Reader("NLI pairs", "nli.tsv", nli, labelled, lambda answer: None if answer else "pairs without their labels")
    glove = _lines("the 0.1 -0.2 3e-2", "dog 1 2 3", "cat 4 5 6")
    for name, good in (
        ("glove.txt", glove),
        ("glove.txt.gz", gzip.compress(glove)),
        ("model.vec", b"3 3\n" + glove),
        ("model.bin", b"2 3\n" + b"".join(w + b" " + np.ones(3, "<f4").tobytes() + b"\n" for w in (b"dog", b"cat"))),
    ):
        yield Reader(
            f"word vectors {name}", name, good, lambda path: word_vectors.read_word_vectors(str(path)), _vectors
        )
    yield Reader(
        "word counts", "counts.txt", _lines("the 100", "dog 5"), lambda path: word_vectors.read_counts(str(path))
    )
    yield Reader(
        "vectors of texts .tsv", "vectors.tsv", _lines("a dog\t1 2 3", "a cat\t4 5 6"),
        lambda path: text_vectors.read([path]), _vectors_of_texts,
    )  # fmt: skip
    kept = folder / "kept" / "texts.txt"
    kept.write_bytes(_lines("a dog", "a cat"))
    np.save(folder / "kept" / "m.npy", np.ones((2, 3), np.float32))
    yield Reader(
        "vectors of texts .npy", "vectors.npy", (folder / "kept" / "m.npy").read_bytes(),
        lambda path: text_vectors.read([path, kept]), _vectors_of_texts,
    )  # fmt: skip
    yield Reader("templates", "own.txt", _lines("[X] means [MASK] .", 'This : "[X]" is [MASK] .'), read_templates)
    roles = ["1\tHe\the\tPRON\tPRP\t_\t2\tnsubj\t_\t_\t_\tARG0", "2\truns\trun\tVERB\tVBZ\t_\t0\troot\t_\t_\trun.02\t_"]
    yield Reader("CoNLL-U", "dev.conllu", _lines("# text = He runs", *roles, ""), read_conllu)
    yield Reader(
        "table of verbs",
        "verbs.txt",
        _lines("# a comment", "subject ARG1: fall rise", "object none: enter"),
        read_verbs,
    )


def _vectors_of_texts(answer: Any) -> str | None:
    import numpy as np

    rows, matrix = answer
    if matrix.ndim != 2 or any(not 0 <= row < len(matrix) for row in rows.values()):
        return "texts and rows that do not belong together"
    return None if np.isfinite(matrix).all() else "a number that is not finite"


def _yaml() -> Iterator[Reader]:
    import yaml

    from benchmark.leaderboard import papers, published
    from benchmark.tasks import suites
    from benchmark.template_search.search import read_lists
    from zoo.pretraining.recipe import read_pretrain_recipe
    from zoo.recipe import all_recipes, read_recipe
    from zoo.selection import parse_methods
    from zoo.yaml_files import read_yaml

    recipes = all_recipes()

    def recipe(path: Path) -> Any:
        cls, values = read_recipe(path).resolve()
        return cls.traits(values)

    def methods(path: Path) -> Any:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return [spec.resolve() for spec in parse_methods(text, recipes)]

    for name in ("simcse.yaml", "whitening.yaml"):
        path = ROOT / "configs" / "methods" / name
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
        yield Reader(f"recipe {name}", name, path.read_bytes(), recipe, value=value)
    own = {"extends": "simcse", "summary": "mine", "parameters": {"learning_rate": "3e-5", "batch_size": 32}}
    yield Reader("recipe that extends", "mine.yaml", as_json(own), recipe, value=own)
    line = b"simcse:batch_size=16:learning_rate=1e-5,avg-*,whitening:k=8:base='avg-last',glove:path=\"a b\""
    yield Reader("--methods", "methods", line, methods, lambda answer: None if answer else "no method")
    one = b"simcse:batch_size=16:pooler=avg"
    yield Reader("--methods, one", "methods", one, methods, lambda answer: None if answer else "no method")

    def printed(path: Path) -> Any:
        return published.parse(read_yaml(path), str(path))

    def pretraining(path: Path) -> Any:
        return read_pretrain_recipe(str(path))

    for name, file, read in (
        ("suite", ROOT / "configs" / "suites" / "sts.yaml", suites.read_suite),
        ("published.yaml", ROOT / "leaderboards" / "published.yaml", printed),
        ("tables of papers", ROOT / "configs" / "papers" / "burt.yaml", papers.read_items),
        ("lists of templates", ROOT / "configs" / "search" / "templates.yaml", read_lists),
        ("pretraining recipe", ROOT / "configs" / "pretrain" / "tiny.yaml", pretraining),
    ):
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        good = file.read_bytes()
        if name == "published.yaml":  # a part of each kind: the whole takes a quarter of a second
            papers_named = {table["paper"] for table in content["tables"][:2]}
            content["papers"] = {key: text for key, text in content["papers"].items() if key in papers_named}
            content["tables"] = [{**table, "rows": table["rows"][:3]} for table in content["tables"][:2]]
            good = as_json(content)
        if name == "lists of templates":
            content.pop("published")
            good = as_json({key: values[:3] if isinstance(values, list) else values for key, values in content.items()})
            content = json.loads(good)
        yield Reader(name, "fuzzed.yaml", good, read, value=content)


def _ours(folder: Path) -> Iterator[Reader]:
    from tests.torture.own_files import own_files

    return own_files(folder)
