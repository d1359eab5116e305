"""What `adapt` knows, for docs/how-to/own-domain.md: `python -m tools.adapt_study signal DATA` prints its table.

Does the signal without pairs predict a labelled test of the same domain? Each row has the rank correlation, over
encoders, of both scores, with the 95 % interval of 1,000 draws of encoders.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmark.data.readers.pairs import Pairs, read_lines, read_sick, read_sts
from benchmark.run.rows import resolve_methods
from benchmark.stats.bootstrap import measured
from choose.adaptation import NONE, Adaptation, frame_of
from choose.data import Kind, Texts, divided
from choose.measures import may_be_best, sampled, score
from choose.own_texts import document_items
from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.machine import make_runtime
from zoo.progress import Progress
from zoo.recipes import all_recipes
from zoo.roles import pair_similarities
from zoo.selection import parse_methods

# Domain -> subsets of STS12-16 on texts of its kind.
TESTS = {
    "forum answers": ("15/answers-forums", "16/answer-answer", "14/deft-forum"),
    "blogs and news": ("13/headlines", "14/headlines", "14/deft-news", "12/MSRpar"),
    "Wikipedia": ("16/plagiarism", "12/surprise.OnWN", "13/OnWN", "13/FNWN"),
    "novels": ("12/MSRvid", "14/images", "15/images"),
}
GENRES = {"forum answers": ("answers",), "blogs and news": ("weblog", "newsgroup")}
TEXTS = {"Wikipedia": "wiki", "novels": "books"}
UNTRAINED = ("cls", "avg-last", "avg-first-last", "avg-top2", "max", "static-avg", "whitening-target", "usif-tokens")
STATIC = ("static-freq-sub-case-pun", "bag-of-words", "random")
TRAINED = tuple(f"{name}:epochs=1:batch_size=16" for name in ("simcse-small", "sentence-crops"))
LABELLED = 120
DOMAINS = ("captions", "headlines", "questions", "news")
CANDIDATES = ("avg-last", "whitening-target", "usif-tokens", TRAINED[0])
PAIRS, TRAINING, SEEDS = 600, 320, 3
DRAWN, DRAWS = 300, 10


def documents_of(domain: str, data: Path) -> list[list[str]]:
    """Return a domain's documents; of a text without ends, 130 runs of 20 lines that stand far apart."""
    if name := TEXTS.get(domain):
        with lzma.open(data / f"text/{name}.txt.xz", "rt", encoding="utf-8") as file:
            lines = [line.strip() for line in islice(file, 130_000)]
        return [lines[start : start + 20] for start in range(0, 130_000, 1_000)]
    documents: list[list[str]] = []
    for path in sorted((data / "srl/UP_English-EWT").glob("*.conllu")):
        wanted = False
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("# newdoc id = "):
                wanted = line.split("= ")[1].startswith(GENRES[domain])
                documents += [[]] * wanted and [[]]
            elif wanted and line.startswith("# text = "):
                documents[-1].append(line.split("= ", 1)[1].strip())
    return [lines for lines in documents if lines]


def tests_of(domain: str, data: Path) -> list[Pairs]:
    """Return the labelled pairs of a domain."""
    tests = []
    for name in TESTS[domain]:
        year, subset = name.split("/")
        folder = data / f"sts-raw/STS{year}-en-test"
        rows = read_sts(folder / f"STS.input.{subset}.txt", folder / f"STS.gs.{subset}.txt", extra_fields=9)
        tests.append(rows.head(LABELLED))
    return tests


def fitted(name: str, backbone: str, corpus: Corpus, runtime: Runtime, seed: int = 0) -> Encoder:
    """Return the encoder of a recipe, trained on a corpus."""
    method = resolve_methods(parse_methods(name, all_recipes()), {"backbone": backbone})[0]
    encoder = method.encoder(runtime)
    if method.traits.needs_corpus:
        encoder.fit(method.cls.reads(method.recipe, corpus), run=Run(seed=seed))
    return encoder.adapt(corpus.sentences) if method.traits.transductive else encoder


def encoders() -> Iterator[tuple[str, str]]:
    """Yield the recipe and the backbone of each encoder of the study."""
    yield from ((name, "zoo-mini") for name in (*UNTRAINED, *STATIC))
    yield from ((name, "zoo-mini") for name in TRAINED)


