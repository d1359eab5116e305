"""Keeps the vectors of one encoder in memory: from the embedding cache where it has them, else encoded once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.identity import cache_key
from benchmark.records.record import plain
from zoo.check import check_vectors
from zoo.encoder import Encoder, Vectors
from zoo.errors import ContractError, Interrupted, ZooError
from zoo.files import atomic_path
from zoo.paths import cache_folder

DEFAULT_GB = 4.0
_SEGMENT_BYTES = 2**26  # of vectors: limits the memory for writing, and what must be read for a few texts
_DIGEST = 16  # bytes of a text's digest
_LOOK_SHARE = 100  # it is measured about once per hundredth of its limit that is added: listing many files takes time


def embeddings_folder() -> Path:
    """Return the folder of the vectors, in the cache folder (`ZOO_BENCH_CACHE`); it can be deleted at any time."""
    return cache_folder() / "embeddings"


def cache_bytes() -> int:
    """Return the size of all kept vectors."""
    return sum(size for _, size, _ in _files(embeddings_folder()))


@dataclass(frozen=True)
class CachedVectors:
    """The cache's content for n texts: vectors (n, dim), those the encoder covers (n,), those in the cache (n,)."""

    vectors: Vectors
    covered: NDArray[np.bool_]
    known: NDArray[np.bool_]
    facts: dict[str, Any]


class EmbeddingCache:
    """The vectors of all encoders on this machine, up to `gigabytes`; the least recently used are deleted first."""

    def __init__(self, gigabytes: float = DEFAULT_GB, say: Callable[[str], None] = print) -> None:
        self.folder = embeddings_folder()
        self.most_bytes = int(gigabytes * 10**9)
        self.say = say

    def entry(self, encoder: str, fitted: dict[str, str] | None, device: str) -> Entry:
        """Return the entry of an encoder, from its key; `fitted` has the sha256 of each file of a fitted encoder."""
        return Entry(self, self.folder / cache_key(encoder, fitted, device)[:32])

    def make_room(self) -> None:
        """Delete the least recently used segments until the rest is within the limit."""
        files = sorted(_files(self.folder))
        left = sum(size for _, size, _ in files)
        for _, size, path in files:
            if left <= self.most_bytes:
                return
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()  # fails, as it should, unless the folder is empty
            left -= size


