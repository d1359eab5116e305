"""Plain text as packed rows of token ids, tokenised once into a file with two bytes per token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zoo.engine.tokens import tokenise
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.files import atomic_path, read_signed, sha256_file, sha256_json, write_signed
from zoo.progress import Progress

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_CHUNK = 50_000  # sentences tokenised at a time


@dataclass(frozen=True)
class TokenStream:
    """All sentences in order, each followed by [SEP]: a flat, memory-mapped uint16 array."""

    ids: NDArray[np.uint16]
    sentences: int
    excluded: int  # sentences left out because a benchmark tests them
    sha256: str

    def rows(self, length: int) -> int:
        """Number of packed rows of `length` tokens, [CLS] and [SEP] included."""
        return len(self.ids) // (length - 2)

    def packed(self, rows: NDArray[np.int64], length: int, cls_id: int, sep_id: int) -> NDArray[np.int64]:
        """Return rows (n, length) of consecutive text: [CLS], length - 2 tokens of the stream, [SEP]."""
        inner = length - 2
        result = np.empty((len(rows), length), np.int64)
        result[:, 0], result[:, -1] = cls_id, sep_id
        result[:, 1:-1] = self.ids[rows[:, None] * inner + np.arange(inner)]
        return result


def tokenise_files(
    paths: list[Path],
    read: Callable[[Path], Iterable[str]],
    tokenizer: PreTrainedTokenizerBase,
    tokenizer_sha256: str,
    folder: Path,
    *,
    exclude: frozenset[str] = frozenset(),
    normalise: Callable[[str], str] = str,
    progress: Progress | None = None,
) -> TokenStream:
    """Tokenise text files into `folder`; a later call with the same files, tokenizer and exclusions reuses the result.

    A sentence whose normalised form is in `exclude` is left out and counted. Raises MissingError for an absent file,
    UsageError for a vocabulary over 65,536 or text without a sentence, CorruptError for a damaged cache file.
    """
    if len(tokenizer) > 2**16:
        raise UsageError(f"the token cache holds vocabularies up to 65,536, this one has {len(tokenizer)}.")
    for path in paths:
        if not path.is_file():
            raise MissingError(f"text {path} does not exist.")
    key = sha256_json(
        {"files": [sha256_file(path) for path in paths], "tokenizer": tokenizer_sha256, "exclude": sorted(exclude)}
    )
    target, about = folder / f"tokens-{key[:16]}.u16", folder / f"tokens-{key[:16]}.json"
    if not about.is_file():
        counts = _write_stream(
            target, _sentences(paths, read), tokenizer, exclude, normalise, progress or Progress.silent()
        )
        if counts["tokens"] == 0:
            raise UsageError(f"no sentence in {', '.join(map(str, paths))}.")
        write_signed(about, {**counts, "key": key, "ids": sha256_file(target)})
    try:
        facts = read_signed(about)
        if facts.get("key") != key or sha256_file(target) != facts["ids"]:
            raise CorruptError(f"{target} is not what was written")
    except ZooError as error:
        raise CorruptError(f"{target} or {about.name} is damaged; remove both to have them made again.") from error
    ids = np.memmap(target, dtype=np.uint16, mode="r")
    return TokenStream(ids, facts["sentences"], facts["excluded"], key)


def _sentences(paths: list[Path], read: Callable[[Path], Iterable[str]]) -> Iterator[str]:
    for path in paths:
        yield from read(path)


def _write_stream(
    target: Path,
    sentences: Iterable[str],
    tokenizer: PreTrainedTokenizerBase,
    exclude: frozenset[str],
    normalise: Callable[[str], str],
    progress: Progress,
) -> dict[str, int]:
    facts = {"sentences": 0, "excluded": 0, "tokens": 0}
    separator = np.uint16(tokenizer.sep_token_id)
    with atomic_path(target) as temporary, temporary.open("wb") as file:

        def flush(chunk: list[str]) -> None:
            table = tokenise(tokenizer, chunk, max_length=None, add_special_tokens=False)
            # One [SEP] after each sentence.
            with_ends = np.insert(table.ids.astype(np.uint16), table.offsets[1:], separator)
            file.write(with_ends.tobytes())
            facts["sentences"] += len(chunk)
            facts["tokens"] += len(with_ends)
            progress.say(f"tokenised {facts['sentences']:,} sentences, {facts['tokens']:,} tokens")

        chunk: list[str] = []
        for sentence in sentences:
            if exclude and normalise(sentence) in exclude:
                facts["excluded"] += 1
                continue
            chunk.append(sentence)
            if len(chunk) == _CHUNK:
                flush(chunk)
                chunk = []
        if chunk:
            flush(chunk)
        file.flush()
    return facts
