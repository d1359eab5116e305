"""One file a task family; the registry of tasks. Listing tasks reads no data and imports no torch."""

from __future__ import annotations

from collections.abc import Callable

from benchmark.tasks.base import Scores, Task, TaskData
from zoo.registry import Registry

_BUILTIN = {
    **{f"STS{year}": f"benchmark.tasks.sts:STS{year}" for year in range(12, 17)},
    **{f"STS{year}-raw": f"benchmark.tasks.sts:STS{year}Raw" for year in range(12, 17)},
    "STS-B": "benchmark.tasks.sts:STSBenchmark",
    "STS-B-raw": "benchmark.tasks.sts:STSBenchmarkRaw",
    "SICK-R": "benchmark.tasks.relatedness:SickRelatedness",
    "SICK-R-raw": "benchmark.tasks.relatedness:SickRelatednessRaw",
    "pocket-pairs": "benchmark.tasks.pocket:PocketPairs",
    "pocket-words": "benchmark.tasks.pocket:PocketWords",
    "pocket-phrases": "benchmark.tasks.pocket:PocketPhrases",
    "pocket-topics": "benchmark.tasks.pocket:PocketTopics",
}

TASKS: Registry[Task] = Registry("task", base="benchmark.tasks.base:Task", group="zoo_bench.tasks", builtin=_BUILTIN)


def register_task(name: str) -> Callable[[type[Task]], type[Task]]:
    """Class decorator for a plugin: register a Task subclass under a name."""
    return TASKS.register(name)


__all__ = ["TASKS", "Scores", "Task", "TaskData", "register_task"]
