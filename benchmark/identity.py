"""What identifies a number: all that goes into keys, and what records state so that a kept number can be checked.

Imports no torch.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import isfunction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from benchmark.tasks.base import Task, TaskRow
from benchmark.tasks.loaded import TaskIdentity
from zoo.encoder import Vectors
from zoo.files import sha256_json
from zoo.provenance import code_digest

SKETCHED = 16  # texts of a task whose vectors a record keeps in short
_AT_ONCE = 8  # texts that a plugin is asked to encode at a time, so that a signal is soon obeyed
_DIRECTIONS = 4  # numbers that are kept of each vector
SAME = {"fp32": 1e-5, "bf16": 2e-2}  # difference of vectors, relative to their length, that rounding alone can make


def scorer_digest(task: Task) -> str:
    """Return a sha256 over what turns vectors into a task's score: its code and settings, and the package it calls."""
    parts = list(_parts(task.read if isinstance(task, TaskRow) else type(task)))
    roots = [part for part in parts if isinstance(part, type) or isfunction(part)]
    settings = [repr(part) for part in parts if part not in roots]
    package = task.scored_by and f"{task.scored_by} {importlib.metadata.version(task.scored_by)}"
    return sha256_json([code_digest(*roots), settings, package])


def _parts(value: Any) -> Iterator[Any]:
    """Yield the functions, classes and plain values that a function with bound arguments consists of."""
    if isinstance(value, partial):
        yield from _parts(
            [value.func, *value.args, *(part for item in sorted(value.keywords.items()) for part in item)]
        )
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)
    else:
        yield value
        if isfunction(value):
            yield from _parts([cell.cell_contents for cell in value.__closure__ or ()])


def cell_key(encoder_key: str, task: TaskIdentity, vectors: str | None = None) -> str:
    """Return the key of a cell: of its encoder, its task, and a plugin's or an object's vectors of the task's texts."""
    return sha256_json({"encoder": encoder_key, "task": task} | ({} if vectors is None else {"vectors": vectors}))


@functools.cache
def libraries() -> dict[str, str]:
    """Return the versions of the libraries that compute vectors: other versions may round differently."""
    return {name: importlib.metadata.version(name) for name in ("torch", "transformers", "tokenizers", "numpy")}


def without_times(scores: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what two measurements of the same vectors agree on: their scores without the seconds that they took."""
    return None if scores is None else {k: v for k, v in scores.items() if not k.endswith("seconds")}


def vectors_digest(encode: Callable[[Sequence[str]], object], texts: Sequence[str]) -> str:
    """Return a digest of the vectors that a plugin or an object gives texts: what it is known by.

    It changes with weights that are loaded in any way. Where encoding fails, as untrained, it is "none: ERROR".
    """
    try:
        some = (texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE))
        vectors = np.concatenate([np.asarray(encode(list(few)), np.float32) for few in some])
        told = np.asarray(sketch(vectors))[:, 0] / (
            float(np.linalg.norm(vectors.astype(np.float64), axis=1).mean()) or 1.0
        )
    except (Exception, SystemExit) as error:  # the measurement fails again and reports the reason
        return f"none: {type(error).__name__}"
    if not np.isfinite(told).all():
        return "none: not finite"
    # Rounded, and one number for each text, so that the number of threads nearly never changes the digest.
    return sha256_json({"shape": list(vectors.shape), "values": (np.round(told, 3) + 0.0).tolist()})


def sketch(vectors: Vectors) -> list[list[float]]:
    """Return four numbers for each vector (n, dim): sums of its values with signs that depend on `dim` alone.

    The squared difference of two sketches estimates that of the vectors, so that a few numbers show how far they are.
    """
    count = vectors.shape[1] * _DIRECTIONS
    stream = np.frombuffer(hashlib.shake_256(b"zoo-bench").digest(count // 8 + 1), np.uint8)
    signs = 1.0 - 2.0 * np.unpackbits(stream)[:count].reshape(-1, _DIRECTIONS)
    return [[float(f"{value:.7g}") for value in row] for row in vectors.astype(np.float64) @ signs]


def sketch_difference(now: ArrayLike, before: ArrayLike) -> float:
    """Return how far two sketches (n, 4) are, relative to the length of the second's vectors; inf of other shape."""
    first, second = np.asarray(now, np.float64), np.asarray(before, np.float64)
    if first.shape != second.shape:
        return float("inf")
    return float(np.linalg.norm(first - second)) / (float(np.linalg.norm(second)) or 1.0)
