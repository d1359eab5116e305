"""The benchmark: tasks, runner, records and leaderboards. `evaluate`, `compare` and `leaderboard` are its Python API.

Importing this package imports no torch; the names below are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmark.api import Results, RunOptions, compare, evaluate, export, for_mteb, leaderboard
    from benchmark.choosing.choice import choose

__all__ = ["Results", "RunOptions", "choose", "compare", "evaluate", "export", "for_mteb", "leaderboard"]


def __getattr__(name: str) -> Any:
    if name == "choose":
        return importlib.import_module("benchmark.choosing.choice").choose
    if name in __all__:
        return getattr(importlib.import_module("benchmark.api"), name)
    raise AttributeError(f"module 'benchmark' has no attribute {name!r}")
