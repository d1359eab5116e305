"""Texts to token ids: a ragged table, padded batches, and a cache of known texts."""

from __future__ import annotations

import hashlib
import json
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.errors import ContractError, UsageError
from zoo.progress import Progress

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase


# Larger calls of the tokenizer are not faster and need more memory.
_SLICE = 5_000
# So few texts are read at once, without a look at the parts that are known.
_FEW = 16
# The characters of the parts that a tokenizer remembers: with token ids about 150 MB.
_REMEMBERED = 32_000_000


@dataclass(frozen=True)
class TokenTable:
    """Token ids of n texts: row i is ids[offsets[i]:offsets[i+1]]; `truncated` counts cut texts."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]  # (n + 1,)
    truncated: int = 0

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def row(self, i: int) -> NDArray[np.int32]:
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    def taken(self, rows: NDArray[np.int64]) -> TokenTable:
        return self.stretches(self.offsets[rows], self.lengths[rows])

    def stretches(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> TokenTable:
        """Row i has the `lengths[i]` ids from place `starts[i]` on."""
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return TokenTable(self.ids[np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)], offsets)

    def equals(self, other: TokenTable) -> bool:
        same = np.array_equal(self.ids, other.ids) and np.array_equal(self.offsets, other.offsets)
        return same and self.truncated == other.truncated

    def first(self, most: int) -> TokenTable:
        return self.stretches(self.offsets[:-1], np.minimum(self.lengths, most))

    def framed(self, start: NDArray[np.int32], end: NDArray[np.int32]) -> TokenTable:
        offsets = self.offsets + np.arange(len(self) + 1) * (len(start) + len(end))
        ids = np.empty(offsets[-1], np.int32)
        places = np.arange(len(self.ids)) + np.repeat(offsets[:-1] - self.offsets[:-1] + len(start), self.lengths)
        ids[places] = self.ids
        ids[(offsets[:-1, None] + np.arange(len(start))).ravel()] = np.tile(start, len(self))
        ids[(offsets[1:, None] + np.arange(-len(end), 0)).ravel()] = np.tile(end, len(self))
        return TokenTable(ids, offsets, self.truncated)

    def without(self, dropped: Sequence[int]) -> TokenTable:
        others = ~np.isin(self.ids, dropped) if len(dropped) else np.ones(1, bool)
        if others.all():
            return self
        return TokenTable(self.ids[others], np.concatenate([[0], np.cumsum(others)])[self.offsets], self.truncated)

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], truncated: int = 0) -> TokenTable:
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets, truncated)

    @classmethod
    def joined(cls, tables: Sequence[TokenTable]) -> TokenTable:
        if len(tables) == 1:
            return tables[0]
        lengths = np.concatenate([np.empty(0, np.int64), *(table.lengths for table in tables)])
        ids = np.concatenate([np.empty(0, np.int32), *(table.ids for table in tables)])
        return cls(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    def with_cut(self, most: int, texts: Sequence[str], cut: Callable[[list[str]], TokenTable]) -> TokenTable:
        """Rows of more than `most` ids become those of `cut` for their texts."""
        long = np.flatnonzero(self.lengths > most)
        if not len(long):
            return self
        instead = cut([texts[i] for i in long.tolist()])
        order = np.arange(len(self))
        order[long] = len(self) + np.arange(len(long))
        table = TokenTable.joined([self, instead]).taken(order)
        return replace(table, truncated=instead.truncated)

    def padded(
        self, rows: Sequence[int] | NDArray[np.int64], pad_id: int, width: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and attention mask (len(rows), longest or `width`), int64, padded on the right."""
        rows = np.asarray(rows)
        starts, lengths = self.offsets[rows], self.lengths[rows]
        columns = np.arange(max(int(lengths.max(initial=0)), 1, width))
        mask = columns[None, :] < lengths[:, None]
        where = np.minimum(starts[:, None] + columns[None, :], max(len(self.ids) - 1, 0))
        ids = np.where(mask, self.ids[where], pad_id) if len(self.ids) else np.full(mask.shape, pad_id)
        return torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(mask.astype(np.int64))


def sif_weights(ids: NDArray[np.int32], vocabulary: int, a: float) -> torch.Tensor:
    """SIF's a / (a + p) of each token (vocabulary,), p its share of a text's ids."""
    counts = torch.from_numpy(np.bincount(ids, minlength=vocabulary))
    return a / (a + counts / counts.sum())


