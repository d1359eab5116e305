"""Texts to token ids: the same as the tokenizer gives one by one, in a ragged table and sorted batches."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from zoo import Corpus, Run, Runtime
from zoo.engine import tokens
from zoo.engine.batching import length_sorted_batches
from zoo.engine.tokens import MEMORY, clean_text, tokenise
from zoo.errors import ContractError, UsageError
from zoo.methods.simcse import SimCSE
from zoo.methods.whitening import Whitening
from zoo.progress import Progress

TEXTS = ["A small dog runs.", "", "rain", "word " * 40, "Two women talk while a third one reads a letter aloud."]


@pytest.fixture(scope="module", params=["tiny_bert", "tiny_roberta"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    folder: Path = request.getfixturevalue(request.param)
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("max_length", [None, 12])
@pytest.mark.parametrize("specials", [True, False])
def test_rows_equal_the_tokenizer_one_text_at_a_time(
    tokenizer: Any, max_length: int | None, specials: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_SLICE", 2)  # chunks of the list must join without a seam
    table = tokenise(tokenizer, TEXTS, max_length=max_length, add_special_tokens=specials)
    options = {"add_special_tokens": specials, "truncation": max_length is not None, "max_length": max_length}
    wanted = [tokenizer(text, **options)["input_ids"] for text in TEXTS]
    assert [table.row(i).tolist() for i in range(len(table))] == wanted
    assert table.lengths.tolist() == [len(row) for row in wanted]
    full = [len(tokenizer(text, add_special_tokens=specials)["input_ids"]) for text in TEXTS]
    assert table.truncated == (0 if max_length is None else sum(n > max_length for n in full))


def test_exactly_fitting_text_is_not_counted_as_truncated(tokenizer: Any) -> None:
    length = len(tokenizer("A small dog runs.")["input_ids"])
    assert tokenise(tokenizer, ["A small dog runs."], max_length=length).truncated == 0
    assert tokenise(tokenizer, ["A small dog runs."], max_length=length - 1).truncated == 1


def test_padded_batch_equals_the_tokenizers_own(tokenizer: Any) -> None:
    table = tokenise(tokenizer, TEXTS, max_length=None)
    rows = [4, 0, 2]
    ids, mask = table.padded(rows, tokenizer.pad_token_id)
    wanted = tokenizer([TEXTS[i] for i in rows], padding=True, return_tensors="np")
    np.testing.assert_array_equal(ids.numpy(), wanted["input_ids"])
    np.testing.assert_array_equal(mask.numpy(), wanted["attention_mask"])


@pytest.mark.parametrize("length", [1, 2])
def test_a_length_that_special_tokens_fill_is_refused(tokenizer: Any, length: int) -> None:
    with pytest.raises(UsageError, match=f"max_length {length} leaves no room for a text beside 2 special tokens"):
        tokenise(tokenizer, ["one", "two more"], max_length=length)
    assert len(tokenise(tokenizer, ["one"], max_length=length, add_special_tokens=False)) == 1


def test_no_texts_make_an_empty_table(tokenizer: Any) -> None:
    table = tokenise(tokenizer, [], max_length=None)
    assert len(table) == 0 and table.lengths.tolist() == []


def test_rows_without_tokens_are_padding_only(tokenizer: Any) -> None:
    table = tokenise(tokenizer, ["", ""], max_length=None, add_special_tokens=False)
    ids, mask = table.padded([0, 1], 5)
    assert ids.tolist() == [[5], [5]] and mask.tolist() == [[0], [0]]


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(1, 200))
def test_batches_hold_each_row_once_longest_first_in_budget(lengths: list[int], budget: int) -> None:
    batches = length_sorted_batches(np.array(lengths, dtype=np.int64), budget)
    flat = [int(i) for batch in batches for i in batch]
    assert sorted(flat) == list(range(len(lengths)))
    ordered = [lengths[i] for i in flat]
    assert ordered == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert clean_text("a\ud800b", 0) == "a\ufffdb"
    assert clean_text("\U0001f600", 0) == "\U0001f600"


@pytest.mark.parametrize("bad", [None, 3, b"bytes", ["list"], np.nan])
def test_a_non_string_is_named_with_its_index(tokenizer: Any, bad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_SLICE", 2)
    with pytest.raises(ContractError, match=f"text 3 is {type(bad).__name__}"):
        tokenise(tokenizer, ["a", "b", "c", bad], max_length=None)


def test_equal_tokenizers_share_what_they_remember_and_a_grown_one_nothing(tiny_bert: Path) -> None:
    first, second, grown = (AutoTokenizer.from_pretrained(tiny_bert) for _ in range(3))
    road = MEMORY.road(first)
    assert road is not None and MEMORY.road(second) is road is MEMORY.road(grown)
    grown.add_tokens(["runs."])
    for tokenizer in (first, grown):
        wanted = [tokenizer(text)["input_ids"] for text in TEXTS]
        table = tokenise(tokenizer, 5 * TEXTS, max_length=None)
        assert [table.row(i).tolist() for i in range(len(TEXTS))] == wanted
    assert MEMORY.road(grown) is not road


def test_a_fit_says_how_many_texts_are_tokenised(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million sentences take minutes before the first step, and before the first batch of a whitening."""
    monkeypatch.setattr("zoo.engine.tokens._SLICE", 10)
    sentences = [f"sentence number {i}" for i in range(40)]
    for method in (Whitening, SimCSE):
        shown = io.StringIO()
        runtime = Runtime(progress=Progress(shown, seconds_between_lines=0))
        MEMORY.forget()
        method(method.Recipe(backbone=str(tiny_bert)), runtime).fit(Corpus("toy", sentences), run=Run())
        assert re.findall(r"tokenising: (\d+)/40", shown.getvalue()) == ["0", "10", "20", "30"]
