"""What identifies a number: all that goes into keys, each with its reason, and what records state beside them.

A key is a sha256. It contains no path, no module and no name of a user's file: a finished cell is kept while nothing
that made it has changed, and a changed input gives another cell. Code and libraries are not in keys. Records hold
digests of the code, and numbers by which a run sees whether vectors are the same. Imports no torch.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from inspect import isfunction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from benchmark.data.catalog import catalog
from benchmark.tasks.base import Task, TaskRow
from benchmark.tasks.loaded import TaskIdentity
from zoo.encoder import Encoder, Traits, Vectors
from zoo.files import sha256_json
from zoo.identity import code_digest, method_identity
from zoo.recipe import added_at_default, portable_recipe

SKETCHED = 16  # texts of a task whose vectors a record keeps in short
_AT_ONCE = 8  # texts that a plugin is asked to encode at a time, so that a signal is soon obeyed
_DIRECTIONS = 4  # numbers that are kept of each vector
SAME = {"fp32": 1e-5, "bf16": 2e-2}  # difference of vectors, relative to their length, that rounding alone can make


PROTOCOL_VERSION = 1  # increased whenever the same vectors on the same data would score differently


@dataclass(frozen=True, kw_only=True)
class Ingredients:
    """What an encoder's vectors depend on, beside the seed."""

    protocol: int = field(metadata={"why": "scores of different protocols are not one number"})
    code: str = field(metadata={"why": "the method's registered name, and its version, raised when its vectors change"})
    recipe: dict[str, Any] = field(metadata={"why": "the settings, each as it was used"})
    sources: dict[str, Any] = field(metadata={"why": "the weights and files, by their content"})
    corpus: dict[str, Any] | None = field(metadata={"why": "what it was trained on, by its content"})
    dev: TaskIdentity | None = field(metadata={"why": "the development pairs that picked the checkpoint"})
    precision: str = field(metadata={"why": "bf16 rounds vectors"})
    limit: int | None = field(metadata={"why": "a trial reads a part of the data"})
    probe: str | None = field(
        default=None, metadata={"why": "a plugin or an object is known by its vectors of fixed texts"}
    )

    def key(self) -> str:
        """Return the key that the records of one row share; a built-in method's has no probe."""
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        return sha256_json({name: value for name, value in held.items() if name != "probe" or value is not None})


def ingredients(
    cls: type[Encoder],
    recipe: object,
    traits: Traits,
    sources: dict[str, object],
    *,
    corpus: dict[str, object] | None,
    dev: TaskIdentity | None,
    precision: str,
    limit: int | None,
) -> Ingredients:
    """Return the ingredients of an encoder's key, as they are without the names of the user's own files."""
    left_out = added_at_default(recipe)
    named = {kind: _without_own_name(source) for kind, source in sources.items()}
    return Ingredients(
        protocol=PROTOCOL_VERSION,
        # The vectors of a plugin say what it is, but not how it learns.
        code=method_identity(cls, code=traits.needs_corpus or traits.needs_pairs),
        recipe={k: v for k, v in portable_recipe(recipe, named).items() if k not in left_out},
        sources=named,
        corpus=None if corpus is None else _without_own_text(corpus),
        dev=dev if traits.picks_checkpoint else None,
        precision=precision,
        limit=limit,
    )


def _without_own_name(source: object) -> object:
    """Return a source's identity, in which the sha256 replaces the name of a user's file."""
    if not isinstance(source, dict) or not source.get("local"):
        return source
    return {**{k: v for k, v in source.items() if k != "local"}, "name": source["sha256"]}


def _without_own_text(corpus: dict[str, Any]) -> dict[str, Any]:
    """Return a corpus's identity without its name, unless every part of the name is a data set of the catalog."""
    if all(part in catalog() for part in corpus["name"].split("+")):
        return corpus
    return {k: v for k, v in corpus.items() if k != "name"}


def encoder_key(row_key: str, seed: int | None) -> str:
    """Return the key of one trained encoder: of its row and its seed."""
    return sha256_json({"row": row_key, "seed": seed})


def cell_key(encoder_key: str, task: TaskIdentity, vectors: str | None = None) -> str:
    """Return the key of a cell: of its encoder, its task, and a plugin's or an object's vectors of the task's texts."""
    return sha256_json({"encoder": encoder_key, "task": task} | ({} if vectors is None else {"vectors": vectors}))


def cache_key(encoder: str, vectors: str | None, code: str, fitted: Mapping[str, str] | None, device: str) -> str:
    """Return the key of an encoder's vectors in the embedding cache.

    They also depend on the code, the fitted files, the kind of device and the libraries; those of a plugin on its
    `vectors` of the tasks' texts.
    """
    known = encoder if vectors is None else sha256_json([encoder, vectors])
    place = {"encoder": known, "code": code, "fitted": fitted, "device": device.partition(":")[0]}
    return sha256_json({**place, **libraries()})


def scorer_digest(task: Task) -> str:
    """Return a sha256 over what turns vectors into a task's score: its code and settings, and the package it calls."""
    parts = list(_parts(task.read if isinstance(task, TaskRow) else type(task)))
    roots = [part for part in parts if isinstance(part, type) or isfunction(part)]
    settings = [repr(part) for part in parts if part not in roots]
    package = task.scored_by and f"{task.scored_by} {importlib.metadata.version(task.scored_by)}"
    return sha256_json([code_digest(*roots), settings, package])


def _parts(value: object) -> Iterator[object]:
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
