"""Texts to token ids: the same as the tokenizer gives one by one, in a ragged table and sorted batches."""

from __future__ import annotations

import functools
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
from zoo.engine.tokens import MEMORY, TokenMemory, clean_text, tokenise
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
    monkeypatch.setattr(tokens, "_CHUNK", 2)  # chunks of the list must join without a seam
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
    """Every text would be the same; a memory of such rows could not even say which they are."""
    for meet in (tokenise, TokenMemory().tokenise):
        with pytest.raises(UsageError, match=f"max_length {length} leaves no room for a text beside 2 special tokens"):
            meet(tokenizer, ["one", "two more"], max_length=length)
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
    monkeypatch.setattr(tokens, "_CHUNK", 2)
    with pytest.raises(ContractError, match=f"text 3 is {type(bad).__name__}"):
        tokenise(tokenizer, ["a", "b", "c", bad], max_length=None)


class Counting:
    """A tokenizer that notes the texts it is given."""

    def __init__(self, tokenizer: Any) -> None:
        self.inner = tokenizer
        self.seen: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __len__(self) -> int:
        return len(self.inner)

    def __call__(self, texts: list[str], **options: Any) -> Any:
        self.seen += texts
        return self.inner(texts, **options)


def same(first: tokens.TokenTable, second: tokens.TokenTable) -> bool:
    return (
        first.ids.tolist() == second.ids.tolist()
        and first.offsets.tolist() == second.offsets.tolist()
        and first.truncated == second.truncated
    )


@functools.cache
def _loaded(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, len(TEXTS) - 1), max_size=8), st.sampled_from([None, 6, 7, 12, 64]), st.booleans()
        ),
        max_size=6,
    ),
    st.sampled_from([0, 60, 10_000]),
)
def test_remembered_rows_equal_rows_tokenised_again(
    tiny_bert: Path, calls: list[tuple[list[int], int | None, bool]], most_characters: int
) -> None:
    """Any order of calls with any limits, with memory for nothing, for some texts, for all."""
    tokenizer = _loaded(tiny_bert)
    memory = TokenMemory(most_characters)
    for rows, max_length, specials in calls:
        texts = [TEXTS[i] for i in rows]
        options: Any = {"max_length": max_length, "add_special_tokens": specials}
        assert same(memory.tokenise(tokenizer, texts, **options), tokenise(tokenizer, texts, **options))


def test_equal_tokenizers_share_rows_other_limits_cut_again(tiny_bert: Path) -> None:
    first, second = (Counting(AutoTokenizer.from_pretrained(tiny_bert)) for _ in range(2))
    memory = TokenMemory()
    memory.tokenise(first, TEXTS, max_length=512)
    memory.tokenise(second, [*TEXTS[::2], "new"], max_length=512)
    assert (first.seen, second.seen) == (TEXTS, ["new"])
    memory.tokenise(second, TEXTS, max_length=16)
    memory.tokenise(first, TEXTS, max_length=16)
    assert (first.seen, second.seen) == (TEXTS, ["new", *TEXTS])


def test_texts_with_and_without_special_tokens_are_kept_apart(tiny_bert: Path) -> None:
    """[CLS] and [SEP] are two more."""
    memory, tokenizer = TokenMemory(), AutoTokenizer.from_pretrained(tiny_bert)
    for specials in (True, False, True):
        (length,) = memory.tokenise(tokenizer, ["a a a"], max_length=16, add_special_tokens=specials).lengths
        assert length == 3 + 2 * specials


def test_another_tokenizer_shares_nothing(tiny_bert: Path, tiny_roberta: Path) -> None:
    memory = TokenMemory()
    first = AutoTokenizer.from_pretrained(tiny_bert)
    memory.tokenise(first, TEXTS, max_length=512)
    grown = AutoTokenizer.from_pretrained(tiny_bert)
    memory.tokenise(grown, TEXTS, max_length=512)
    grown.add_tokens(["runs."])
    for other in (grown, AutoTokenizer.from_pretrained(tiny_roberta)):
        table = memory.tokenise(other, TEXTS, max_length=128)
        assert same(table, tokenise(other, TEXTS, max_length=128))
        assert not same(table, memory.tokenise(first, TEXTS, max_length=128))


def test_what_exceeds_the_memory_is_forgotten(tiny_bert: Path) -> None:
    counting = Counting(AutoTokenizer.from_pretrained(tiny_bert))
    memory = TokenMemory(most_characters=12)
    for text in ("one two", "three", "one two", "four", "a text that is longer than all", "four"):
        memory.tokenise(counting, [text], max_length=None)
    assert counting.seen == ["one two", "three", "four", "a text that is longer than all"]
    memory.tokenise(counting, ["one two"], max_length=None)
    assert counting.seen[-1] == "one two"


def test_a_fit_says_how_many_texts_are_tokenised(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million sentences take minutes before the first step, and before the first batch of a whitening."""
    monkeypatch.setattr("zoo.engine.tokens._CHUNK", 10)
    sentences = [f"sentence number {i}" for i in range(40)]
    for method in (Whitening, SimCSE):
        shown = io.StringIO()
        runtime = Runtime(progress=Progress(shown, seconds_between_lines=0))
        MEMORY.forget()
        method(method.Recipe(backbone=str(tiny_bert)), runtime).fit(Corpus("toy", sentences), run=Run())
        assert re.findall(r"tokenising: (\d+)/40", shown.getvalue()) == ["0", "10", "20", "30"]
