"""Training text for a run: a file or a catalog entry, sampled, and compared with the texts it will be tested on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from benchmark.data.catalog import catalog
from benchmark.data.readers import iterate_text, sample_text
from benchmark.data.sources import DataSource
from zoo.encoder import Corpus
from zoo.errors import CorruptError, UsageError

LABELS = ("entailment", "neutral", "contradiction")


def load_corpus(name: str, data: DataSource, count: int | None) -> Corpus:
    """Return the sentences of a catalog corpus or of a text file (.xz and .gz too), `count` of them drawn by seed 0.

    Raises MissingError or CorruptError when it cannot be read, UsageError when it has no sentence.
    """
    entry = catalog().get(name)
    if entry is not None and entry.kind == "corpus":
        located = data.locate(name, "plain")
        path = next(iter(located.files.values()))
    else:
        path = Path(name).expanduser()
    sentences = sample_text(path, count)
    if not sentences:
        raise UsageError(f"corpus {path} has no sentence; give a text file with one sentence a line.")
    return Corpus(name if entry is not None else path.name, sentences)


def load_pairs(name: str, data: DataSource, count: int | None) -> Corpus:
    """Return labelled sentence pairs of the catalog or of a tab-separated file (premise, hypothesis, label ...).

    `count` takes the first so many. Raises MissingError or CorruptError when they cannot be read.
    """
    entry = catalog().get(name)
    if entry is not None and entry.kind == "nli":
        path = next(iter(data.locate(name, "plain").files.values()))
    else:
        path = Path(name).expanduser()
    sentences: list[str] = []
    labels: list[str] = []
    for number, line in enumerate(iterate_text(path), 1):
        fields = line.split("\t")
        if len(fields) < 3 or fields[2] not in LABELS:
            raise CorruptError(f"{path}:{number}: expected premise, hypothesis and one of {', '.join(LABELS)}.")
        sentences += fields[:2]
        labels.append(fields[2])
        if len(labels) == count:
            break
    return Corpus(name if entry is not None else path.name, sentences, labels)


def normalised(text: str) -> str:
    """Return a text as overlap counts it: lower case, letters and digits only (tokenisation does not hide a copy)."""
    return re.sub(r"[\W_]+", "", text.lower())


def overlap(corpus: Corpus, texts: Iterable[str]) -> int:
    """Count the corpus sentences that are also among `texts`, after normalisation."""
    tested = {normalised(text) for text in texts} - {""}
    return sum(normalised(sentence) in tested for sentence in corpus.sentences)
