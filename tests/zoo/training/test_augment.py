"""Augmentations against plain enumeration: what stays, what is kept together, and how often each outcome comes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare
from transformers import AutoTokenizer

from zoo.errors import UsageError
from zoo.files import read_tensors
from zoo.tokens import tokenise
from zoo.training.augment import (
    KINDS,
    OTHER,
    PIECE,
    SPECIAL,
    WORD,
    Augmentation,
    Augmenter,
    choose,
    generator,
    nearest_tokens,
    parse_augmentation,
    sequence,
    token_kinds,
    word_starts,
)

ZOO_MINI = Path(__file__).resolve().parents[3] / "zoo" / "models" / "zoo-mini"
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
    found = []
    while tokens:
        one = by_first[tokens[0]]
        assert tuple(tokens[: len(one)]) == one
        found.append(one)
        del tokens[: len(one)]
    return found


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


STRUCTURAL = ["reorder", "duplicate", "delete", "repeat", "crop", "span-delete", "span-reorder", "repeat-repo"]


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
    found = split(view, units)
    assert bool(found) == bool(units)
    if not units:
        np.testing.assert_array_equal(view, example[0])
    again, _ = how(*example, np.random.default_rng(seed))
    np.testing.assert_array_equal(view, again)


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


@pytest.mark.parametrize("unit", ["token", "word"])
@given(example=sentences, share=rates, count=st.integers(1, 6), seed=seeds)
def test_spans_are_as_many_and_as_long_as_declared(
    unit: Any, example: Sentence, share: float, count: int, seed: int
) -> None:
    units = units_of(example, unit)
    n = len(units)
    rate = share / count
    left = split(Augmentation("span-delete", rate, unit, count)(*example, np.random.default_rng(seed))[0], units)
    assert len(left) == max(n - int(count * rate * n), min(n, 1))
    gone = [one not in left for one in units]
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


FOUR = sentence([1, 1, 1, 1])
A, B, C, D = 100, 101, 102, 103


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


def test_duplicate_draws_with_replacement_and_delete_without() -> None:
    doubled = Counter(tuple(sorted([A, B, C, D, *drawn])) for drawn in itertools.product([A, B, C, D], repeat=2))
    assert_distributed(outcomes("duplicate:0.5", FOUR, ordinary), doubled)
    assert_distributed(outcomes("delete:0.5", FOUR, ordinary), Counter(itertools.combinations([A, B, C, D], 2)))


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


def test_crop_windows_are_uniform() -> None:
    example = sentence([2, 1, 3, 1, 1])
    words = units_of(example, "word")
    wanted = {tuple(itertools.chain(*words[i : i + 3])): 1.0 for i in range(3)}
    assert_distributed(outcomes("crop:0.4:word", example, ordinary), wanted)


def placements(n: int, lengths: list[int]) -> list[list[tuple[int, int]]]:
    """All ways to put disjoint spans of these lengths, in any order, on n places."""
    found = []
    for order in sorted(set(itertools.permutations(lengths))):
        for starts in itertools.combinations(range(n), len(lengths)):
            spans = [(s, s + length) for s, length in zip(starts, order, strict=True)]
            if all(a[1] <= b[0] for a, b in itertools.pairwise(spans)) and spans[-1][1] <= n:
                found.append(spans)
    return found


def test_deleted_spans_are_uniform_over_all_placements() -> None:
    example = sentence([1] * 7)
    letters = [100 + i for i in range(7)]
    wanted: Counter[Any] = Counter()
    for spans in placements(7, [2, 1]):
        wanted[tuple(x for i, x in enumerate(letters) if not any(s <= i < e for s, e in spans))] += 1
    assert_distributed(outcomes("span-delete:2x0.22", example, ordinary), wanted)


def test_swapped_spans_are_uniform_over_all_placements_and_matchings() -> None:
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


def test_repo_reorder_moves_the_last_special_too_but_not_the_first() -> None:
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


@pytest.mark.parametrize(("n", "rate", "most"), [(30, 0.32, 9), (30, 0.2, 5), (8, 0.32, 2), (1, 0.3, 0), (1, 1.0, 1)])
def test_repo_repeat_stays_below_its_bound(n: int, rate: float, most: int) -> None:
    """At length 32 the share of 0.32 is 10, so 0..9; a sentence of three tokens is never touched at 0.3."""
    seen = outcomes(f"repeat-repo:{rate}", sentence([1] * n), lambda view, _: len(view) - n - 2)
    assert_distributed(seen, dict.fromkeys(range(most + 1), 1.0))


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
    one = np.random.default_rng(3)
    ids, _ = parts[0](*example, one)
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


def test_text_is_read() -> None:
    assert parse_augmentation("duplicate:0.2:word") == (Augmentation("duplicate", 0.2, "word"),)
    assert parse_augmentation("span-delete:5x0.05") == (Augmentation("span-delete", 0.05, "token", 5),)
    assert parse_augmentation("span-delete:.05") == (Augmentation("span-delete", 0.05),)
    assert parse_augmentation("crop:1e-1:token+reorder-repo") == (
        Augmentation("crop", 0.1),
        Augmentation("reorder-repo", 1.0),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reordr:0.2", "Did you mean 'reorder'"),
        ("shuffle:0.2", "unknown augmentation 'shuffle'. Known: reorder, duplicate"),
        ("", "unknown augmentation ''"),
        ("delete:0.1+", "unknown augmentation ''"),
        ("reorder", "write 'reorder:0.2'"),
        ("span-delete", "write 'span-delete:5x0.05'"),
        ("reorder:", "is not NAME:RATE"),
        ("reorder:much", "is not NAME:RATE"),
        ("reorder:nan", "is not NAME:RATE"),
        ("reorder: 0.2", "is not NAME:RATE"),
        ("reorder:0.2:", "is not NAME:RATE"),
        ("reorder:1.2", "between 0 and 1, not 1.2"),
        ("reorder:-0.1", "between 0 and 1, not -0.1"),
        ("reorder:20", "between 0 and 1"),
        ("reorder:0.2:words", "Did you mean 'word'"),
        ("reorder:0.2:word:word", "the unit must be 'token' or 'word', not 'word:word'"),
        ("delete-repo:0.2:word", "the unit must be 'token', not 'word'"),
        ("reorder-repo:0.2", "takes no rate"),
        ("delete:2x0.2", "cannot have 2 spans"),
        ("span-delete:0x0.2", "cannot have 0 spans"),
        ("span-delete:5x0.3", "5 spans of 0.3 are more than the sentence"),
        ("span-reorder:5x0.2", "10 spans of 0.2 are more than the sentence"),
    ],
)
def test_wrong_text_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        parse_augmentation(text)


def test_not_a_number_is_no_rate() -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        Augmentation("delete", float("nan"))


def test_two_keeps_leave_a_third_to_one_augmentation() -> None:
    rng = np.random.default_rng(5)
    one, other = parse_augmentation("delete:0.1"), parse_augmentation("reorder-repo")
    seen = Counter(choose([one], 2, rng) for _ in range(6000))
    assert_distributed(seen, {(): 2, one: 1})
    seen = Counter(choose([one, other], 2, rng) for _ in range(6000))
    assert_distributed(seen, {(): 2, one: 1, other: 1})
    assert Counter(choose([one], 0, rng) for _ in range(200)) == {one: 200}


@pytest.fixture(scope="module", params=["zoo-mini", "tiny_roberta"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    folder = ZOO_MINI if request.param == "zoo-mini" else request.getfixturevalue(request.param)
    return AutoTokenizer.from_pretrained(folder)


def test_words_start_where_the_tokenizer_says(tokenizer: Any, pocket_sentences: list[str]) -> None:
    starts = word_starts(tokenizer)
    assert starts.dtype == bool and len(starts) == len(tokenizer)
    pieces = 0
    for text in [*pocket_sentences[:200], "unaffable re-entering hyperbolicity"]:
        encoded = tokenizer(text, add_special_tokens=False)
        ids, words = encoded["input_ids"], encoded.word_ids()
        if "##s" in tokenizer.get_vocab():
            wanted = [word != before for before, word in itertools.pairwise([None, *words])]
        else:
            wanted = [tokenizer.decode([token]).startswith(" ") for token in ids]
            assert not wanted[0]
        assert starts[ids].tolist() == wanted
        pieces += len(wanted) - sum(wanted)
    assert pieces > 10


def test_kinds_of_tokens(tokenizer: Any) -> None:
    kinds = token_kinds(tokenizer)
    frame = [tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id, tokenizer.mask_token_id]
    assert set(kinds[frame].tolist()) == {SPECIAL} and (kinds == SPECIAL).sum() == len(set(frame))
    assert kinds[tokenizer.unk_token_id] == OTHER
    vocabulary = tokenizer.get_vocab()
    if "##s" in vocabulary:
        assert (kinds == PIECE).sum() == sum(token.startswith("##") for token in vocabulary)
        assert kinds[vocabulary["[unused42]"]] == OTHER and kinds[vocabulary["dog"]] == WORD
    else:
        assert kinds[vocabulary["Ġthe"]] == WORD and kinds[vocabulary["."]] == PIECE


def test_a_vocabulary_without_word_marks_is_refused() -> None:
    fake = SimpleNamespace(get_vocab=lambda: {"a": 0, "b": 1}, all_special_ids=[], unk_token=None)
    with pytest.raises(UsageError, match="neither with ##"):
        word_starts(fake)


def test_views_of_real_sentences_are_made_of_their_words(tokenizer: Any, pocket_sentences: list[str]) -> None:
    table = tokenise(tokenizer, pocket_sentences[:64], max_length=32)
    rows = [table.row(i) for i in range(len(table))]
    augmenter = Augmenter((parse_augmentation("delete:0.3:word"),), token_kinds(tokenizer), tokenizer.pad_token_id)
    ids, mask = augmenter.batch(rows, generator(1, 0))
    assert ids.dtype == mask.dtype == torch.int64

    def words_of(row: Any) -> list[str]:
        tokens = tokenizer.convert_ids_to_tokens(row.tolist())[1:-1]
        if "##s" in tokenizer.get_vocab():
            return " ".join(tokens).replace(" ##", "").split()
        return "".join(tokens).split("Ġ")

    for row, view, keep in zip(rows, ids, mask, strict=True):
        words, left = words_of(row), [word for word in words_of(view[keep.bool()]) if word]
        remaining = iter(words)
        assert all(word in remaining for word in left)  # in their order
        assert len(left) == len(words) - int(0.3 * len(words))


def test_a_kept_batch_is_the_tables_own(tokenizer: Any, pocket_sentences: list[str]) -> None:
    table = tokenise(tokenizer, [*pocket_sentences[:5], ""], max_length=None)
    rows = [5, 0, 3, 1]
    augmenter = Augmenter((), token_kinds(tokenizer), tokenizer.pad_token_id, keeps=1)
    kept = augmenter.batch([table.row(i) for i in rows], generator(0, 0))
    for ours, wanted in zip(kept, table.padded(rows, tokenizer.pad_token_id), strict=True):
        assert torch.equal(ours, wanted)
    assert augmenter.batch([], generator(0, 0))[0].shape == (0, 1)


KINDS_OF_IDS = np.array([OTHER, SPECIAL, SPECIAL, *[WORD] * 300], np.int8)


def test_too_long_a_view_is_cut_before_its_last_special() -> None:
    rows = [sentence([1] * n)[0] for n in (10, 3)]
    augmenter = Augmenter((parse_augmentation("duplicate:1.0"),), KINDS_OF_IDS, 0, max_length=12)
    ids, mask = augmenter.batch(rows, generator(0, 0))
    assert ids.shape == (2, 12)
    assert ids[0, 0] == CLS and ids[0, -1] == SEP and int(mask[0].sum()) == 12
    uncut = Augmenter(augmenter.chains, KINDS_OF_IDS, 0).batch(rows, generator(0, 0))[0]
    assert ids[0, :11].tolist() == uncut[0, :11].tolist()
    assert ids[1, :8].tolist() == uncut[1, :8].tolist() and ids[1, 8:].tolist() == [0] * 4
    bare = Augmenter(augmenter.chains, KINDS_OF_IDS, 0, max_length=12).view(rows[0][:-1], generator(0, 1))[0]
    assert len(bare) == 12 and bare[-1] >= 100


def test_repo_deletion_shows_in_the_mask_alone() -> None:
    rows = [sentence([1] * n)[0] for n in (8, 4)]
    ids, mask = Augmenter((parse_augmentation("delete-repo:0.5"),), KINDS_OF_IDS, 0).batch(rows, generator(2, 9))
    assert ids[0].tolist() == rows[0].tolist() and ids[1, :6].tolist() == rows[1].tolist()
    assert 1 <= int((mask[0] == 0).sum()) <= 5 and mask[:, 0].all() and not mask[1, 6:].any()


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    rows = [sentence([2, 1, 3, 1, 1, 2])[0] for _ in range(16)]
    chains = tuple(map(parse_augmentation, ["reorder:1.0", "repeat:0.32", "delete:0.3+duplicate:0.2"]))
    augmenter = Augmenter(chains, KINDS_OF_IDS, 0, keeps=2)
    through = [augmenter.batch(rows, generator(7, step)) for step in range(4)]
    for ours, wanted in zip(augmenter.batch(rows, generator(7, 3)), through[3], strict=True):
        assert torch.equal(ours, wanted)
    draws = {tuple(generator(seed, step).integers(2**32, size=2).tolist()) for seed in range(5) for step in range(5)}
    assert len(draws) == 25
    assert generator(3, 0).random() != np.random.default_rng([3, 0]).random()  # the loop's order of data


def test_an_augmenter_without_a_choice_is_refused() -> None:
    for keeps in (0, -1):
        with pytest.raises(UsageError, match="nothing to choose from"):
            Augmenter((), KINDS_OF_IDS, 0, keeps=keeps)
    with pytest.raises(UsageError, match="needs the nearest tokens"):
        Augmenter((parse_augmentation("reorder:0.1+substitute:0.3"),), KINDS_OF_IDS, 0)
    with pytest.raises(UsageError, match="needs the nearest tokens"):
        apply("substitute:0.3", FOUR, 0)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_nearest_tokens_are_numpys(chunk: int) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(60, 5))
    vectors[11] = 0
    kinds = rng.choice([SPECIAL, WORD, PIECE, OTHER], 60, p=[0.1, 0.6, 0.2, 0.1]).astype(np.int8)
    found = nearest_tokens(torch.from_numpy(vectors), 4, kinds, chunk)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    for i in range(60):
        if kinds[i] not in (WORD, PIECE):
            assert found[i].tolist() == [-1] * 4
        elif i != 11:
            others = [j for j in range(60) if j != i and kinds[j] == kinds[i]]
            assert found[i].tolist() == sorted(others, key=lambda j: -float(unit[i] @ unit[j]))[:4]
    assert 11 not in found[11]


def test_a_token_has_no_more_neighbours_than_there_are() -> None:
    kinds = np.array([WORD, WORD, PIECE, WORD, SPECIAL], np.int8)
    found = nearest_tokens(torch.eye(5)[:, :3] + torch.tensor([0.1, 0.0, 0.0]), 3, kinds)
    assert sorted(found[0].tolist()) == [-1, 1, 3] and found[0, 2] == -1
    assert found[2].tolist() == found[4].tolist() == [-1] * 3


def test_nearest_tokens_of_the_bundled_model_mean_something() -> None:
    tokenizer = AutoTokenizer.from_pretrained(ZOO_MINI)
    tensors, _ = read_tensors(ZOO_MINI / "model.safetensors")
    name = next(key for key in tensors if key.endswith("word_embeddings.weight"))
    kinds = token_kinds(tokenizer)
    kinds[6000:] = OTHER  # the commonest words are enough here
    found = nearest_tokens(tensors[name], 5, kinds)
    for word, expected in {"north": "south", "three": "four", "husband": "wife"}.items():
        near = tokenizer.convert_ids_to_tokens(found[tokenizer.convert_tokens_to_ids(word)].tolist())
        assert expected in near, (word, near)


def test_substitution_is_uniform_over_the_neighbours() -> None:
    neighbours = np.full((110, 3), -1, np.int32)
    neighbours[A, :3], neighbours[B, :2], neighbours[C, :1] = (7, 8, 9), (5, 6), 4
    rng = np.random.default_rng(8)
    chain = parse_augmentation("substitute:1.0", neighbours)
    seen = Counter(tuple(sequence(chain, *FOUR, rng)[0].tolist()) for _ in range(3000))
    wanted = {(CLS, a, b, 4, D, SEP): 1.0 for a in (7, 8, 9) for b in (5, 6)}
    assert_distributed(seen, wanted)
    chain = parse_augmentation("substitute:0.5", neighbours)
    changed = Counter(tuple((sequence(chain, *FOUR, rng)[0] != FOUR[0]).tolist()) for _ in range(3000))
    places = [
        (False, a, b, c, False, False) for a, b, c in itertools.product([True, False], repeat=3) if a + b + c == 2
    ]
    assert_distributed(changed, dict.fromkeys(places, 1.0))


@given(example=sentences, rate=rates, seed=seeds)
def test_substitution_of_words_spares_words_of_pieces(example: Sentence, rate: float, seed: int) -> None:
    neighbours = np.full((300, 2), -1, np.int32)
    neighbours[100:] = 90, 91
    words = units_of(example, "word")
    singles = {word[0] for word in words if len(word) == 1}
    for unit, among, n in [("word", len(singles), len(words)), ("token", sum(map(len, words)), sum(map(len, words)))]:
        chain = parse_augmentation(f"substitute:{rate}:{unit}", neighbours)
        before = example[0].copy()
        view, keep = sequence(chain, *example, np.random.default_rng(seed))
        np.testing.assert_array_equal(example[0], before)
        changed = view != example[0]
        assert keep.all() and changed.sum() == min(int(rate * n), among)
        assert set(view[changed].tolist()) <= {90, 91} and not changed[example[1]].any()
        assert unit == "token" or set(example[0][changed].tolist()) <= singles
