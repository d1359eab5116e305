"""Sentences to augment, readers of what came out, and a chi-square test of how often."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from zoo.training.augment import parse_augmentation, sequence

CLS, SEP = 1, 2

Sentence = tuple[NDArray[np.int32], NDArray[np.bool_], NDArray[np.bool_]]


def sentence(words: list[int], *, inside: tuple[int, ...] = (), pieces_start: bool = False) -> Sentence:
    """[CLS], words of so many tokens each, [SEP]; ordinary ids differ; `inside` lists words a special one follows."""
    ids, special, starts, fresh = [CLS], [True], [True], itertools.count(100)
    for i, length in enumerate(words):
        ids += itertools.islice(fresh, length)
        special += [False] * length
        # RoBERTa's first word looks like a piece.
        starts += [i > 0 or not pieces_start] + [False] * (length - 1)
        if i in inside:
            ids.append(SEP)
            special.append(True)
            starts.append(True)
    return np.array([*ids, SEP], np.int32), np.array([*special, True]), np.array([*starts, True])


sentences = st.builds(
    lambda words, inside, pieces_start: sentence(words, inside=tuple(inside), pieces_start=pieces_start),
    st.lists(st.integers(1, 4), max_size=20),
    st.lists(st.integers(0, 19), max_size=2),
    st.booleans(),
)
rates = st.floats(0, 1)
seeds = st.integers(0, 2**32)


def units_of(example: Sentence, unit: str) -> list[tuple[int, ...]]:
    """Token by token: the ordinary tokens, or the words, of a sentence."""
    units: list[list[int]] = []
    after_special = True
    for token, special, start in zip(*example, strict=True):
        if not special:
            if unit == "token" or start or after_special:
                units.append([])
            units[-1].append(int(token))
        after_special = bool(special)
    return [tuple(one) for one in units]


def split(view: NDArray[np.int32], units: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Read a view's ordinary tokens as whole units; fails where one is torn."""
    by_first = {one[0]: one for one in units}
    tokens = [int(t) for t in view if t not in (CLS, SEP)]
    pieces = []
    while tokens:
        unit = by_first[tokens[0]]
        assert tuple(tokens[: len(unit)]) == unit
        pieces.append(unit)
        del tokens[: len(unit)]
    return pieces


def apply(text: str, example: Sentence, seed: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    return sequence(parse_augmentation(text), *example, np.random.default_rng(seed))


def outcomes(
    text: str, example: Sentence, read: Callable[[NDArray[Any], NDArray[np.bool_]], Hashable], draws: int = 6000
) -> Counter[Hashable]:
    rng = np.random.default_rng(20)
    chain = parse_augmentation(text)
    return Counter(read(*sequence(chain, *example, rng)) for _ in range(draws))


def assert_distributed(seen: Counter[Any], wanted: dict[Any, float]) -> None:
    """Chi-square against probabilities up to a factor; an outcome without probability must not occur."""
    wanted = {outcome: weight for outcome, weight in wanted.items() if weight > 0}
    assert set(seen) <= set(wanted)
    total = sum(wanted.values())
    expected = [weight / total * seen.total() for weight in wanted.values()]
    assert min(expected) > 5
    assert len(wanted) == 1 or chisquare([seen[outcome] for outcome in wanted], expected).pvalue > 1e-3


def ordinary(view: NDArray[Any], _: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(t) for t in view if t not in (CLS, SEP))


FOUR = sentence([1, 1, 1, 1])
A, B, C, D = 100, 101, 102, 103
