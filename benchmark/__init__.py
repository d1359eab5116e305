"""The benchmark: tasks, runner, records and leaderboards. `evaluate`, `compare` and `leaderboard` are its Python API.

Importing this package imports no torch; the names below are loaded when they are first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
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


class _Tables(ModuleType):
    """The subpackage benchmark.leaderboard, made callable because a function of this package has the same name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return importlib.import_module("benchmark.api").leaderboard(*arguments, **options)


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if name == "leaderboard" and type(value) is ModuleType:  # set by the import system, whoever imports it first
            value.__class__ = _Tables
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
