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
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from zoo.errors import UsageError
from zoo.training.augment import (
    KINDS,
    Augmentation,
    choose_chain,
    parse_augmentation,
)

STRUCTURAL = ["exchange", "reorder", "duplicate", "delete", "repeat", "crop", "span-delete", "span-reorder"]
STRUCTURAL += ["repeat-repo"]


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("name", STRUCTURAL)
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


@pytest.mark.parametrize("name", sorted(KINDS))
@pytest.mark.parametrize("length", [0, 1])
def test_rows_without_a_frame_survive(name: str, length: int) -> None:
    row = np.full(length, 150, np.int32)
    neighbours = np.full((200, 1), 160, np.int32)
    for unit, special in itertools.product(KINDS[name].units, [False, True]):
        how = Augmentation(name, 0.5 if KINDS[name].rated else 1.0, unit, 1, neighbours)
        flags = np.full(length, special)
        view, keep = how(row, flags, np.zeros(length, np.bool_), np.random.default_rng(0))
        assert len(view) == len(keep) >= length


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
@pytest.mark.parametrize(
    ("n", "rate", "most"), [(4, 0.32, 2), (12, 0.32, 3), (2, 0.32, 2), (1, 0.32, 1), (20, 0.5, 10)]
)
@pytest.mark.parametrize("unit", ["token", "word"])
def test_repeat_draws_zero_to_the_larger_of_two_and_the_share(n: int, rate: float, most: int, unit: str) -> None:
    example = sentence([1 if unit == "token" else 2] * n)
    size = len(example[0])
    seen = outcomes(f"repeat:{rate}:{unit}", example, lambda view, _: (len(view) - size) * n // (size - 2), 4000)
    assert_distributed(seen, dict.fromkeys(range(most + 1), 1.0))


def test_repeat_chooses_the_units_uniformly() -> None:
    wanted: dict[Any, float] = {}
    for size in range(3):
        chosen = list(itertools.combinations([A, B, C, D], size))
        wanted |= {tuple(sorted([A, B, C, D, *more])): 1 / len(chosen) for more in chosen}
    assert_distributed(outcomes("repeat:0.32", FOUR, ordinary), wanted)


@pytest.mark.slow
def test_crop_windows_are_uniform() -> None:
    example = sentence([2, 1, 3, 1, 1])
    words = units_of(example, "word")
    wanted = {tuple(itertools.chain(*words[i : i + 3])): 1.0 for i in range(3)}
    assert_distributed(outcomes("crop:0.4:word", example, ordinary), wanted)


def placements(n: int, lengths: list[int]) -> list[list[tuple[int, int]]]:
    """All ways to put disjoint spans of these lengths, in any order, on n places."""
    places = []
    for order in sorted(set(itertools.permutations(lengths))):
        for starts in itertools.combinations(range(n), len(lengths)):
            spans = [(s, s + length) for s, length in zip(starts, order, strict=True)]
            if all(a[1] <= b[0] for a, b in itertools.pairwise(spans)) and spans[-1][1] <= n:
                places.append(spans)
    return places


@pytest.mark.slow
def test_deleted_spans_are_uniform_over_all_placements() -> None:
    example = sentence([1] * 7)
    letters = [100 + i for i in range(7)]
    wanted: Counter[Any] = Counter()
    for spans in placements(7, [2, 1]):
        wanted[tuple(x for i, x in enumerate(letters) if not any(s <= i < e for s, e in spans))] += 1
    assert_distributed(outcomes("span-delete:2x0.22", example, ordinary), wanted)


@pytest.mark.slow
def test_swapped_spans_are_uniform_over_places_and_matchings() -> None:
    letters = [100 + i for i in range(8)]
    one_pair: Counter[Any] = Counter()
    for (a, b), (c, d) in placements(8, [2, 2]):
        one_pair[(*letters[:a], *letters[c:d], *letters[b:c], *letters[a:b], *letters[d:])] += 1
    assert_distributed(outcomes("span-reorder:1x0.25", sentence([1] * 8), ordinary), one_pair)

    letters = letters[:5]
    two_pairs: Counter[Any] = Counter()
    for spans in placements(5, [1] * 4):
        w, x, y, z = (start for start, _ in spans)
        for pairs in [((w, x), (y, z)), ((w, y), (x, z)), ((w, z), (x, y))]:
            swapped = list(letters)
            for i, j in pairs:
                swapped[i], swapped[j] = swapped[j], swapped[i]
            two_pairs[tuple(swapped)] += 1
    assert_distributed(outcomes("span-reorder:2x0.2", sentence([1] * 5), ordinary), two_pairs)


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


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rate", "most"), [(6, 0.1, 1), (6, 0.9, 4), (40, 0.9, 9), (1, 0.9, 0), (2, 0.9, 1)])
def test_repo_repeat_of_words_spares_the_last(n: int, rate: float, most: int) -> None:
    example = sentence([2] * n)
    last = example[0][-2]

    def repeated(view: NDArray[Any], _: NDArray[np.bool_]) -> Hashable:
        assert (view == last).sum() == 1
        return (len(view) - 2) // 2 - n

    assert_distributed(outcomes(f"repeat-repo:{rate}:word", example, repeated), dict.fromkeys(range(most + 1), 1.0))


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


texts = st.builds(
    lambda name, rate, unit, count: str(
        Augmentation(
            name,
            (rate / (count * KINDS[name].spans) if KINDS[name].spans else rate) if KINDS[name].rated else 1.0,
            unit if unit in KINDS[name].units else "token",
            count if KINDS[name].spans else 1,
        )
    ),
    st.sampled_from(sorted(KINDS)),
    rates,
    st.sampled_from(["token", "word"]),
    st.integers(1, 9),
)


@given(st.lists(texts, min_size=1, max_size=3))
def test_text_and_augmentation_are_the_same_thing(chain: list[str]) -> None:
    parsed = parse_augmentation(" + ".join(chain))
    assert [str(how) for how in parsed] == chain
    assert parse_augmentation("+".join(chain)) == parsed


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
