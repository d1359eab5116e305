"""Readers of human-scored word pairs and of phrase sets: eval-word-vectors, SCWS, BiRD, Yu and Dredze's form.

In that form a phrase has two lines, each with a word, a tab and its part of speech.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmark.data.readers.pairs import Pairs, _fields, _number, read_lines, read_table
from benchmark.data.readers.transfer import Labelled
from zoo.errors import CorruptError

_TARGET = re.compile(r"<b>(.*?)</b>")


@dataclass(frozen=True)
class InContext:
    before: list[str]
    word: str
    after: list[str]

    def window(self, words: int) -> str:
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


_BIRD = ["pair", "term1", "term2", "term2: unigram or bigram", "source", "relation", "relatedness score", "pos"]
_CHOICES = 7


@dataclass(frozen=True)
class Choice:
    """A phrase and seven words: its synonym, its own two words, and four others."""

    phrase: str
    right: str
    parts: tuple[str, str]
    others: tuple[str, ...]

    def texts(self) -> list[str]:
        return [self.phrase, self.right, *self.others, *self.parts]


def read_bird(path: Path) -> Pairs:
    """Read BiRD: a header line, then pair, two terms, the second's kind, source, relation, score 0-1, word classes."""
    rows = read_table(path, _BIRD)
    gold = [_number(row[6], 0, 1, f"{path}:{number}") for number, row in enumerate(rows, 2)]
    return Pairs([row[1] for row in rows], [row[2] for row in rows], np.array(gold, dtype=np.float64))


def _items(path: Path, lines: int) -> list[tuple[str, tuple[str, str], list[str]]]:
    every = read_lines(path)
    if len(every) % lines:
        raise CorruptError(f"{path}: {len(every)} lines are not a multiple of {lines}, the lines of an item.")
    items = []
    for start in range(0, len(every), lines):
        tagged = [_fields(every[start + i], 2, 2, f"{path}:{start + i + 1}")[0] for i in (0, 1)]
        others = every[start + 2 : start + lines]
        if not any(word.strip() for word in tagged) or not all(text.strip() for text in others):
            raise CorruptError(f"{path}:{start + 1}: the item has no phrase, or an empty line.")
        items.append((f"{path}:{start + 1}", (tagged[0], tagged[1]), others))
    return items


def read_turney(path: Path) -> list[Choice]:
    """Read Turney's noun phrases: two tagged words, the right word, the two words again, four others."""
    choices = []
    for where, words, rest in _items(path, 2 + _CHOICES):
        if tuple(rest[1:3]) != words:
            raise CorruptError(f"{where}: the second and third choice are not the words of the phrase.")
        choices.append(Choice(" ".join(words), rest[0], words, tuple(rest[3:])))
    return choices


def read_bigram_words(path: Path) -> tuple[list[str], list[str]]:
    """Read PPDB's pairs of a two-word phrase and a word: two tagged words, the word; returns phrases and words.

    In 21 items of the released files the first of the two words is empty: the second is the phrase.
    """
    items = _items(path, 3)
    return [" ".join(words).strip() for _, words, _ in items], [rest[0] for _, _, rest in items]


def read_semeval_bigrams(path: Path) -> Labelled:
    """Read SemEval-2013 task 5(a) in the two-word form: two tagged words, the word, 1 (same meaning) or 0."""
    first, second, labels = [], [], []
    for where, words, (word, label) in _items(path, 4):
        if label not in ("0", "1"):
            raise CorruptError(f"{where}: {label!r} is not a label; they are 0 and 1.")
        first.append(word)
        second.append(" ".join(words))
        labels.append(int(label))
    return Labelled(first, np.array(labels, dtype=np.int64), second)


def read_semeval_instances(positive: Path, negative: Path) -> Labelled:
    """Read the organisers' files of SemEval-2013 task 5(a) by class; a line: word, tab, phrase."""
    first, second, labels = [], [], []
    for label, path in ((1, positive), (0, negative)):
        for number, line in enumerate(read_lines(path), 1):
            word, phrase = _fields(line.rstrip("\t"), 2, 2, f"{path}:{number}")
            first.append(word.strip())
            second.append(" ".join(phrase.split()))
            labels.append(label)
    return Labelled(first, np.array(labels, dtype=np.int64), second)
