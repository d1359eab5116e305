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


def differs(first: Any, second: Any) -> bool:
    """Whether two answers differ; arrays by their values."""
    import numpy as np

    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return not (isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and np.array_equal(first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() != second.keys() or any(differs(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) != len(second) or any(differs(a, b) for a, b in zip(first, second, strict=True))
    return bool(first != second)
