"""The benchmark: tasks, runner, records and leaderboards. `evaluate`, `compare` and `leaderboard` are its Python API.

Importing this package imports no torch; the names below are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmark.api import Results, RunOptions, compare, evaluate, export, for_mteb, leaderboard
    from benchmark.choosing.adapt import adapt
    from benchmark.choosing.choice import choose

__all__ = ["Results", "RunOptions", "adapt", "choose", "compare", "evaluate", "export", "for_mteb", "leaderboard"]


def __getattr__(name: str) -> Any:
    if name in ("adapt", "choose"):
        module = {"adapt": "adapt", "choose": "choice"}[name]
        return getattr(importlib.import_module(f"benchmark.choosing.{module}"), name)
    if name in __all__:
        return getattr(importlib.import_module("benchmark.api"), name)
    raise AttributeError(f"module 'benchmark' has no attribute {name!r}")
