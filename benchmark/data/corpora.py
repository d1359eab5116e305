"""Loads the training text of a run (a file or a catalog entry), draws from it, and finds test texts in it."""

from __future__ import annotations

import hashlib
import random
import re
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from benchmark.data.catalog import catalog
from benchmark.data.readers.pairs import (
    iterate_text,
    read_hub_rows,
    read_pairs,
    read_stsb,
    sample_documents,
    sample_text,
)
from benchmark.data.readers.ppdb import PER_CLASS, PPDBReport, human_training_rows, is_pack, ppdb_training_rows
from benchmark.data.sources import DataSource
from zoo.encoder import Corpus
from zoo.errors import CorruptError, MissingError, UsageError, did_you_mean
from zoo.labels import NLI_LABELS, PHRASE_LABELS
from zoo.paths import is_dir, is_file, user_path
from zoo.progress import print_safe

_DIGEST = 10  # hexadecimal digits: among a million texts, the expected number of equal digests is below one


CORPUS, PAIRS = ("corpus",), ("nli", "ppdb-human")  # kinds of data sets that --corpus and --pairs take
TARGET = "target"  # as --corpus: the texts of the run's own tasks, of every split and without labels
SCORED = "STSBenchmark"  # scored pairs that --pairs takes too: its training split


def check_texts(name: str | None, kinds: Collection[str]) -> None:
    """Raise MissingError unless `name` (None: nothing) is a file, or names data sets of these kinds, joined by +."""
    if name is None or name == TARGET or _readable(name):
        return
    known = [entry.name for entry in catalog().values() if entry.kind in kinds]
    known += [SCORED] if kinds == PAIRS else []
    for part in [name] if kinds == CORPUS else name.split("+"):
        if part not in known and not _readable(part):
            what = "is a folder" if is_dir(user_path(part)) else "is no file"
            raise MissingError(
                f"{'--corpus' if kinds == CORPUS else '--pairs'} {part}: it {what} and none of"
                f" {', '.join(known)}.{did_you_mean(part, known)}"
            )


def _readable(name: str) -> bool:
    path = user_path(name)
    with suppress(OSError):  # the name is too long for a file
        return is_file(path) or path.is_fifo()
    return False


def load_corpus(name: str, data: DataSource, count: int | None, *, documents: bool = False) -> Corpus:
    """Return the sentences of a catalog corpus or of a text file (.xz and .gz too), `count` of them drawn by seed 0.

    With `documents` the draw keeps neighbours together: an empty line ends a document, and where the catalog says that
    a corpus is in order, all its lines are one. Raises MissingError or CorruptError when it cannot be read, UsageError
    when it has no sentence, and MissingError when nothing says which sentences are neighbours.
    """
    check_texts(name, CORPUS)
    entry = catalog().get(name)
    if entry is not None and entry.kind in CORPUS:
        located = data.locate(name, "plain")
        path = next(iter(located.files.values()))
    else:
        path = user_path(name)
    starts: list[int] | None = None
    if documents:
        sentences, starts, ended = sample_documents(path, count)
        starts = starts if ended or (entry is not None and entry.ordered) else None
    else:
        sentences = sample_text(path, count)
    if not sentences:
        raise UsageError(f"corpus {path} has no sentence; give a text file with one sentence per line.")
    corpus = Corpus(name if entry is not None else path.name, sentences, documents=starts)
    if documents:
        corpus.document_ends()  # raises MissingError
    return corpus


def target_corpus(texts: Iterable[str], count: int | None) -> Corpus:
    """Return the distinct texts of a run's tasks as a training text, `count` of them drawn by seed 0.

    Raises MissingError without texts.
    """
    if not (found := list(dict.fromkeys(texts))):
        raise MissingError("none of the tasks has its data here.")
    if count is not None and count < len(found):
        found = [found[i] for i in sorted(random.Random(0).sample(range(len(found)), count))]
    return Corpus(TARGET, found)