@dataclass(frozen=True)
class Entry:
    """The segments of one encoder."""

    cache: EmbeddingCache
    folder: Path

    def find(self, texts: Sequence[str]) -> CachedVectors | None:
        """Return the known vectors of distinct texts, or None where none is known; damaged segments are set aside."""
        from safetensors import SafetensorError

        wanted = {digest: i for i, digest in enumerate(map(_digest, texts))}
        found: CachedVectors | None = None
        for path in self._segments():
            try:
                digests, read = _open(path)
                rows = [(row, wanted[digest]) for row, digest in enumerate(digests) if digest in wanted]
                if not rows:
                    continue
                vectors, covered, facts = read()
                if found is None:
                    shape = (len(texts), vectors.shape[1])
                    known, empty = np.zeros(len(texts), np.bool_), np.zeros(len(texts), np.bool_)
                    found = CachedVectors(np.zeros(shape, np.float32), empty, known, facts)
                here, places = np.array(rows).T
                found.vectors[places], found.covered[places] = vectors[here], covered[here]
                found.known[places] = True
                with contextlib.suppress(OSError):
                    os.utime(path)  # marks the segment as used now
            except FileNotFoundError:
                continue  # another process deleted it to make room
            except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
                self._set_aside(path, error)
        return found

    def _segments(self) -> list[Path]:
        try:
            return sorted(self.folder.glob("*.safetensors"))
        except OSError as error:  # a folder that cannot be read, or whose name is too long
            self.cache.say(f"warning: the embedding cache {self.folder} is not read: {error.strerror or error}.")
            return []

    def add(self, texts: Sequence[str], vectors: Vectors, covered: NDArray[np.bool_], facts: dict[str, object]) -> None:
        """Keep the vectors (n, dim) of distinct texts; if the cache cannot be written, there is only a warning."""
        if vectors.nbytes > self.cache.most_bytes:
            return
        size = max(_SEGMENT_BYTES // (4 * max(vectors.shape[1], 1)), 1)
        try:
            for start in range(0, len(texts), size):
                rows = slice(start, start + size)
                path = self.folder / f"{secrets.token_hex(8)}.safetensors"
                _write(path, texts[rows], vectors[rows], covered[rows], facts)
            if secrets.randbelow(max(self.cache.most_bytes, 1)) < _LOOK_SHARE * vectors.nbytes:
                self.cache.make_room()
        except (ZooError, OSError) as error:
            self.cache.say(f"warning: vectors are not kept: {error}")

    def _set_aside(self, path: Path, error: Exception) -> None:
        self.cache.say(f"warning: {path} is damaged ({type(error).__name__}: {error}); its texts are encoded again.")
        with contextlib.suppress(OSError):
            path.replace(path.with_name(path.name + ".corrupt"))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def _checksum(digests: NDArray[Any], vectors: Vectors, covered: NDArray[Any], facts: str) -> str:
    checksum = hashlib.sha256(facts.encode())
    for part in (digests, vectors, covered):
        checksum.update(np.ascontiguousarray(part).data)
    return checksum.hexdigest()


def _write(
    path: Path, texts: Sequence[str], vectors: Vectors, covered: NDArray[np.bool_], facts: Mapping[str, object]
) -> None:
    from safetensors.numpy import save

    digests = np.frombuffer(b"".join(map(_digest, texts)), np.uint8).reshape(-1, _DIGEST)
    parts = (digests, np.ascontiguousarray(vectors), covered.astype(np.uint8))
    said = json.dumps(plain(facts), allow_nan=False)
    with atomic_path(path) as temporary:
        named: dict[str, NDArray[Any]] = dict(zip(("digests", "vectors", "covered"), parts, strict=True))
        # The errors of the library's own writer would not say that the disk is full.
        temporary.write_bytes(save(named, metadata={"facts": said, "sha256": _checksum(*parts, said)}))


def _open(path: Path) -> tuple[list[bytes], Callable[[], tuple[Vectors, NDArray[np.bool_], dict[str, object]]]]:
    """Return a segment's digests and a function that reads vectors, covered and facts and checks their checksum."""
    from safetensors import safe_open

    with safe_open(str(path), framework="numpy") as file:
        digests = file.get_tensor("digests")

    def read() -> tuple[Vectors, NDArray[np.bool_], dict[str, Any]]:
        with safe_open(str(path), framework="numpy") as file:
            vectors, covered, metadata = file.get_tensor("vectors"), file.get_tensor("covered"), file.metadata()
        if _checksum(digests, vectors, covered, metadata["facts"]) != metadata["sha256"]:
            raise ValueError("its checksum differs")
        return vectors, covered.astype(np.bool_), json.loads(metadata["facts"])

    return [row.tobytes() for row in digests], read


def _files(folder: Path) -> list[tuple[float, int, Path]]:
    """Return (time of last use, bytes, path) of every file; files that are deleted meanwhile are left out."""
    found = []
    with contextlib.suppress(OSError):
        for path in folder.glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                stat = path.stat()
                found.append((stat.st_mtime, stat.st_size, path))
    return found


_BLOCK = 8192  # texts that are encoded, and written to the embedding cache, at a time
_SMALL_BLOCK = 256  # texts at a time for an encoder that does not check for signals; the size can change last digits
_CACHE_SECONDS = 60.0  # seconds after which smaller blocks are cached too; not sooner, because each write makes a file
_MISSING = 10  # unknown words that a record lists; not sentences, because these belong to the data sets


def facts_of(encoder: Encoder) -> dict[str, object]:
    """Return what records state about an encoder: its size and its method's facts; raises ContractError."""
    facts = {"dimensions": encoder.dim, "parameters": encoder.parameters(), **encoder.facts()}
    for name, value in facts.items():
        try:
            json.dumps(plain(value), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"facts(): {name!r} is no plain value ({value!r:.60}); give numbers, text or lists."
            raise ContractError(problem) from error
    return facts


@dataclass
class Timed:
    """The number of texts that the run has encoded, and the seconds it took."""

    texts: int = 0
    seconds: float = 0.0


@dataclass
class Blocks:
    """The number of texts that are encoded at a time; `check` raises Interrupted between two blocks after a signal.

    An encoder that checks for signals itself is given large blocks, any other one small blocks.
    """

    check: Callable[[], None] = lambda: None
    size: int = _BLOCK

    def shorten(self) -> None:
        """Take small blocks from now on."""
        self.size = _SMALL_BLOCK


def _finished(encoder: Encoder, texts: list[str], stopped: Interrupted) -> tuple[list[str], Vectors]:
    """Return the texts whose batches were finished before a stop, and their vectors.

    None of a method that maps what the engine gives: a product's last digits depend on how many rows it has.
    """
    from zoo.engine.batching import Unfinished
    from zoo.engine.tokens import clean_text

    if not isinstance(stopped, Unfinished) or not encoder.engine_alone:
        return [], np.empty((0, encoder.dim), np.float32)
    rows = {text: row for row, text in enumerate(stopped.texts)}
    found = {text: rows[clean] for text in texts if (clean := clean_text(text, 0)) in rows}
    return list(found), stopped.vectors[list(found.values())]


def _with_rows(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """Return a copy of an array with `rows` rows; those behind its own are not set."""
    longer = np.empty((rows, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


class VectorStore:
    """The vectors of one encoder: every unique text encoded once, kept in memory, checked to be finite.

    `encoder` can also be a function that makes it, called when the first text has to be encoded. `entry` returns the
    encoder's entry in the embedding cache, if there is one; it is called again after training, which changes the entry.
    """

    def __init__(
        self,
        encoder: Encoder | Callable[[], Encoder],
        name: str,
        entry: Callable[[], Entry | None] = lambda: None,
        timed: Timed | None = None,
        blocks: Blocks | None = None,
    ) -> None:
        self._obtain: Callable[[], Encoder] = (lambda: encoder) if isinstance(encoder, Encoder) else encoder
        self.name = name
        self._entry = entry
        self.timed = timed or Timed()
        self.blocks = blocks or Blocks()
        self.rows: dict[str, int] = {}
        self._vectors: Vectors = np.empty((0, 0), np.float32)  # may have room for more rows than there are texts
        self._covered: NDArray[np.bool_] = np.empty(0, np.bool_)
        self.cached = 0  # texts whose vectors came from the embedding cache
        self.cached_facts: dict[str, object] | None = None  # the encoder's facts, from the cache

    @property
    def encoder(self) -> Encoder:
        """The encoder; if a function was given, this calls it."""
        return self._obtain()

    @property
    def matrix(self) -> Vectors:
        """The vectors (n, dim) of all known texts, in the order of `rows`."""
        return self._vectors[: len(self.rows)]

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Which of the known texts (n,) the encoder covers."""
        return self._covered[: len(self.rows)]

    def add(self, texts: Sequence[str]) -> None:
        """Look up or encode the texts not yet known."""
        texts = list(dict.fromkeys(texts))
        new = [text for text in texts if text not in self.rows]
        entry = self._entry() if new else None
        new = self._look_up(new, entry)
        if not new:
            return
        encoder, before = self.encoder, entry
        entry = self._entry()
        if entry != before:  # it was fitted just now; the cache may have vectors of an equal fit
            new = self._look_up(new, entry)
        self._encode_all(encoder, texts, set(new), entry)

    def _encode_all(self, encoder: Encoder, texts: list[str], new: set[str], entry: Entry | None) -> None:
        """Encode what is new of distinct texts; even after an error, all that was encoded goes to the embedding cache.

        The blocks are blocks of all texts: the texts that a stop left of one make the same batches when it goes on.
        """
        done: list[str] = []
        cached = 0

        def to_cache() -> None:
            if entry is not None and len(done) > cached:
                rows = slice(len(self.matrix) - (len(done) - cached), None)
                entry.add(done[cached:], self.matrix[rows], self.covered[rows], facts_of(encoder))

        def keep(block: list[str], vectors: Vectors) -> None:
            self._keep(block, *self._checked(encoder, block, vectors))
            done.extend(block)

        last, start, ended = time.monotonic(), 0, False
        try:
            while start < len(texts):
                end = start + self.blocks.size
                block, start = [text for text in texts[start:end] if text in new], end
                if not block:
                    continue
                self.blocks.check()  # before the first block too, because loading a model takes a while
                try:
                    keep(block, self._encode(encoder, block))
                except Interrupted as stopped:
                    block, vectors = _finished(encoder, block, stopped)
                    if block:
                        keep(block, vectors)
                    raise
                if len(done) - cached >= _BLOCK or time.monotonic() - last > _CACHE_SECONDS:
                    to_cache()
                    cached, last = len(done), time.monotonic()
            ended = True
        finally:  # the first error matters more than one of writing to the cache
            with contextlib.nullcontext() if ended else contextlib.suppress(Exception):
                to_cache()

    def _look_up(self, texts: list[str], entry: Entry | None) -> list[str]:
        """Take the vectors that the cache has; return the remaining texts."""
        found = None if entry is None or not texts else entry.find(texts)
        if found is None:
            return texts
        whole = bool(found.known.all())
        hits = texts if whole else [text for text, known in zip(texts, found.known, strict=True) if known]
        rows = slice(None) if whole else found.known
        self._keep(hits, found.vectors[rows], found.covered[rows])
        self.cached += len(hits)
        self.cached_facts = found.facts
        return [] if whole else [text for text, known in zip(texts, found.known, strict=True) if not known]

    def _encode(self, encoder: Encoder, texts: list[str]) -> Vectors:
        started = time.perf_counter()
        vectors = encoder.encode(texts)
        self.timed.seconds += time.perf_counter() - started
        self.timed.texts += len(texts)
        return vectors

    def _checked(self, encoder: Encoder, texts: list[str], vectors: Vectors) -> tuple[Vectors, NDArray[np.bool_]]:
        check_vectors(vectors, texts, encoder.dim, self.name)
        covered: object = encoder.covers(texts)
        if not isinstance(covered, np.ndarray) or covered.shape != (len(texts),) or covered.dtype != np.bool_:
            raise ContractError(f"{self.name}: covers() must return a numpy array of bool of shape ({len(texts)},).")
        if not covered.all():  # unknown texts get the zero vector under every method
            vectors = np.where(covered[:, None], vectors, np.float32(0))
        return vectors, covered

    def _keep(self, texts: list[str], vectors: Vectors, covered: NDArray[np.bool_]) -> None:
        first, end = len(self.rows), len(self.rows) + len(texts)
        if first == 0:
            self._vectors, self._covered = vectors, covered
        else:
            if end > len(self._vectors):  # doubled, because blocks can be small and each growth copies all rows
                self._vectors = _with_rows(self.matrix, 2 * end)
                self._covered = _with_rows(self.covered, 2 * end)
            self._vectors[first:end] = vectors
            self._covered[first:end] = covered
        self.rows |= {text: first + i for i, text in enumerate(texts)}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors (n, dim) of `texts`."""
        self.add(texts)
        return self.matrix[[self.rows[text] for text in texts]]

    def coverage(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return how many of the distinct `texts` are covered, and the first ten single words that are not.

        A text with the zero vector is not covered, whatever covers() says.
        """
        distinct = list(dict.fromkeys(texts))
        self.add(distinct)
        rows = [self.rows[text] for text in distinct]
        covered = self.covered[rows] & np.asarray(self.matrix[rows].any(axis=1))
        words = [text for text, known in zip(distinct, covered, strict=True) if not known and len(text.split()) == 1]
        return {"texts": len(distinct), "covered": int(covered.sum()), "missing": words[:_MISSING]}
