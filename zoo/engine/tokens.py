"""Texts to token ids: a ragged table, padded batches, and a cache of known texts."""

from __future__ import annotations

import hashlib
import json
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.errors import ContractError, UsageError
from zoo.progress import Bar, Progress

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase


# Larger calls of the tokenizer are not faster and need more memory.
_CHUNK = 2_000
# The characters of all cached texts: with token ids about 150 MB.
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
        others = ~np.isin(self.ids, dropped)
        if others.all():
            return self
        return TokenTable(self.ids[others], np.concatenate([[0], np.cumsum(others)])[self.offsets], self.truncated)

    @classmethod
    def joined(cls, tables: Sequence[TokenTable]) -> TokenTable:
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
    special, ids = np.array(encoding["special_tokens_mask"], np.bool_), np.array(encoding["input_ids"], np.int32)
    begin = int(np.argmin(special))
    return ids[:begin], ids[begin:][special[begin:]]


def tokenise(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    max_length: int | None,
    add_special_tokens: bool = True,
    progress: Progress | None = None,
) -> TokenTable:
    """Tokenise in big batches, cut to `max_length`; raises UsageError if special tokens fill that."""
    return _tokenise(tokenizer, texts, max_length, add_special_tokens, progress)[0]


def _tokenise(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    max_length: int | None,
    add_special_tokens: bool,
    progress: Progress | None,
) -> tuple[TokenTable, NDArray[np.bool_]]:
    with (progress or Progress.silent()).bar("tokenising", len(texts)) as bar:
        return _in_chunks(tokenizer, texts, max_length, add_special_tokens, bar)


