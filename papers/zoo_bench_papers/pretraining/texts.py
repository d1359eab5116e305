"""Plain text as packed rows of token ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmark.data.catalog import catalog
from benchmark.data.corpora import normalised
from benchmark.data.readers.pairs import iterate_text
from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from zoo.errors import MissingError, UsageError
from zoo.files import sha256_file, sha256_json
from zoo.paths import cache_folder
from zoo.progress import Progress

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


# Neighbouring rows are held out together, so that few share an article with training rows.
_HELD_OUT_BLOCK = 32


@dataclass(frozen=True)
class PlainTexts:
    paths: list[Path]
    read: Callable[[Path], Iterable[str]]
    exclude: frozenset[str] = frozenset()
    normalise: Callable[[str], str] = str

    def sentences(self) -> Iterator[str]:
        for path in self.paths:
            for sentence in self.read(path):
                if not self.exclude or self.normalise(sentence) not in self.exclude:
                    yield sentence


def packed_rows(texts: PlainTexts, tokenizer: PreTrainedTokenizerBase, length: int, most: int | None = None) -> Dataset:
    """Rows `input_ids` (length,): [CLS], consecutive text with [SEP] after each sentence, [SEP]; cached.

    Of the text, what makes `most` rows is read.
    """
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
    key = sha256_json([files, sorted(texts.exclude), tokenizer.backend_tokenizer.to_str(), length, most])
    features = Features({"input_ids": List(Value("int32"), length=length)})
    place = str(cache_folder() / "tokens")
    first = partial(islice, rows(), most)
    return Dataset.from_generator(first, features, cache_dir=place, fingerprint=key[:32]).with_format("numpy")


def split_rows(rows: Dataset, held_out: int) -> tuple[Dataset, Dataset]:
    """Training rows, and held-out rows: blocks spread evenly over the text."""
    blocks = max(held_out // _HELD_OUT_BLOCK, 1)
    if len(rows) < 4 * blocks * _HELD_OUT_BLOCK:
        raise UsageError(
            f"the text makes {len(rows):,} rows of tokens, too few to hold out {held_out:,} of them (at most a"
            " quarter); give more text, or lower held_out_rows."
        )
    starts = np.linspace(0, len(rows) - _HELD_OUT_BLOCK, blocks).astype(np.int64)
    held = np.unique((starts[:, None] + np.arange(_HELD_OUT_BLOCK)).ravel())
    return rows.select(np.setdiff1d(np.arange(len(rows)), held)), rows.select(held)


DEFAULT = ("wiki", "books")


def tested_sentences(data: DataSource) -> tuple[frozenset[str], list[str]]:
    """Normalised texts of every task with data here, and the missing data sets."""
    texts: set[str] = set()
    missing: set[str] = set()
    for _, task in TASKS.load_all():
        if task is None:
            continue
        try:
            texts |= {normalised(text) for text in task.load(data).unlabelled()}
        except MissingError:
            missing.add(task.dataset)
    return frozenset(texts - {""}), sorted(missing)


def find_texts(names: Sequence[str], data: DataSource) -> list[Path]:
    paths = []
    for name in names or DEFAULT:
        entry = catalog().get(name)
        path = next(iter(data.locate(name, "plain").files.values())) if entry is not None else Path(name)
        if not path.is_file():
            raise MissingError(f"text {name} is neither a file nor a text of the catalog (`zoo-bench data list`).")
        paths.append(path)
    return paths


def clean_texts(names: Sequence[str], data: DataSource, progress: Progress) -> PlainTexts:
    """The texts without tested sentences; print their number."""
    paths = find_texts(names, data)
    exclude, missing = tested_sentences(data)
    progress.say(f"{len(exclude):,} tested sentences are left out of the text")
    if missing:
        progress.say(
            f"these data sets are not on this machine, so their sentences stay in the text if it has them:"
            f" {', '.join(missing)}"
        )
    return PlainTexts(paths, iterate_text, exclude, normalised)


def text_options(names: Sequence[str]) -> str:
    """`--text` options for any machine: catalog names, and file names without paths."""
    return " ".join(f"--text {name if name in catalog() else Path(name).name}" for name in names or DEFAULT)
