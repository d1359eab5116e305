"""Which code makes vectors: a method's identity in keys, the digest of the code it runs through, the commit."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.files import sha256_file, sha256_json

if TYPE_CHECKING:
    from zoo.encoder import Encoder

_ROOT = Path(__file__).resolve().parent
_IMPORT = re.compile(r"^\s*(?:from (zoo[\w.]*) import (\([^)]*\)|[^\n#]+)|import (zoo[\w.]*))", re.MULTILINE)


@functools.cache
def commit() -> str | None:
    """Return the commit of the source checkout, with "+" where its code differs; None for an installed package."""
    top = _ROOT.parent
    if not (top / ".git").exists():
        return None
    try:
        head = _git(top, "rev-parse", "HEAD").strip()
        changed = _git(top, "status", "--porcelain", "--", "zoo", "benchmark", "configs").strip()
    except (OSError, subprocess.SubprocessError):
        return None  # no git here, or not this user's checkout: the version has to do
    return head[:12] + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout


@functools.cache
def code_digest(classes: tuple[type[Encoder], ...]) -> str:
    """Return a sha256 over the files that methods run through: those of their classes, and what these import of zoo."""
    files: dict[str, Path] = {}
    for cls in classes:
        for parent in cls.__mro__:
            file = getattr(sys.modules.get(parent.__module__), "__file__", None)
            if file is None or not _followed(Path(file)):
                continue
            path = Path(file).resolve()
            files[_label(path)] = path
            files |= {_label(found): found for found in _reached(path)}
    return sha256_json({name: sha256_file(path) for name, path in sorted(files.items())})


def _followed(path: Path) -> bool:
    """Return whether a class's file is code of ours or of a plugin, not of Python or a library."""
    return _ROOT in path.resolve().parents or ("site-packages" not in path.parts and not _standard(path))


def _standard(path: Path) -> bool:
    return Path(sys.base_prefix).resolve() in path.resolve().parents


def _label(path: Path) -> str:
    return path.relative_to(_ROOT).as_posix() if _ROOT in path.parents else path.name


def _reached(start: Path) -> set[Path]:
    """Return the files of zoo that a file imports, at the top or inside functions, and those that they import."""
    seen: set[Path] = set()
    left = [start]
    while left:
        for path in _imported(left.pop()):
            if path not in seen:
                seen.add(path)
                left.append(path)
    return seen


@functools.cache
def _imported(path: Path) -> tuple[Path, ...]:
    found = []
    for package, names, module in _IMPORT.findall(path.read_text(encoding="utf-8")):
        found += _files_of(module or package, re.findall(r"\w+", names))
    return tuple(found)


def _files_of(module: str, names: Iterable[str]) -> list[Path]:
    place = _ROOT.parent.joinpath(*module.split("."))
    candidates = [place.with_suffix(".py"), *(place / f"{name}.py" for name in names)]
    return [path for path in candidates if path.is_file()]


def probe_digest(make: Callable[[], Encoder]) -> str:
    """Return a digest of the vectors that an encoder gives for fixed texts, before any training; `make` makes it.

    It notices weights that a plugin loads on its own. What cannot encode untrained gives a digest that says so.
    """
    import numpy as np

    from zoo.conformance import PROBES

    try:
        vectors = np.asarray(make().encode(list(PROBES)), dtype=np.float64)
    except (Exception, SystemExit) as error:  # it fails again, with its reason, when it is measured
        return f"none: {type(error).__name__}"
    if not np.isfinite(vectors).all():
        return "none: not finite"
    scale = float(np.abs(vectors).max()) if vectors.size else 0.0
    # Rounded, so that another number of threads or batch shape gives the same digest in nearly every case.
    rounded = np.round(vectors / scale, 3) + 0.0 if scale else vectors
    return sha256_json({"shape": list(vectors.shape), "values": rounded.ravel().tolist()})
