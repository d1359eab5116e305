"""Texts to token ids, once: a compact ragged table and the padded batches made from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.errors import ContractError

_CHUNK = 20_000  # texts handed to the tokenizer at a time: fast, and bounds the memory of its Python lists


@dataclass(frozen=True)
class TokenTable:
    """Token ids of n texts: row i is ids[offsets[i]:offsets[i+1]]; `truncated` counts the texts cut."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]  # (n + 1,)
    truncated: int = 0

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens in each row (n,)."""
        return np.diff(self.offsets)

    def row(self, i: int) -> NDArray[np.int32]:
        """Token ids of text i."""
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    def padded(self, rows: Sequence[int] | NDArray[np.int64], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return input_ids and attention_mask (len(rows), longest), int64, padded on the right."""
        rows = np.asarray(rows)
        starts, lengths = self.offsets[rows], self.lengths[rows]
        columns = np.arange(max(int(lengths.max(initial=0)), 1))
        mask = columns[None, :] < lengths[:, None]
        where = np.minimum(starts[:, None] + columns[None, :], max(len(self.ids) - 1, 0))
        ids = np.where(mask, self.ids[where], pad_id) if len(self.ids) else np.full(mask.shape, pad_id)
        return torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(mask.astype(np.int64))


def clean_text(text: Any, index: int) -> str:
    """Return `text` as valid Unicode (lone surrogates become U+FFFD); raises ContractError for a non-string."""
    if not isinstance(text, str):
        raise ContractError(f"text {index} is {type(text).__name__}, not a string; pass a list of strings.")
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def tokenise(
    tokenizer: Any, texts: Sequence[str], *, max_length: int | None, add_special_tokens: bool = True
) -> TokenTable:
    """Tokenise all texts in big batches; rows longer than `max_length` tokens (specials included) are cut."""
    pieces: list[NDArray[np.int32]] = []
    lengths: list[int] = []
    truncated = 0
    for start in range(0, len(texts), _CHUNK):
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
        lengths.extend(len(row) for row in rows)
        pieces.extend(np.asarray(row, dtype=np.int32) for row in rows)
        if max_length is not None and encoded.encodings is not None:
            truncated += sum(1 for row, one in zip(rows, encoded.encodings, strict=True) if one.overflowing and row)
    ids = np.concatenate(pieces) if pieces else np.empty(0, np.int32)
    return TokenTable(ids, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64), truncated)


def length_sorted_batches(lengths: NDArray[np.int64], token_budget: int) -> list[NDArray[np.int64]]:
    """Split rows, longest first, into batches of at most `token_budget` padded tokens (always at least one row)."""
    order = np.argsort(-lengths, kind="stable")
    batches: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        longest = max(int(lengths[order[start]]), 1)
        size = max(token_budget // longest, 1)
        batches.append(order[start : start + size])
        start += size
    return batches
