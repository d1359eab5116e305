"""Tensors and arrays in complete or absent files, with a sha256 that is checked at reading."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import CorruptError
from zoo.files import atomic_path, reading, remove_dead

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


def _digest(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> str:
    import torch

    facts = {name: text for name, text in metadata.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write safetensors atomically, with a sha256; memory may be shared, equal tensors give equal bytes."""
    write_copied(path, copied(tensors), metadata)


def copied(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors on the CPU that share no memory, as a file has them."""
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def write_copied(path: Path, unshared: dict[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> None:
    from safetensors.torch import save_file

    facts = dict(metadata or {})
    with atomic_path(path) as temporary:
        remove_dead(path.parent, ".tmp")
        save_file(unshared, temporary, {**facts, "sha256": _digest(unshared, facts)})
        # The library writes the metadata in any order.
        with temporary.open("r+b") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
            header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
            file.seek(8)
            file.write(json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode().ljust(size))


def read_tensors(path: Path, *, unsigned: bool = True) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read safetensors and metadata; raises MissingError or CorruptError. Without our sha256, `unsigned` is needed."""
    from safetensors import SafetensorError, safe_open

    with reading(path), path.open("rb"):
        # The library's own messages for a file that cannot be opened vary.
        pass
    try:
        with safe_open(str(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError) as error:
        raise CorruptError(f"{path} is not a whole safetensors file ({error}).") from error
    expected = metadata.pop("sha256", None)
    if expected is None and not unsigned:
        raise CorruptError(f"{path} has no sha256, so that damage would not show.")
    if expected is not None and _digest(tensors, metadata) != expected:
        raise CorruptError(f"{path} is damaged (its sha256 is not the one it was written with).")
    return tensors, metadata


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], level: int = 9) -> None:
    """Write numpy arrays atomically as gzip (`level` 0: not compressed) of safetensors; imports no torch."""
    from safetensors.numpy import save

    with atomic_path(path) as temporary:
        temporary.write_bytes(gzip.compress(save(dict(arrays)), level, mtime=0))


def read_arrays(path: Path, sha256: str | None = None) -> dict[str, NDArray[Any]]:
    """Inverse of write_arrays; raises MissingError, or CorruptError if damaged or of another sha256."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    with reading(path):
        content = path.read_bytes()
        if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
            raise CorruptError(f"{path} is damaged or another run's (its sha256 is not the recorded one).")
    try:
        return dict(load(gzip.decompress(content)))
    except (SafetensorError, OSError, EOFError, ValueError, zlib.error) as error:
        raise CorruptError(f"{path} is not a whole compressed safetensors file ({error}).") from error