def scores(encoder: Encoder, signal: Sequence[Texts], tests: Sequence[Pairs]) -> tuple[float, float]:
    """Return an encoder's score of the signal, and its mean Spearman x100 on the labelled pairs."""
    sides = [(data.texts[::2], data.texts[1::2]) for data in signal] + [(test.first, test.second) for test in tests]
    texts = [*dict.fromkeys(text for pair in sides for side in pair for text in side)]
    place, vectors = {text: i for i, text in enumerate(texts)}, encoder.encode(texts)
    at = [[[place[text] for text in side] for side in pair] for pair in sides]
    cosines = [pair_similarities(vectors[first], vectors[second], "cosine") for first, second in at]
    near = [measured(of[None], data.gold, "auc")[0] for of, data in zip(cosines, signal, strict=False)]
    equal = [spearmanr(of, test.gold)[0] for of, test in zip(cosines[len(signal) :], tests, strict=True)]
    return 100 * float(np.mean(near)), 100 * float(np.mean(equal))


def correlation(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return the rank correlation of two scores over encoders, with its 95 % interval."""
    values, generator = np.array(pairs), np.random.default_rng(0)
    drawn = [spearmanr(*values[generator.integers(0, len(values), len(values))].T)[0] for _ in range(1_000)]
    low, high = np.nanquantile(drawn, (0.025, 0.975))
    return float(spearmanr(*values.T)[0]), float(low), float(high)


def predicts(data: Path, out: Path) -> None:
    """Print the rank correlation of each domain, and write the scores that it is of."""
    runtime = replace(make_runtime("cpu", "fp32"), progress=Progress.silent())
    scored: dict[str, dict[str, tuple[float, float]]] = json.loads(out.read_text()) if out.is_file() else {}
    print("| domain | documents | encoders | all | of one start |\n|:--|--:|--:|:--|:--|")
    for domain in TESTS:
        documents, tests = documents_of(domain, data), tests_of(domain, data)
        signal = document_items(documents)
        kept = [lines for i, lines in enumerate(documents) if i not in signal.held_out]
        kept = kept[: TRAINING * len(kept) // sum(map(len, kept))]
        starts = [*accumulate(map(len, kept), initial=0)][:-1]
        corpus = Corpus(domain, [line for lines in kept for line in lines], documents=starts)
        of_domain = scored.setdefault(domain, {})
        for name, backbone in encoders():
            if (called := f"{name} {backbone}") not in of_domain:
                encoder = fitted(name, backbone, corpus, runtime)
                of_domain[called] = scores(encoder, [signal.development, signal.test], tests)
                out.write_text(json.dumps(scored, indent=1) + "\n", encoding="utf-8")
        of_mini = [
            pair for called, pair in of_domain.items() if "zoo-mini" in called and called.split()[0] not in STATIC
        ]
        cells = ["{:+.2f} ({:+.2f} to {:+.2f})".format(*correlation(p)) for p in ([*of_domain.values()], of_mini)]
        print(f"| {domain} | {len(documents)} | {len(of_domain)} | {' | '.join(cells)} |", flush=True)


def domain_of(name: str, data: Path) -> tuple[list[str], Texts]:
    """Return a domain's texts, and labelled pairs of other texts of the domain."""
    if name == "captions":
        texts = read_lines(data / "senteval/downstream/SNLI/s1.test")
        pairs = read_sick(data / "sick-raw/SICK_test_annotated.txt")
    elif name == "headlines":
        folders = {year: data / f"sts-raw/STS{year}-en-test" for year in (13, 14, 15, 16)}
        both = [
            read_sts(of / "STS.input.headlines.txt", of / "STS.gs.headlines.txt", extra_fields=9)
            for of in folders.values()
        ]
        texts = [text for half in both[:2] for text in half.texts()]
        first, second = ([text for half in both[2:] for text in getattr(half, side)] for side in ("first", "second"))
        pairs = Pairs(first, second, np.concatenate([half.gold for half in both[2:]]))
    else:
        files = {"questions": ("nli/quora/dev.txt", "nli/quora/test.txt"), "news": ("mrpc-raw/msr_paraphrase_train.txt",
                 "mrpc-raw/msr_paraphrase_test.txt")}[name]  # fmt: skip
        at = (0, 1, 2) if name == "questions" else (3, 4, 0)
        rows = [[line.split("\t") for line in read_lines(data / file)[name == "news" :]] for file in files]
        texts = [row[place] for row in rows[0] for place in at[:2]]
        first, second, gold = ([row[place] for row in rows[1]] for place in at)
        pairs = Pairs(first, second, np.array(gold, float))
    pairs = pairs.head(PAIRS)
    distinct = [*dict.fromkeys(pairs.texts())]
    place = {text: i for i, text in enumerate(distinct)}
    first_at, second_at = (np.array([place[text] for text in side], np.intp) for side in (pairs.first, pairs.second))
    texts = [text for text in dict.fromkeys(text.strip() for text in texts) if text not in place]
    kind: Kind = "score" if len({*pairs.gold}) > 2 else "binary"
    return texts[:: max(1, len(texts) // TRAINING)][:TRAINING], Texts(
        kind, name, distinct, first_at, second_at, pairs.gold
    )


def measure_candidates(data: Path, out: Path) -> None:
    """Write the cosines of each domain's pairs (seeds, pairs) of each candidate."""
    runtime = replace(make_runtime("cpu", "fp32"), progress=Progress.silent())
    for domain in DOMAINS:
        texts, pairs = domain_of(domain, data)
        for name in CANDIDATES:
            if (path := out / f"{domain} {name.split(':')[0]}.npy").is_file():
                continue
            seeds = range(SEEDS) if name in TRAINED else range(1)
            rows = []
            for seed in seeds:
                vectors = fitted(name, "zoo-mini", Corpus(domain, texts), runtime, seed).encode(pairs.texts)
                rows.append(pair_similarities(vectors[pairs.first], vectors[pairs.second], "cosine"))
            np.save(path, np.stack(rows))
            print(domain, name, [round(float(spearmanr(row, pairs.gold)[0]), 4) for row in rows], flush=True)


def advise(data: Path, folder: Path) -> None:
    """Print in how many draws of pairs the advice is the best or tied with it on all other pairs of the domain.

    With labels in another order nothing can be gained, and the advice should be not to train.
    """
    heads = ["domain", "draws", "best or tied", "trains", "gain (worst)", "shuffled labels: does not train"]
    print(f"| {' | '.join(heads)} |\n|:--|--:|--:|--:|:--|--:|")
    for domain in DOMAINS:
        pairs = domain_of(domain, data)[1]
        files = {name: folder / f"{domain} {name.split(':')[0]}.npy" for name in CANDIDATES}
        cosines = {name: np.load(path) for name, path in files.items() if path.is_file()}
        right, trains, quiet, gains = 0, 0, 0, []
        for seed in range(DRAWS if len(cosines) > 1 else 0):
            generator = np.random.default_rng(seed)
            rows = generator.permutation(len(pairs.gold))
            advice = advice_of(_some(pairs, rows[:DRAWN]), pairs, cosines)
            large = sampled(_some(pairs, rows[DRAWN:]), [of[:, rows[DRAWN:]] for of in cosines.values()])
            place = [*cosines].index(advice or CANDIDATES[0])
            right += bool(may_be_best(large)[place])
            trains += bool(advice)
            gains.append(float(large.value[place] - large.value[0]))
            shuffled = replace(pairs, gold=generator.permutation(pairs.gold))
            quiet += not advice_of(_some(shuffled, rows[:DRAWN]), shuffled, cosines)
        if gains:
            cells = [domain, len(gains), right, trains, f"{np.mean(gains):+.1f} ({min(gains):+.1f})", quiet]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


def advice_of(given: Texts, pairs: Texts, cosines: dict[str, NDArray[Any]]) -> str:
    """Return what `adapt` advises on some pairs, by its own division and decision."""
    parts = divided(given, {"development": 1, "test": 2, "training": 1})[:2]
    row = {pair: i for i, pair in enumerate(_sides(pairs))}
    development, test = ([row[pair] for pair in _sides(part)] for part in parts)
    records: dict[str, list[Any]] = {}
    for name, of_seeds in cosines.items():
        scored = [100 * float(score(parts[0], of[None, development])[0]) for of in of_seeds]
        records[NONE if name == CANDIDATES[0] else name] = [
            {"scores": {"development": value, "values": of[test]}, "training": None, "facts": {}}
            for value, of in zip(scored, of_seeds, strict=True)
        ]
    return Adaptation(frame_of(records, parts[1], {}), parts[0], parts[1], CANDIDATES[0], [], {}).advice


def _some(data: Texts, rows: NDArray[Any]) -> Texts:
    return replace(data, first=data.first[rows], second=data.second[rows], gold=data.gold[rows])


def _sides(data: Texts) -> list[tuple[str, str]]:
    return [(data.texts[a], data.texts[b]) for a, b in zip(data.first, data.second, strict=True)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["signal", "candidates", "advice"])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    {"signal": predicts, "candidates": measure_candidates, "advice": advise}[given.part](given.data, given.out)
