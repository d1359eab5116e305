"""A test of encoders that a text makes of itself: sentences that stand together in it against sentences that do not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmark.choosing.data import FEWEST, Texts
from zoo.errors import UsageError

# One document of so many is for development, and one for the test; a long one has at most so many couples.
_SHARE = 5
_MOST = 8
_TITLE_WORDS = 12
_ENDS = (".", "!", "?", "…", ":", ";", '"', "'", ")", "”", "’")

# A document's number, and two of its lines that stand together.
Couple = tuple[int, str, str]


@dataclass(frozen=True)
class Signal:
    """Pairs of held-out documents, 1 where both texts stand together and 0 where not.

    No document is in both `development` and `test`; `held_out` are the numbers of all their documents.
    """

    development: Texts
    test: Texts
    held_out: frozenset[int]


def document_items(documents: Sequence[Sequence[str]], seed: int = 0) -> Signal:
    """Return the signal of documents, each its sentences in order; a fifth of them each is development and test.

    A pair is a title and the line below it, where most documents begin with a title; else two neighbouring sentences.
    As many pairs join two documents. No sentence is in two pairs, and none of a pair is anywhere else in the text.

    Raises UsageError, which says why there is none: no documents, or too few pairs.
    """
    if len(documents) < _SHARE:
        raise UsageError(
            f"the texts have no signal of their own: {len(documents)} documents, and {_SHARE} are the least. Put an"
            " empty line after each document, or give --pairs."
        )
    numbers = list(range(len(documents)))
    generator = random.Random(seed)
    generator.shuffle(numbers)
    share = len(documents) // _SHARE
    parts = [sorted(numbers[:share]), sorted(numbers[share : 2 * share])]
    often = Counter(line for lines in documents for line in lines)
    with_title = _have_titles(documents)
    development, test = (_half(documents, part, often, with_title, generator) for part in parts)
    return Signal(development, test, frozenset(numbers[: 2 * share]))


def _half(
    documents: Sequence[Sequence[str]],
    part: Sequence[int],
    often: Counter[str],
    with_title: bool,
    generator: random.Random,
) -> Texts:
    """Return the pairs of some documents; of neighbouring sentences where titles are too few."""
    titles = [(i, documents[i][0], documents[i][1]) for i in part if len(documents[i]) > 1]
    couples, what = _single(titles, often) if with_title else [], "titles with the line below"
    if len(couples) < FEWEST:
        what = "neighbouring sentences"
        couples = _single([couple for i in part for couple in _neighbours(i, documents[i], generator)], often)
    generator.shuffle(couples)
    near, far = couples[: len(couples) // 2], _apart(couples[len(couples) // 2 :])
    if len(near) + len(far) < FEWEST or not far:
        raise UsageError(
            f"the texts have too little signal of their own: {len(part)} held-out documents give"
            f" {len(near) + len(far)} pairs, and {FEWEST} are the least. Give more or longer documents, or --pairs."
        )
    texts = [text for pair in [(a, b) for _, a, b in near] + far for text in pair]
    report = f"signal without pairs: {len(near)} {what} against {len(far)} of two documents, of {len(part)} held out"
    first = np.arange(0, len(texts), 2)
    return Texts("binary", report, texts, first, first + 1, np.repeat([1.0, 0.0], [len(near), len(far)]))


def _have_titles(documents: Sequence[Sequence[str]]) -> bool:
    """Return whether most documents begin with a short line that ends no sentence, and most second lines are others."""
    first, second = ([_is_title(lines[place]) for lines in documents if len(lines) > 1] for place in (0, 1))
    return sum(first) * 2 > len(first) and sum(second) * 2 < len(second)


def _is_title(line: str) -> bool:
    return len(line.split()) <= _TITLE_WORDS and not line.rstrip().endswith(_ENDS)


def _neighbours(number: int, lines: Sequence[str], generator: random.Random) -> list[Couple]:
    couples = [(number, lines[place], lines[place + 1]) for place in range(0, len(lines) - 1, 2)]
    return generator.sample(couples, min(_MOST, len(couples)))


def _single(couples: Sequence[Couple], often: Counter[str]) -> list[Couple]:
    """Return the couples whose texts stand nowhere else: neither in training nor in another pair."""
    return [couple for couple in couples if often[couple[1]] == often[couple[2]] == 1]


def _apart(couples: Sequence[Couple]) -> list[tuple[str, str]]:
    """Return each couple's first text with the second of another document's."""
    ordered = sorted(couples)
    turned = [*ordered[len(ordered) // 2 :], *ordered[: len(ordered) // 2]]
    return [(a[1], b[2]) for a, b in zip(ordered, turned, strict=True) if a[0] != b[0]]
