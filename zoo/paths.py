"""Where the project keeps things: the cache of this machine, and the folders that ship with a package."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from zoo.errors import MissingError


def cache_folder() -> Path:
    """Return where downloads and measurements of this machine are kept (`ZOO_BENCH_CACHE`)."""
    import platformdirs

    named = os.environ.get("ZOO_BENCH_CACHE")
    return Path(named).expanduser() if named else Path(platformdirs.user_cache_dir("zoo-bench"))


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