def clean_text(text: object, index: int) -> str:
    """Valid Unicode (lone surrogates become U+FFFD); raises ContractError for a non-string."""
    if not isinstance(text, str):
        raise ContractError(f"text {index} is {type(text).__name__}, not a string; pass a list of strings.")
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def frame_of(tokenizer: PreTrainedTokenizerBase) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    encoding = tokenizer("a", return_special_tokens_mask=True)
    return _frame(encoding["input_ids"], encoding["special_tokens_mask"])


def _frame(ids: Sequence[int], special: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    row, mask = np.array(ids, np.int32), np.array(special, np.bool_)
    begin = int(np.argmin(mask)) if len(mask) else 0
    return row[:begin], row[begin:][mask[begin:]]


def tokenise(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    max_length: int | None,
    add_special_tokens: bool = True,
    progress: Progress | None = None,
) -> TokenTable:
    """Ids of the tokenizer, cut to `max_length`; raises UsageError if special tokens fill that."""
    specials = tokenizer.num_special_tokens_to_add() if add_special_tokens else 0
    if max_length is not None and max_length <= specials:
        raise UsageError(f"max_length {max_length} leaves no room for a text beside {specials} special tokens.")
    road = MEMORY.road(tokenizer)
    tables: list[TokenTable] = []
    with (progress or Progress.silent()).bar("tokenising", len(texts)) as bar:
        for start in range(0, len(texts), _SLICE):
            bar.update(start)
            some = [clean_text(text, start + i) for i, text in enumerate(texts[start : start + _SLICE])]
            if road is None:
                tables.append(_by_library(tokenizer, some, max_length, add_special_tokens))
            else:
                tables.append(road.cut(some, max_length, add_special_tokens))
    table = TokenTable.joined(tables)
    return table if len(tables) == 1 else replace(table, truncated=sum(table.truncated for table in tables))


def _by_library(
    tokenizer: PreTrainedTokenizerBase, texts: list[str], max_length: int | None, add_special_tokens: bool
) -> TokenTable:
    encoded = tokenizer(
        texts,
        add_special_tokens=add_special_tokens,
        truncation=max_length is not None,
        max_length=max_length,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    rows = encoded["input_ids"]
    cut = 0
    if max_length is not None and encoded.encodings is not None:
        cut = sum(bool(encoding.overflowing and row) for row, encoding in zip(rows, encoded.encodings, strict=True))
    return TokenTable.of(rows, cut)


# A training's batches are made ahead in a thread.
_LOCK = threading.RLock()


class _Numbers(dict[str, int]):
    def __missing__(self, part: str) -> int:
        number = self[part] = len(self)
        return number


def _without_limit(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer itself: each call of the library leaves its truncation and padding in it."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def splits_at_blanks(tokenizer: Tokenizer) -> bool:
    """True if a text's tokens are those of its blank-separated parts, as in BERT."""
    state = json.loads(tokenizer.to_str())
    kinds = [(state[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
    blank_free = all(" " not in token["content"] and not token["lstrip"] for token in state["added_tokens"])
    return kinds == ["BertNormalizer", "BertPreTokenizer", "WordPiece"] and blank_free


class ChunkTokens:
    """A tokenizer's exact ids; what it made of the parts of texts (BERT: between blanks, else texts) is remembered.

    Its rows have no limit and no special tokens, and none of the `dropped` tokens.
    """

    def __init__(self, tokenizer: Tokenizer, dropped: Sequence[int] = ()) -> None:
        self.tokenizer, self.dropped = tokenizer, dropped
        self.by_part = splits_at_blanks(tokenizer)
        # Plain words and single signs of the vocabulary are their own token, in BERT's tokenizers.
        vocabulary = tokenizer.get_vocab() if self.by_part else {}
        plain = [token for token in vocabulary if token.isascii() and (len(token) == 1 or token.isalnum())]
        self._known = [token for token in plain if token == token.lower() and vocabulary[token] not in dropped]
        self._ids = np.array([vocabulary[token] for token in self._known], np.int32)
        encoding = _without_limit(tokenizer).encode("a")
        self.frame = _frame(encoding.ids, encoding.special_tokens_mask)
        self._forget()

    def _forget(self) -> None:
        self._numbers = _Numbers(zip(self._known, range(len(self._known)), strict=True))
        self._parts = TokenTable(self._ids, np.arange(len(self._ids) + 1))
        self._characters = 0

    def cut(self, texts: Sequence[str], max_length: int | None, add_special_tokens: bool) -> TokenTable:
        """Rows as of the tokenizer, with or without special tokens, of at most `max_length` ids."""
        if len(texts) <= _FEW and not self.dropped:
            table = self._tokenised(texts, add_special_tokens)
            if max_length is None or table.lengths.max(initial=0) <= max_length:
                return table
        start, end = self.frame if add_special_tokens else (self._ids[:0], self._ids[:0])
        table = self.table(texts)
        if max_length is not None:
            room = max_length - len(start) - len(end)
            if long := int((table.lengths > room).sum()):
                table = replace(table.first(room), truncated=long)
        return table.framed(start, end)

    def table(self, texts: Sequence[str]) -> TokenTable:
        if len(texts) <= _FEW:
            return self._tokenised(texts)
        with _LOCK:
            return TokenTable.joined(
                [self._by_part(texts[start : start + _SLICE]) for start in range(0, len(texts), _SLICE)]
            )

    def _by_part(self, texts: Sequence[str]) -> TokenTable:
        if self._characters > _REMEMBERED:
            self._forget()
        known = len(self._numbers)
        split = [text.split(" ") for text in texts] if self.by_part else [[text] for text in texts]
        sizes = np.fromiter(map(len, split), np.int64, len(split))
        numbers = np.fromiter(map(self._numbers.__getitem__, chain.from_iterable(split)), np.int64, int(sizes.sum()))
        if new := list(islice(self._numbers, known, None)):
            # A part that takes 60 bytes beside its characters and ids counts as so many.
            self._characters += sum(map(len, new)) + 60 * len(new)
            self._parts = TokenTable.joined([self._parts, self._tokenised(new)])
        parts = self._parts.taken(numbers)
        return TokenTable(parts.ids, parts.offsets[np.concatenate([[0], np.cumsum(sizes)])])

    def _tokenised(self, texts: Sequence[str], add_special_tokens: bool = False) -> TokenTable:
        with _LOCK:
            backend = _without_limit(self.tokenizer)
            encodings = backend.encode_batch_fast(list(texts), add_special_tokens=add_special_tokens)
        return TokenTable.of([encoding.ids for encoding in encodings]).without(self.dropped)


# What a tokenizer with code of its own may change: case, blanks, signs, special tokens, an empty text.
_SAMPLE = ["a", "", " The [SEP] A\u0301 b,\u3000<mask>  don't </s> 1,000x\n"]


class TokenMemory:
    """Equal tokenizers share what they remember of texts."""

    def __init__(self) -> None:
        self._shared: dict[str, ChunkTokens] = {}
        self._roads: weakref.WeakKeyDictionary[object, tuple[int, ChunkTokens | None]] = weakref.WeakKeyDictionary()

    def road(self, tokenizer: PreTrainedTokenizerBase) -> ChunkTokens | None:
        """The tokenizer's own fast backend; None without one, or where it cuts or reads a sample otherwise."""
        size, road = self._roads.get(tokenizer, (-1, None))
        if size != len(tokenizer):
            road = self._shared_road(tokenizer)
            self._roads[tokenizer] = len(tokenizer), road
        return road

    def _shared_road(self, tokenizer: PreTrainedTokenizerBase) -> ChunkTokens | None:
        backend: Tokenizer | None = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None or tokenizer.truncation_side != "right":
            return None
        identity = hashlib.sha256(_without_limit(backend).to_str().encode("utf-8", "surrogatepass")).hexdigest()
        road = self._shared.get(identity) or ChunkTokens(backend)
        # The engine's own tokenizer is its backend.
        for specials in (True, False) if callable(tokenizer) else ():
            for most in (None, 3 + sum(map(len, road.frame))):
                wanted = _by_library(tokenizer, _SAMPLE, most, specials)
                if not wanted.equals(road.cut(_SAMPLE, most, specials)):
                    return None
        return self._shared.setdefault(identity, road)

    def forget(self) -> None:
        self._shared.clear()
        self._roads.clear()


MEMORY = TokenMemory()
"""The tokenizers of this process."""