def _in_chunks(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int | None, add_special_tokens: bool, bar: Bar
) -> tuple[TokenTable, NDArray[np.bool_]]:
    specials = tokenizer.num_special_tokens_to_add() if add_special_tokens else 0
    if max_length is not None and max_length <= specials:
        raise UsageError(f"max_length {max_length} leaves no room for a text beside {specials} special tokens.")
    pieces: list[NDArray[np.int32]] = []
    lengths: list[int] = []
    cut = np.zeros(len(texts), np.bool_)
    for start in range(0, len(texts), _CHUNK):
        bar.update(start)
        chunk = [clean_text(text, start + i) for i, text in enumerate(texts[start : start + _CHUNK])]
        encoded = tokenizer(
            chunk,
            add_special_tokens=add_special_tokens,
            truncation=max_length is not None,
            max_length=max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        rows = encoded["input_ids"]
        counts = [len(row) for row in rows]
        lengths.extend(counts)
        pieces.append(np.fromiter(chain.from_iterable(rows), np.int32, sum(counts)))
        if max_length is not None and encoded.encodings is not None:
            here = [bool(one.overflowing and row) for row, one in zip(rows, encoded.encodings, strict=True)]
            cut[start : start + len(here)] = here
    ids = np.concatenate(pieces) if pieces else np.empty(0, np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    return TokenTable(ids, offsets, int(cut.sum())), cut


class _Known:
    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.table = TokenTable(np.empty(0, np.int32), np.zeros(1, np.int64))
        self.cut = np.empty(0, np.bool_)

    def add(self, texts: list[str], table: TokenTable, cut: NDArray[np.bool_]) -> None:
        self.rows.update(zip(texts, range(len(self.rows), len(self.rows) + len(texts)), strict=True))
        self.table, self.cut = TokenTable.joined([self.table, table]), np.concatenate([self.cut, cut])

    def take(self, texts: Sequence[str]) -> TokenTable:
        rows = np.fromiter((self.rows[text] for text in texts), np.int64, len(texts))
        return replace(self.table.taken(rows), truncated=int(self.cut[rows].sum()))


class TokenMemory:
    """`tokenise`, but each text once for all encoders with equal tokenizers and limits.

    The cache is emptied at `most_characters`; a larger call (a training corpus) is not cached.
    """

    def __init__(self, most_characters: int = _REMEMBERED) -> None:
        self.most_characters = most_characters
        self.characters = 0
        self._known: defaultdict[tuple[str, int | None, bool], _Known] = defaultdict(_Known)
        self._identities: weakref.WeakKeyDictionary[object, tuple[int, str]] = weakref.WeakKeyDictionary()

    def tokenise(
        self,
        tokenizer: PreTrainedTokenizerBase,
        texts: Sequence[str],
        *,
        max_length: int | None,
        add_special_tokens: bool = True,
        progress: Progress | None = None,
    ) -> TokenTable:
        identity = self._identity(tokenizer)
        if identity is None or sum(map(len, texts)) > self.most_characters:
            return _tokenise(tokenizer, texts, max_length, add_special_tokens, progress)[0]
        key = (identity, max_length, add_special_tokens)
        new = [text for text in dict.fromkeys(texts) if text not in self._known[key].rows]
        if self.characters + sum(map(len, new)) > self.most_characters:
            self.forget()
            new = list(dict.fromkeys(texts))
        if new:
            self._known[key].add(new, *_tokenise(tokenizer, new, max_length, add_special_tokens, progress))
            self.characters += sum(map(len, new))
        return self._known[key].take(texts)

    def forget(self) -> None:
        self._known.clear()
        self.characters = 0

    def _identity(self, tokenizer: PreTrainedTokenizerBase) -> str | None:
        """Sha256 of a tokenizer's state as far as ids depend on it; None without a fast backend."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            return None
        length, identity = self._identities.get(tokenizer, (-1, ""))
        if length != len(tokenizer):
            # Each call sets truncation and padding, so they are no part of the identity.
            backend.no_truncation()
            backend.no_padding()
            content = f"{type(tokenizer).__name__} {tokenizer.truncation_side} {backend.to_str()}"
            identity = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
            self._identities[tokenizer] = len(tokenizer), identity
        return identity


MEMORY = TokenMemory()
"""The cache of this process."""


_SLICE = 20_000
# The cache keeps so many parts, about 100 MB.
_MOST = 500_000


class _Numbers(dict[str, int]):
    def __missing__(self, part: str) -> int:
        number = self[part] = len(self)
        return number


def splits_at_blanks(tokenizer: Tokenizer) -> bool:
    """True if a text's tokens are those of its blank-separated parts, as in BERT."""
    state = json.loads(tokenizer.to_str())
    kinds = [(state[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
    blank_free = all(" " not in token["content"] and not token["lstrip"] for token in state["added_tokens"])
    return kinds == ["BertNormalizer", "BertPreTokenizer", "WordPiece"] and blank_free


class ChunkTokens:
    """A tokenizer's exact ids, without special tokens, `dropped` tokens or a limit, by parts at blanks if possible."""

    def __init__(self, tokenizer: Tokenizer, dropped: Sequence[int] = ()) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer, self.dropped = tokenizer, dropped
        self.by_part = splits_at_blanks(tokenizer)
        # Plain words and single signs of the vocabulary are their own token, in BERT's tokenizers.
        vocabulary = tokenizer.get_vocab() if self.by_part else {}
        plain = [token for token in vocabulary if token.isascii() and (len(token) == 1 or token.isalnum())]
        self._known = [token for token in plain if token == token.lower() and vocabulary[token] not in dropped]
        self._ids = np.array([vocabulary[token] for token in self._known], np.int32)
        self._forget()

    def _forget(self) -> None:
        self._numbers = _Numbers(zip(self._known, range(len(self._known)), strict=True))
        self._parts = TokenTable(self._ids, np.arange(len(self._ids) + 1))

    def table(self, texts: Sequence[str]) -> TokenTable:
        read = self._by_part if self.by_part else self._tokenised
        pieces = [read(texts[start : start + _SLICE]) for start in range(0, len(texts), _SLICE)]
        return TokenTable.joined(pieces)

    def _by_part(self, texts: Sequence[str]) -> TokenTable:
        if len(self._numbers) > _MOST:
            self._forget()
        known = len(self._numbers)
        split = [text.split(" ") for text in texts]
        sizes = np.fromiter(map(len, split), np.int64, len(split))
        numbers = np.fromiter(map(self._numbers.__getitem__, chain.from_iterable(split)), np.int64, int(sizes.sum()))
        if new := list(islice(self._numbers, known, None)):
            self._parts = TokenTable.joined([self._parts, self._tokenised(new)])
        parts = self._parts.taken(numbers)
        return TokenTable(parts.ids, parts.offsets[np.concatenate([[0], np.cumsum(sizes)])])

    def _tokenised(self, texts: Sequence[str]) -> TokenTable:
        rows = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        table = TokenTable(np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets)
        return table.without(self.dropped)