def load_pairs(name: str, data: DataSource, count: int | None) -> Corpus:
    """Return labelled pairs from the catalog, a tab-separated file (premise, hypothesis, label ...) or a PPDB pack.

    Scored pairs are the training split of STSBenchmark, or a file of a header line and lines of score 0-5, sentence 1,
    sentence 2. Several labelled sources are joined by +, as in nli+ppdb2-human; `count` limits each. Raises
    MissingError or CorruptError when they cannot be read, UsageError for scored pairs joined with others.
    """
    whole = is_file(user_path(name))  # the name of a file may contain a +
    parts = [_load_part(part, data, count) for part in ([name] if whole else name.split("+"))]
    sentences = [text for part in parts for text in part.sentences]
    if any(part.scores is not None for part in parts):
        if len(parts) > 1:
            raise UsageError(f"--pairs {name}: scored pairs cannot be joined with other pairs; name one of them.")
        return parts[0]
    labels = [label for part in parts for label in part.labels or ()]
    return Corpus("+".join(part.name for part in parts), sentences, labels)


def _load_part(name: str, data: DataSource, count: int | None) -> Corpus:
    entry = catalog().get(name)
    if name == SCORED or (entry is None and _is_scored(user_path(name))):
        return _scored(name, data, count)
    if entry is not None and entry.kind in PAIRS:
        files = list(data.locate(name, "plain").files.values())
    else:
        entry, files = None, [user_path(name)]
    per_class = None if count is None else max(count // len(PHRASE_LABELS), 1)
    if entry is not None and entry.kind == "ppdb-human":
        rows = human_training_rows(files, per_class)
    elif is_pack(files[0]):
        report = PPDBReport()
        rows = ppdb_training_rows(files[0], report, per_class or PER_CLASS)
        print_safe(f"{files[0].name}: {report}", sys.stderr)
    else:
        rows = _nli_rows(files[0], count)
    texts = [text for first, second, _ in rows for text in (first, second)]
    return Corpus(name if entry is not None else files[0].name, texts, [label for *_, label in rows])


def _is_scored(path: Path) -> bool:
    """Return whether a file has three columns, of which the first is a number below its header."""
    lines = [line.split("\t") for line in islice(iterate_text(path), 2)] if is_file(path) else []
    return [len(line) for line in lines] == [3, 3] and bool(re.fullmatch(r"[\d.]+", lines[1][0]))


def _scored(name: str, data: DataSource, count: int | None) -> Corpus:
    if name != SCORED:
        pairs = read_pairs(user_path(name))
    else:
        located = data.locate(name, "tokenised")
        rows = located.files.get("train.jsonl")
        pairs = read_stsb(located.files["sts-train.csv"]) if rows is None else read_hub_rows(rows)
    pairs = pairs.head(count)
    texts = [" ".join(text.split()) for pair in zip(pairs.first, pairs.second, strict=True) for text in pair]
    name = name if name == SCORED else user_path(name).name
    return Corpus(name, texts, scores=pairs.gold.tolist())


def _nli_rows(path: Path, count: int | None) -> list[tuple[str, str, str]]:
    rows = []
    for number, line in enumerate(islice(iterate_text(path), count), 1):
        fields = line.split("\t")
        if len(fields) < 3 or fields[2] not in NLI_LABELS:
            raise CorruptError(f"{path}:{number}: expected premise, hypothesis and one of {', '.join(NLI_LABELS)}.")
        rows.append((fields[0], fields[1], fields[2]))
    return rows


def normalised(text: str) -> str:
    """Normalise a text for overlap: lower case, letters and digits only, so that tokenisation does not hide a copy."""
    return re.sub(r"[\W_]+", "", text.lower())


def normalised_texts(texts: Iterable[str]) -> set[str]:
    """Return the distinct normalised texts, without those that have neither letter nor digit."""
    return {normalised(text) for text in texts} - {""}


def overlap(corpus: Corpus | set[str], tested: Iterable[str]) -> list[str]:
    """Return the digests, sorted, of the distinct texts of `tested` that are sentences of a corpus.

    Both are compared after normalisation; a corpus may be given as its `normalised_texts`. Equal texts have equal
    digests, so that the texts of several tasks can be counted once.
    """
    known = corpus if isinstance(corpus, set) else normalised_texts(corpus.sentences)
    found = normalised_texts(tested) & known
    return sorted(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST] for text in found)
