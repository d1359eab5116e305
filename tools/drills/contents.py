"""What a folder holds, put back after a flip, and what differs in what is read of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def folder_contents(folder: Path) -> dict[Path, bytes]:
    """Return the bytes of every file below a folder."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def restore(folder: Path, kept: dict[Path, bytes]) -> None:
    """Make the folder hold these files again, and no others."""
    for path in folder.rglob("*"):
        if path.is_file() and path not in kept:
            path.unlink()
    for path, content in kept.items():
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def differs(one: Any, other: Any) -> bool:
    """Whether two answers differ; arrays by their values."""
    import numpy as np

    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.array_equal(one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() != other.keys() or any(differs(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) != len(other) or any(differs(a, b) for a, b in zip(one, other, strict=True))
    return bool(one != other)
