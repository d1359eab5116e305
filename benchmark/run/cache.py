"""The embedding cache: vectors of texts on disk, by encoder, limited in size."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.keys import cache_key
from benchmark.records.record import plain
from zoo.encoder import Vectors
from zoo.errors import ZooError
from zoo.files import atomic_path
from zoo.paths import cache_folder

DEFAULT_GB = 4.0
# Limits the memory for writing, and what must be read for a few texts.
_SEGMENT_BYTES = 2**26
_DIGEST = 16
# Listing many files takes time: it happens once per hundredth of the limit that is added.
_LOOK_SHARE = 100


def embeddings_folder() -> Path:
    """Return the folder of the vectors, in the cache folder (`ZOO_BENCH_CACHE`); it can be deleted at any time."""
    return cache_folder() / "embeddings"


def cache_bytes() -> int:
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
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self.most_bytes:
                return
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                # It fails, as it should, unless the folder is empty.
                path.parent.rmdir()
            total -= size


@dataclass(frozen=True)
class Entry:
    """An encoder's segments."""

    cache: EmbeddingCache
    folder: Path

    def find(self, texts: Sequence[str]) -> CachedVectors | None:
        """Return the known vectors of distinct texts, or None where none is known; damaged segments are set aside."""
        from safetensors import SafetensorError

        wanted = {digest: i for i, digest in enumerate(map(_digest, texts))}
        cached: CachedVectors | None = None
        for path in self._segments():
            try:
                digests, read = _open(path)
                rows = [(row, wanted[digest]) for row, digest in enumerate(digests) if digest in wanted]
                if not rows:
                    continue
                vectors, covered, facts = read()
                if cached is None:
                    shape = (len(texts), vectors.shape[1])
                    known, empty = np.zeros(len(texts), np.bool_), np.zeros(len(texts), np.bool_)
                    cached = CachedVectors(np.zeros(shape, np.float32), empty, known, facts)
                here, places = np.array(rows).T
                cached.vectors[places], cached.covered[places] = vectors[here], covered[here]
                cached.known[places] = True
                with contextlib.suppress(OSError):
                    os.utime(path)
            except FileNotFoundError:
                # Another process deleted it to make room.
                continue
            except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
                self._set_aside(path, error)
        return cached

    def _segments(self) -> list[Path]:
        try:
            return sorted(self.folder.glob("*.safetensors"))
        except OSError as error:
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
    facts_text = json.dumps(plain(facts), allow_nan=False)
    with atomic_path(path) as temporary:
        named: dict[str, NDArray[Any]] = dict(zip(("digests", "vectors", "covered"), parts, strict=True))
        # The errors of the library's own writer would not say that the disk is full.
        temporary.write_bytes(save(named, metadata={"facts": facts_text, "sha256": _checksum(*parts, facts_text)}))


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
    entries = []
    with contextlib.suppress(OSError):
        for path in folder.glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                stat = path.stat()
                entries.append((stat.st_mtime, stat.st_size, path))
    return entries
