"""Readers of human-scored word pairs: the three-column files of eval-word-vectors, and SCWS with its contexts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmark.data.readers.pairs import Pairs, _fields, _number, read_lines
from zoo.errors import CorruptError

_TARGET = re.compile(r"<b>(.*?)</b>")


@dataclass(frozen=True)
class InContext:
    """A word in its context: the words before it and after it."""

    before: list[str]
    word: str
    after: list[str]

    def window(self, words: int) -> str:
        """Return the word with at most that number of words on either side."""
        return " ".join([*self.before[-words:], self.word, *self.after[:words]])


def read_word_pairs(path: Path, highest: float) -> Pairs:
    """Read word, word, score (0 to `highest`), tab-separated."""
    first, second, gold = [], [], []
    for number, line in enumerate(read_lines(path), 1):
        a, b, score = _fields(line, 3, 3, f"{path}:{number}")
        gold.append(_number(score, 0, highest, f"{path}:{number}"))
        first.append(a)
        second.append(b)
    return Pairs(first, second, np.array(gold, dtype=np.float64))


def read_scws(path: Path) -> tuple[Pairs, list[tuple[InContext, InContext]]]:
    """Read SCWS: id, word, part of speech, word, part of speech, two contexts, mean score 0-10, the ten ratings.

    In a context, the word is between <b> and </b>, sometimes inflected. Returns the pairs of words and their contexts.
    """
    first, second, gold, contexts = [], [], [], []
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}:{number}"
        fields = _fields(line, 18, 18, where)
        gold.append(_number(fields[7], 0, 10, where))
        first.append(fields[1])
        second.append(fields[3])
        contexts.append((_in_context(fields[5], where), _in_context(fields[6], where)))
    return Pairs(first, second, np.array(gold, dtype=np.float64)), contexts


def _in_context(text: str, where: str) -> InContext:
    parts = _TARGET.split(text)
    if len(parts) != 3 or not parts[1].strip():
        raise CorruptError(f"{where}: a context has {len(parts) // 2} words between <b> and </b> instead of 1.")
    return InContext(parts[0].split(), parts[1].strip(), parts[2].split())
