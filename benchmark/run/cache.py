"""Vectors of encoded texts, kept between runs: another results folder, a new task or a deleted record encodes nothing.

An entry belongs to one encoder: its plan's key (recipe, sources, seed, corpus, precision ...), the files it was fitted
to, the code of the methods, the versions of what computes, and the kind of device. An entry is a folder of segments;
each holds texts' digests (never the texts), their vectors in float32, and a checksum, so that nothing has to be locked:
a segment is whole or absent. In bfloat16 a vector depends, in its last bits, on the batch that it was encoded in; the
cache gives those of the first time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.records.schema import plain
from zoo.encoder import Vectors
from zoo.errors import UsageError, ZooError
from zoo.files import atomic_path, sha256_json
from zoo.paths import cache_folder

DEFAULT_GB = 4.0
_SEGMENT_BYTES = 2**26  # of vectors: bounds the memory of writing, and what is read for a few texts
_DIGEST = 16  # bytes of a text's digest
_COMPUTING = ("torch", "transformers", "tokenizers", "numpy")


def embeddings_folder() -> Path:
    """Return where the vectors are kept: a part of the cache folder (`ZOO_BENCH_CACHE`) that may always be deleted."""
    return cache_folder() / "embeddings"


def cache_bytes() -> int:
    """Return the size of all kept vectors."""
    return sum(size for _, size, _ in _files(embeddings_folder()))


@functools.cache
def _libraries() -> dict[str, str]:
    """Return the versions of the libraries that make vectors: others may round differently."""
    import importlib.metadata

    return {name: importlib.metadata.version(name) for name in _COMPUTING}


@dataclass(frozen=True)
class CachedVectors:
    """What the cache knows of n texts: their vectors (n, dim), which are `covered` (n,), which are `known` (n,)."""

    vectors: Vectors
    covered: NDArray[np.bool_]
    known: NDArray[np.bool_]
    facts: dict[str, Any]


class EmbeddingCache:
    """The vectors of all encoders on this machine, up to `gigabytes`; the longest unused go first."""

    def __init__(self, gigabytes: float = DEFAULT_GB, say: Callable[[str], None] = print) -> None:
        if not math.isfinite(gigabytes):
            raise UsageError(f"--embedding-cache {gigabytes}: give a number of gigabytes; 0 keeps and reads none.")
        self.folder = embeddings_folder()
        self.most_bytes = int(gigabytes * 10**9)
        self.say = say

    def entry(self, encoder_key: str, code: str, fitted: dict[str, str] | None, device: str) -> Entry:
        """Return the entry of an encoder; `code` is the digest of the code that makes its vectors.

        `fitted` has the sha256 of each file that was fitted, None for no fit.
        """
        place = {"encoder": encoder_key, "code": code, "fitted": fitted, "device": device.partition(":")[0]}
        inputs = {**place, **_libraries()}
        return Entry(self, self.folder / sha256_json(inputs)[:32])

    def make_room(self) -> None:
        """Delete the segments that were not used for longest until the rest is within the limit."""
        files = sorted(_files(self.folder))
        left = sum(size for _, size, _ in files)
        for _, size, path in files:
            if left <= self.most_bytes:
                return
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()  # not empty, mostly
            left -= size


@dataclass(frozen=True)
class Entry:
    """The segments of one encoder."""

    cache: EmbeddingCache
    folder: Path

    def find(self, texts: Sequence[str]) -> CachedVectors | None:
        """Return what is known of distinct texts, or None where nothing is; damaged segments are set aside."""
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
                    os.utime(path)  # used now
            except FileNotFoundError:
                continue  # another process made room
            except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
                self._set_aside(path, error)
        return found

    def _segments(self) -> list[Path]:
        try:
            return sorted(self.folder.glob("*.safetensors"))
        except OSError as error:  # a folder that may not be read, or whose name is too long
            self.cache.say(f"warning: the embedding cache {self.folder} is not read: {error.strerror or error}.")
            return []

    def add(self, texts: Sequence[str], vectors: Vectors, covered: NDArray[np.bool_], facts: dict[str, Any]) -> None:
        """Keep the vectors (n, dim) of distinct texts; a cache that cannot be written gives a warning alone."""
        if vectors.nbytes > self.cache.most_bytes:
            return
        size = max(_SEGMENT_BYTES // (4 * max(vectors.shape[1], 1)), 1)
        try:
            for start in range(0, len(texts), size):
                rows = slice(start, start + size)
                path = self.folder / f"{secrets.token_hex(8)}.safetensors"
                _write(path, texts[rows], vectors[rows], covered[rows], facts)
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
        # The library's own writing has other errors, which do not say that the disk is full.
        temporary.write_bytes(save(named, metadata={"facts": said, "sha256": _checksum(*parts, said)}))


def _open(path: Path) -> tuple[list[bytes], Callable[[], tuple[Vectors, NDArray[np.bool_], dict[str, Any]]]]:
    """Return a segment's digests, and what reads the rest: vectors, covered, facts, whose checksum it checks."""
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
    """Return (last used, bytes, path) of every file; one that vanishes meanwhile is not there."""
    found = []
    with contextlib.suppress(OSError):
        for path in folder.glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                stat = path.stat()
                found.append((stat.st_mtime, stat.st_size, path))
    return found
