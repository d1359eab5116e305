"""Readers of SentEval's transfer sets: labelled sentences and labelled pairs, in SentEval's files and encodings.

Tokens are joined with single blanks. MR, CR, SUBJ, MPQA and TREC are latin-1 (TREC's training file has one byte, 0xf0,
outside UTF-8), the others UTF-8. CR and MPQA have a few empty lines; SentEval counts them as sentences, so they are
kept as empty texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmark.data.readers.pairs import read_lines
from zoo.errors import CorruptError

TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
SICK_CLASSES = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")


@dataclass(frozen=True)
class Labelled:
    """Texts, or pairs with a `second` side; classes (n,) count from 0."""

    first: list[str]
    labels: NDArray[np.int64]
    second: list[str] | None = None

    def __len__(self) -> int:
        return len(self.first)

    def texts(self) -> list[str]:
        return self.first + (self.second or [])

    def take(self, rows: Sequence[int]) -> Labelled:
        second = None if self.second is None else [self.second[row] for row in rows]
        return Labelled([self.first[row] for row in rows], self.labels[list(rows)], second)

    def ordered(self) -> Labelled:
        """Sort as SentEval: by tokens of the first side, of the second side, then class; stable."""
        sides = [[len(text.split()) for text in side] for side in (self.first, self.second) if side is not None]
        keys = list(zip(*sides, self.labels.tolist(), strict=True))
        return self.take(sorted(range(len(self)), key=keys.__getitem__))

    def head(self, each: int | None) -> Labelled:
        """Return the first `each` rows of every class (None: all)."""
        if each is None:
            return self
        seen: dict[int, int] = {}
        kept = []
        for row, label in enumerate(self.labels.tolist()):
            seen[label] = seen.get(label, 0) + 1
            if seen[label] <= each:
                kept.append(row)
        return self.take(kept)


def _joined(text: str) -> str:
    return " ".join(text.split())


def _label(name: str, classes: Mapping[str, int], where: str) -> int:
    if name not in classes:
        raise CorruptError(f"{where}: {name!r} is not a class; they are {', '.join(classes)}.")
    return classes[name]


def _numbers(count: int) -> dict[str, int]:
    return {str(number): number for number in range(count)}


def read_polar(positive: Path, negative: Path) -> Labelled:
    """Read MR, CR, SUBJ or MPQA: a sentence per line (class 1, then class 0), latin-1, empty lines kept."""
    texts, labels = [], []
    for label, path in ((1, positive), (0, negative)):
        lines = [_joined(line) for line in read_lines(path, "latin-1")]
        texts += lines
        labels += [label] * len(lines)
    return Labelled(texts, np.array(labels, dtype=np.int64))


def read_trec(path: Path) -> Labelled:
    """Read a part of TREC: coarse:fine class, a blank, the question; latin-1. The coarse class is the label."""
    classes = {name: number for number, name in enumerate(TREC_CLASSES)}
    texts, labels = [], []
    for number, line in enumerate(read_lines(path, "latin-1"), 1):
        where = f"{path}:{number}"
        name, colon, rest = line.strip().partition(":")
        _, blank, question = rest.partition(" ")
        if not colon or not blank:
            raise CorruptError(f"{where}: not 'COARSE:fine question'.")
        labels.append(_label(name, classes, where))
        texts.append(_joined(question))
    return Labelled(texts, np.array(labels, dtype=np.int64))


def read_sst_binary(path: Path) -> Labelled:
    """Read a part of SST2: sentence, tab, 0 or 1."""
    texts, labels = [], []
    for number, line in enumerate(read_lines(path), 1):
        fields = line.strip().split("\t")
        if len(fields) != 2:
            raise CorruptError(f"{path}:{number}: {len(fields)} tab-separated fields instead of 2.")
        texts.append(_joined(fields[0]))
        labels.append(_label(fields[1], _numbers(2), f"{path}:{number}"))
    return Labelled(texts, np.array(labels, dtype=np.int64))


def read_sst_fine(path: Path) -> Labelled:
    """Read a part of SST5: a class 0-4, a blank, the sentence."""
    texts, labels = [], []
    for number, line in enumerate(read_lines(path), 1):
        name, blank, sentence = line.strip().partition(" ")
        if not blank:
            raise CorruptError(f"{path}:{number}: not 'class sentence'.")
        labels.append(_label(name, _numbers(5), f"{path}:{number}"))
        texts.append(_joined(sentence))
    return Labelled(texts, np.array(labels, dtype=np.int64))


def _pairs(path: Path, fields: int, order: tuple[int, int, int], classes: Mapping[str, int]) -> Labelled:
    first, second, labels = [], [], []
    for number, line in enumerate(read_lines(path)[1:], 2):
        row = line.strip().split("\t")
        if len(row) != fields:
            raise CorruptError(f"{path}:{number}: {len(row)} tab-separated fields instead of {fields}.")
        first.append(_joined(row[order[0]]))
        second.append(_joined(row[order[1]]))
        labels.append(_label(row[order[2]], classes, f"{path}:{number}"))
    return Labelled(first, np.array(labels, dtype=np.int64), second)


def read_mrpc(path: Path) -> Labelled:
    """Read a part of MRPC: a header line, then 0 or 1 (paraphrases), two ids, two sentences."""
    return _pairs(path, 5, (3, 4, 0), _numbers(2))


def read_sick_entailment(path: Path) -> Labelled:
    """Read a split of SICK with entailment classes: a header line, then id, A, B, relatedness, class."""
    return _pairs(path, 5, (1, 2, 4), {name: number for number, name in enumerate(SICK_CLASSES)})
