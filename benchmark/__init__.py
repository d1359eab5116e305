"""The benchmark: tasks, runner, records and leaderboards. `evaluate`, `compare` and `leaderboard` are its Python API.

Importing this package imports no torch; the names below are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmark.api import Results, RunOptions, compare, evaluate, export, for_mteb, leaderboard, score_pairs
    from benchmark.interop.second_opinion import second_opinion

_PLACES = {
    "adapt": "choose.adapt",
    "choose": "choose.choice",
    "second_opinion": "benchmark.interop.second_opinion",
    **dict.fromkeys(
        ("Results", "RunOptions", "compare", "evaluate", "export", "for_mteb", "leaderboard", "score_pairs"),
        "benchmark.api",
    ),
}
__all__ = ["Results", "RunOptions", "adapt", "choose", "compare", "evaluate", "export", "for_mteb", "leaderboard"]
__all__ += ["score_pairs", "second_opinion"]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'benchmark' has no attribute {name!r}")
