"""Augmentations against plain enumeration: what stays, what is kept together, and how often each outcome comes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest
from augment_cases import (
    CLS,
    FOUR,
    SEP,
    A,
    B,
    C,
    D,
    Sentence,
    apply,
    assert_distributed,
    ordinary,
    outcomes,
    rates,
    seeds,
    sentence,
    sentences,
    split,
    units_of,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from zoo.errors import UsageError
from zoo.training.augment import KINDS, Augmentation, choose_chain, parse_augmentation

STRUCTURAL = ["exchange", "reorder", "duplicate", "delete", "repeat", "crop", "span-delete", "span-reorder"]
STRUCTURAL += ["repeat-repo"]
# Beside other work the first draw, which reads a tokenizer, may take a second.
UNHURRIED = settings(suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("name", STRUCTURAL)
@UNHURRIED
@given(example=sentences, rate=rates, count=st.integers(1, 5), seed=seeds)
def test_specials_stay_units_stay_whole_and_the_draw_repeats(
    name: str, unit: Any, example: Sentence, rate: float, count: int, seed: int
) -> None:
    sides = KINDS[name].spans
    how = Augmentation(name, rate / (count * sides) if sides else rate, unit, count if sides else 1)
    before = [part.copy() for part in example]
    view, keep = how(*example, np.random.default_rng(seed))
    for part, was in zip(example, before, strict=True):
        np.testing.assert_array_equal(part, was)
    assert keep.dtype == bool and keep.shape == view.shape and keep.all()
    assert view.dtype == example[0].dtype
    assert view[view < 100].tolist() == example[0][example[1]].tolist()
    assert (view[0], view[-1]) == (CLS, SEP)
    units = units_of(example, unit)
    pieces = split(view, units)
    assert bool(pieces) == bool(units)
    if not units:
        np.testing.assert_array_equal(view, example[0])
    again, _ = how(*example, np.random.default_rng(seed))
    np.testing.assert_array_equal(view, again)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["token", "word"])
@UNHURRIED
@given(example=sentences, rate=rates, seed=seeds)
def test_sizes_are_as_declared(unit: Any, example: Sentence, rate: float, seed: int) -> None:
    units = units_of(example, unit)
    n = len(units)

    def view(name: str) -> list[tuple[int, ...]]:
        return split(Augmentation(name, rate, unit)(*example, np.random.default_rng(seed))[0], units)

    if not n:
        return
    assert sorted(view("reorder")) == units
    assert sum(a != b for a, b in zip(view("reorder"), units, strict=True)) <= int(rate * n)
    assert sorted(view("exchange")) == units
    moved = sum(a != b for a, b in zip(view("exchange"), units, strict=True))
    assert moved == (0 if n == 1 else max(2, int(rate * n)))
    deleted = view("delete")
    assert len(deleted) == max(n - int(rate * n), 1) and deleted == sorted(set(deleted))
    duplicated = view("duplicate")
    assert len(duplicated) == n + int(rate * n) and duplicated == sorted(duplicated) and set(duplicated) == set(units)
    repeated = view("repeat")
    assert n <= len(repeated) <= n + min(n, max(2, int(rate * n)))
    assert repeated == sorted(repeated) and max(Counter(repeated).values()) <= 2
    cropped = view("crop")
    first = units.index(cropped[0])
    assert cropped == units[first : first + max(n - int(rate * n), 1)]
    assert len(cropped) == max(n - int(rate * n), 1)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["token", "word"])
@UNHURRIED
@given(example=sentences, share=rates, count=st.integers(1, 6), seed=seeds)
def test_spans_are_as_many_and_as_long_as_declared(
    unit: Any, example: Sentence, share: float, count: int, seed: int
) -> None:
    units = units_of(example, unit)
    n = len(units)
    rate = share / count
    remaining = split(Augmentation("span-delete", rate, unit, count)(*example, np.random.default_rng(seed))[0], units)
    assert len(remaining) == max(n - int(count * rate * n), min(n, 1))
    gone = [one not in remaining for one in units]
    assert sum(1 for there, _ in itertools.groupby(gone) if there) <= count

    rate = share / (2 * count)
    swapped = split(Augmentation("span-reorder", rate, unit, count)(*example, np.random.default_rng(seed))[0], units)
    assert sorted(swapped) == units
    # Swapped spans of different lengths push what lies between; cut at the seams, few pieces moved.
    places = [units.index(one) for one in swapped]
    seams = sum(b != a + 1 for a, b in itertools.pairwise([-1, *places, n]))
    assert seams <= 4 * count
    if int(2 * count * rate * n) < 2:
        assert swapped == units


@pytest.mark.parametrize("name", sorted(KINDS))
@pytest.mark.parametrize("words", [[], [1], [3]])
def test_empty_and_one_word_sentences_survive(name: str, words: list[int]) -> None:
    neighbours = np.zeros((200, 1), np.int32) + 150
    example = sentence(words)
    for unit, rate, seed in itertools.product(KINDS[name].units, [0.0, 0.4, 1.0], range(5)):
        rate = rate / (KINDS[name].spans or 1) if KINDS[name].rated else 1.0
        view, keep = Augmentation(name, rate, unit, 1, neighbours)(*example, np.random.default_rng(seed))
        assert len(view) == len(keep) and keep[0] and view[0] == CLS and SEP in view
        assert len(view) > 2 or not words


@pytest.mark.slow
def test_reorder_shuffles_the_share_of_places_it_declares() -> None:
    wanted: Counter[Any] = Counter()
    for places in itertools.combinations(range(4), 2):
        for back in itertools.permutations(places):
            order = [A, B, C, D]
            for place, source in zip(places, back, strict=True):
                order[place] = (A, B, C, D)[source]
            wanted[tuple(order)] += 1
    assert_distributed(outcomes("reorder:0.5", FOUR, ordinary), wanted)
    everything = dict.fromkeys(itertools.permutations([A, B, C, D]), 1.0)
    assert_distributed(outcomes("reorder:1.0", FOUR, ordinary), everything)


@pytest.mark.slow
def test_exchange_is_uniform_over_cycles_of_declared_places() -> None:
    """No sentence of two units or more stays as it is; int(0.5 * 4) = 2 places, and 2 also at a rate of 0.2."""
    pairs = Counter()
    for first, second in itertools.combinations(range(4), 2):
        order = [A, B, C, D]
        order[first], order[second] = order[second], order[first]
        pairs[tuple(order)] += 1
    assert_distributed(outcomes("exchange:0.5", FOUR, ordinary), pairs)
    assert_distributed(outcomes("exchange:0.2", FOUR, ordinary), pairs)
    four = (A, B, C, D)
    cycles = [(four[i], four[j], four[k], four[m]) for i, j, k, m in itertools.permutations(range(4))]
    derangements = {order for order in cycles if all(a != b for a, b in zip(order, four, strict=True))}
    in_pairs = {(B, A, D, C), (C, D, A, B), (D, C, B, A)}  # two exchanges, not one round of all four
    assert_distributed(outcomes("exchange:1.0", FOUR, ordinary), dict.fromkeys(derangements - in_pairs, 1.0))


@pytest.mark.slow
def test_duplicate_draws_with_replacement_and_delete_without() -> None:
    doubled = Counter(tuple(sorted([A, B, C, D, *drawn])) for drawn in itertools.product([A, B, C, D], repeat=2))
    assert_distributed(outcomes("duplicate:0.5", FOUR, ordinary), doubled)
    assert_distributed(outcomes("delete:0.5", FOUR, ordinary), Counter(itertools.combinations([A, B, C, D], 2)))


@pytest.mark.slow
def test_crop_windows_are_uniform() -> None:
    example = sentence([2, 1, 3, 1, 1])
    words = units_of(example, "word")
    wanted = {tuple(itertools.chain(*words[i : i + 3])): 1.0 for i in range(3)}
    assert_distributed(outcomes("crop:0.4:word", example, ordinary), wanted)


def test_repo_reorder_moves_the_last_special_not_the_first() -> None:
    wanted = {(CLS, *order): 1.0 for order in itertools.permutations([A, B, SEP])}
    assert_distributed(outcomes("reorder-repo", sentence([1, 1]), lambda view, _: tuple(view.tolist())), wanted)


def test_repo_duplicate_draws_from_the_growing_row() -> None:
    wanted: Counter[Any] = Counter()
    for first, second in itertools.product(range(1, 4), range(1, 5)):
        row = [CLS, A, B, SEP]
        for place in (first, second):
            row[place:place] = [row[place]]
        wanted[tuple(row)] += 1
    assert (CLS, A, B, SEP, SEP, SEP) in wanted
    assert_distributed(outcomes("duplicate-repo:0.5", sentence([1, 1]), lambda view, _: tuple(view.tolist())), wanted)


def test_repo_delete_only_hides_and_draws_with_replacement() -> None:
    wanted = Counter(tuple(i not in drawn for i in range(4)) for drawn in itertools.product(range(1, 4), repeat=2))
    example = sentence([1, 1])

    def mask(view: NDArray[Any], keep: NDArray[np.bool_]) -> Hashable:
        assert view.tolist() == example[0].tolist()
        return tuple(keep.tolist())

    assert_distributed(outcomes("delete-repo:0.5", example, mask), wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rate", "most"), [(30, 0.32, 9), (30, 0.2, 5), (8, 0.32, 2), (1, 0.3, 0), (1, 1.0, 1)])
def test_repo_repeat_stays_below_its_bound(n: int, rate: float, most: int) -> None:
    """At length 32 the share of 0.32 is 10, so 0..9; a sentence of three tokens is never touched at 0.3."""
    seen = outcomes(f"repeat-repo:{rate}", sentence([1] * n), lambda view, _: len(view) - n - 2)
    assert_distributed(seen, dict.fromkeys(range(most + 1), 1.0))


def test_a_chain_hands_words_and_mask_on() -> None:
    example = sentence([2, 1, 3, 2, 1, 1, 2])
    words = units_of(example, "word")
    for seed in range(50):
        view, keep = apply("delete:0.3:word+reorder:1.0:word", example, seed)
        assert sorted(split(view, words)) == sorted(set(split(view, words)))
        assert len(split(view, words)) == 5 and keep.all()
        view, keep = apply("delete-repo:0.5+reorder:1.0", example, seed)
        _, hidden = apply("delete-repo:0.5", example, seed)
        assert set(view[~keep].tolist()) == set(example[0][~hidden].tolist())
    parts = parse_augmentation("reorder:0.5+duplicate:0.2")
    generator = np.random.default_rng(3)
    ids, _ = parts[0](*example, generator)
    assert Counter(apply("reorder:0.5+duplicate:0.2", example, 3)[0].tolist()) >= Counter(ids.tolist())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("reorder:nan", "NAME:RATE"),
        ("reorder:0.2:words", "'word'"),
        ("delete-repo:0.2:word", "'token'"),
        ("span-reorder:5x0.2", "10 spans"),
    ],
)
def test_wrong_text_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        parse_augmentation(text)


def test_two_keeps_leave_a_third_to_one_augmentation() -> None:
    rng = np.random.default_rng(5)
    first, second = parse_augmentation("delete:0.1"), parse_augmentation("reorder-repo")
    seen = Counter(choose_chain([first], 2, rng) for _ in range(6000))
    assert_distributed(seen, {(): 2, first: 1})
    seen = Counter(choose_chain([first, second], 2, rng) for _ in range(6000))
    assert_distributed(seen, {(): 2, first: 1, second: 1})
    assert Counter(choose_chain([first], 0, rng) for _ in range(200)) == {first: 200}
