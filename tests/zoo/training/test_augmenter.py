"""Augmentations on real tokenizers: word starts, batches of views, and the tokens that a substitution draws."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from augment_cases import (
    CLS,
    FOUR,
    SEP,
    A,
    B,
    C,
    D,
    Sentence,
    assert_distributed,
    rates,
    seeds,
    sentence,
    sentences,
    units_of,
)
from hypothesis import given
from transformers import AutoTokenizer

from zoo.engine.tokens import tokenise
from zoo.training.augment import Augmenter, generator, parse_augmentation, sequence
from zoo.training.token_kinds import OTHER, PIECE, SPECIAL, WORD, nearest_tokens, token_kinds

ZOO_MINI = Path(__file__).resolve().parents[3] / "zoo" / "models" / "zoo-mini"


@pytest.fixture(scope="module", params=["zoo-mini", "tiny_roberta"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    folder = ZOO_MINI if request.param == "zoo-mini" else request.getfixturevalue(request.param)
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.slow
def test_words_start_where_the_tokenizer_says(tokenizer: Any, pocket_sentences: list[str]) -> None:
    starts = token_kinds(tokenizer) != PIECE
    assert len(starts) == len(tokenizer)
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


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_nearest_tokens_are_numpys(chunk: int) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(60, 5))
    vectors[11] = 0
    kinds = rng.choice([SPECIAL, WORD, PIECE, OTHER], 60, p=[0.1, 0.6, 0.2, 0.1]).astype(np.int8)
    nearest = nearest_tokens(torch.from_numpy(vectors), 4, kinds, chunk)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    for i in range(60):
        if kinds[i] not in (WORD, PIECE):
            assert nearest[i].tolist() == [-1] * 4
        elif i != 11:
            others = [j for j in range(60) if j != i and kinds[j] == kinds[i]]
            assert nearest[i].tolist() == sorted(others, key=lambda j: -float(unit[i] @ unit[j]))[:4]
    assert 11 not in nearest[11]


@pytest.mark.slow
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


@pytest.mark.slow
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
