"""The code behind vectors, for records and keys: the commit, a digest of source files, a digest of probe vectors."""

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
    """Return the commit of the source checkout, with "+" if its files were changed; None for an installed package."""
    top = _ROOT.parent
    if not (top / ".git").exists():
        return None
    try:
        head = _git(top, "rev-parse", "HEAD").strip()
        changed = _git(top, "status", "--porcelain", "--", "zoo", "benchmark", "configs").strip()
    except (OSError, subprocess.SubprocessError):
        return None  # git is not installed, or refuses this checkout; records still state the version
    return head[:12] + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout


@functools.cache
def code_digest(classes: tuple[type[Encoder], ...]) -> str:
    """Return a sha256 over the source files of these classes and of all modules of zoo that they import."""
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
    """Return whether a class's file belongs to zoo or a plugin, not to Python or an installed library."""
    return _ROOT in path.resolve().parents or ("site-packages" not in path.parts and not _standard(path))


def _standard(path: Path) -> bool:
    return Path(sys.base_prefix).resolve() in path.resolve().parents


def _label(path: Path) -> str:
    return path.relative_to(_ROOT).as_posix() if _ROOT in path.parents else path.name


def _reached(start: Path) -> set[Path]:
    """Return the files of zoo that a file imports, at the top or inside functions, directly or through other files."""
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
    """Return a digest of the vectors of fixed texts from the untrained encoder that `make` returns.

    It changes with weights that a plugin loads on its own. For an encoder that fails untrained it is "none: ERROR".
    """
    import numpy as np

    from zoo.conformance import PROBES

    try:
        vectors = np.asarray(make().encode(list(PROBES)), dtype=np.float64)
    except (Exception, SystemExit) as error:  # the measurement fails again and reports the reason
        return f"none: {type(error).__name__}"
    if not np.isfinite(vectors).all():
        return "none: not finite"
    scale = float(np.abs(vectors).max()) if vectors.size else 0.0
    # Rounded, so that the number of threads and the batch shape nearly never change the digest.
    rounded = np.round(vectors / scale, 3) + 0.0 if scale else vectors
    return sha256_json({"shape": list(vectors.shape), "values": rounded.ravel().tolist()})
