"""Where the project keeps things: the cache of this machine, and the folders that ship with a package."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from zoo.errors import MissingError, UsageError


def user_path(text: str | Path) -> Path:
    """Return a path that a person wrote, ~ expanded; raises UsageError for one that no file can have."""
    try:
        path = Path(text).expanduser()
        os.fsencode(path)
    except (RuntimeError, ValueError) as error:  # no such user; a lone surrogate
        reason = str(error).rstrip(".")
        raise UsageError(f"{str(text)!r} is no path: {reason}.") from error
    if "\0" in str(path):
        raise UsageError(f"{str(text)!r} is no path: it holds a NUL character.")
    return path


def is_dir(path: Path) -> bool:
    """Whether a path is a folder; a name too long is none. Raises MissingError where the system refuses to say."""
    try:
        return path.is_dir()
    except PermissionError as error:
        raise MissingError(f"{path} cannot be read: {error.strerror}.") from error
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Whether a path is a file; a name too long is none. Raises MissingError where the system refuses to say."""
    try:
        return path.is_file()
    except PermissionError as error:
        raise MissingError(f"{path} cannot be read: {error.strerror}.") from error
    except OSError:
        return False


def cache_folder() -> Path:
    """Return where downloads and measurements of this machine are kept (`ZOO_BENCH_CACHE`)."""
    import platformdirs

    named = os.environ.get("ZOO_BENCH_CACHE")
    return user_path(named) if named else Path(platformdirs.user_cache_dir("zoo-bench"))


def resource_folder(package: str, name: str) -> Path:
    """Return the folder `name` that ships in a package (`zoo` or `benchmark`), or stands at the top of a checkout.

    Raises MissingError where the installation lacks it.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingError(f"the package {package} is not installed; install zoo-bench again.")
    root = Path(spec.origin).resolve().parent
    for candidate in (root / name, root.parent / name):
        if candidate.is_dir():
            return candidate
    raise MissingError(f"the installation lacks {name} beside {root}; install zoo-bench again.")
