"""The identity of a number: all parts of keys, each with its reason, and the information beside them in records.

A key is a sha256 without paths, modules and names of a user's files: a finished cell is kept while its sources are
unchanged. A plugin's file is in its key. This project's own code is in keys by the versions of method, task, metric
and protocol, guarded by golden vectors and scores; records state library versions and a digest of the code. Imports
no torch.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.data.catalog import catalog
from benchmark.tasks.loaded import TaskIdentity
from zoo.encoder import Encoder, Traits
from zoo.files import sha256_file, sha256_json
from zoo.machine import cpu_name, instructions, version_of
from zoo.plugins import method_identity
from zoo.recipes import added_at_default, portable_recipe

# Increased whenever the same vectors on the same data would score differently.
PROTOCOL_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Ingredients:
    protocol: int = field(metadata={"why": "scores of different protocols are not one number"})
    code: str = field(metadata={"why": "the method's registered name and version, and a plugin's file"})
    recipe: dict[str, Any] = field(metadata={"why": "the settings, each as it was used"})
    sources: dict[str, Any] = field(metadata={"why": "the weights and files, by their content"})
    corpus: dict[str, Any] | None = field(metadata={"why": "what it was trained on, by its content"})
    dev: TaskIdentity | None = field(metadata={"why": "the development pairs that picked the checkpoint"})
    precision: str = field(metadata={"why": "bf16 rounds vectors"})
    limit: int | None = field(metadata={"why": "a trial reads a part of the data"})
    probe: str | None = field(
        default=None, metadata={"why": "weights that a plugin or an object loads itself show in its vectors"}
    )

    def key(self) -> str:
        return sha256_json({name: value for name, value in vars(self).items() if name != "probe" or value is not None})


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
    version: int | None = None,
) -> Ingredients:
    """Return what a row's key is made of; `version` is a record's of its method, None the class's."""
    left_out = added_at_default(recipe)
    named = {kind: _without_own_name(source) for kind, source in sources.items()}
    return Ingredients(
        protocol=PROTOCOL_VERSION,
        code=method_identity(cls, version=version),
        recipe={k: v for k, v in portable_recipe(recipe, named).items() if k not in left_out},
        sources=named,
        corpus=None if corpus is None else _without_own_text(corpus),
        dev=dev if traits.picks_checkpoint else None,
        precision=precision,
        limit=limit,
    )


def _without_own_name(source: object) -> object:
    if not isinstance(source, dict) or not source.get("local"):
        return source
    return {**{k: v for k, v in source.items() if k != "local"}, "name": source["sha256"]}


def _without_own_text(corpus: dict[str, Any]) -> dict[str, Any]:
    if all(part in catalog() for part in corpus["name"].split("+")):
        return corpus
    return {k: v for k, v in corpus.items() if k != "name"}


def encoder_key(row_key: str, seed: int | None) -> str:
    return sha256_json({"row": row_key, "seed": seed})


def cell_key(encoder_key: str, task: TaskIdentity) -> str:
    return sha256_json({"encoder": encoder_key, "task": task})


def cache_key(encoder: str, fitted: Mapping[str, str] | None, device: str) -> str:
    """Return the key of vectors, with fitted files, device, libraries, and the processor, whose bits they have."""
    processor = {"cpu": cpu_name(), "instructions": instructions()}
    device = device.partition(":")[0]
    return sha256_json({"encoder": encoder, "fitted": fitted, "device": device, **libraries(), **processor})


_ROOT = Path(__file__).resolve().parents[1]


@functools.cache
def code_digest() -> str:
    """Return a digest for information only; no number is kept or refused by it."""
    files = sorted(path for package in ("zoo", "benchmark", "choose") for path in (_ROOT / package).rglob("*.py"))
    return sha256_json({path.relative_to(_ROOT).as_posix(): sha256_file(path) for path in files})


@functools.cache
def libraries() -> dict[str, str]:
    """Return versions of libraries, as others may round differently."""
    versions = {name: version_of(name) for name in ("torch", "transformers", "tokenizers", "numpy")}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        versions["onnxruntime"] = importlib.metadata.version("onnxruntime")
    return versions


def without_times(scores: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if scores is None else {k: v for k, v in scores.items() if not k.endswith("seconds")}


def vectors_digest(encode: Callable[[Sequence[str]], object], texts: Sequence[str]) -> str:
    """Return a digest of a rounded number for each text, nearly independent of the number of threads."""
    vectors = np.asarray(encode(list(texts)), np.float64)
    width = vectors.shape[1]
    signs = np.unpackbits(np.frombuffer(hashlib.shake_256(b"zoo-bench").digest(width // 8 + 1), np.uint8))[:width]
    sums = vectors @ (1.0 - 2.0 * signs) / (np.linalg.norm(vectors, axis=1).mean() or 1.0)
    values = [number if np.isfinite(number) else str(number) for number in np.round(sums, 3).tolist()]
    return sha256_json({"shape": list(vectors.shape), "values": values})
