"""Plain text as packed rows of token ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.errors import UsageError
from zoo.files import sha256_file, sha256_json
from zoo.paths import cache_folder

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

# Neighbouring rows are held out together, so that few share an article with training rows.
_HELD_OUT_BLOCK = 32


@dataclass(frozen=True)
class PlainTexts:
    """Text files to train on, how to read them, and which sentences to leave out."""

    paths: list[Path]
    read: Callable[[Path], Iterable[str]]
    exclude: frozenset[str] = frozenset()
    normalise: Callable[[str], str] = str

    def sentences(self) -> Iterator[str]:
        """Yield all sentences that are not excluded."""
        for path in self.paths:
            for sentence in self.read(path):
                if not self.exclude or self.normalise(sentence) not in self.exclude:
                    yield sentence


def packed_rows(texts: PlainTexts, tokenizer: PreTrainedTokenizerBase, length: int) -> Dataset:
    """Return rows `input_ids` (length,): [CLS], consecutive text with [SEP] after each sentence, [SEP]; cached."""
    from datasets import Dataset, Features, List, Value

    cls, sep, inner = tokenizer.cls_token_id, tokenizer.sep_token_id, length - 2

    def rows() -> Iterator[dict[str, Any]]:
        stream: list[int] = []
        sentences = texts.sentences()
        while some := list(islice(sentences, 10_000)):
            for ids in tokenizer(some, add_special_tokens=False, verbose=False)["input_ids"]:
                stream += [*ids, sep]
            full = len(stream) // inner * inner
            for start in range(0, full, inner):
                yield {"input_ids": [cls, *stream[start : start + inner], sep]}
            stream = stream[full:]

    if next(rows(), None) is None:
        raise UsageError(f"the text is shorter than one row of {length} tokens, which trains nothing; give more text.")
    files = [sha256_file(path) for path in texts.paths]
    key = sha256_json([files, sorted(texts.exclude), tokenizer.backend_tokenizer.to_str(), length])
    features = Features({"input_ids": List(Value("int32"), length=length)})
    place = str(cache_folder() / "tokens")
    return Dataset.from_generator(rows, features, cache_dir=place, fingerprint=key[:32]).with_format("numpy")


def split_rows(rows: Dataset, held_out: int) -> tuple[Dataset, Dataset]:
    """Return the training rows and the held-out rows: blocks spread evenly over the text."""
    blocks = max(held_out // _HELD_OUT_BLOCK, 1)
    if len(rows) < 4 * blocks * _HELD_OUT_BLOCK:
        raise UsageError(
            f"the text makes {len(rows):,} rows of tokens, too few to hold out {held_out:,} of them (at most a"
            " quarter); give more text, or lower held_out_rows."
        )
    starts = np.linspace(0, len(rows) - _HELD_OUT_BLOCK, blocks).astype(np.int64)
    held = np.unique((starts[:, None] + np.arange(_HELD_OUT_BLOCK)).ravel())
    return rows.select(np.setdiff1d(np.arange(len(rows)), held)), rows.select(held)
