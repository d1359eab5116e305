"""The tasks: one file per family with a table of rows, and their registry. Listing reads no data, imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from benchmark.tasks import finetune, phrases, pocket, relatedness, semeval, sts, transfer, words
from benchmark.tasks.base import Scores, Task, TaskData, TaskRow
from zoo.registry import Registered, Registry

_FAMILIES = (sts, relatedness, transfer, words, phrases, semeval, finetune, pocket)

C = TypeVar("C", bound=type[Task])


MTEB = "mteb:"  # the prefix of names of mteb's tasks


class TaskRegistry(Registry[Task]):
    """Maps names to tasks: rows of the built-in tables, Task subclasses of plugins, and mteb's tasks (mteb:NAME)."""

    def get(self, name: str) -> Task:
        """Return a task; raises UsageError for an unknown or broken name, MissingError where mteb is not installed."""
        if not name.startswith(MTEB):
            return super().get(name)
        from benchmark.tasks.mteb import mteb_task

        return mteb_task(name)

    def made_of(self, found: Any, base: type[Any], origin: str) -> Task:
        """Return the row, or a new task of a plugin's class."""
        return found if isinstance(found, TaskRow) else super().made_of(found, base, origin)()  # type: ignore[operator]


TASKS = TaskRegistry(
    "task",
    base="benchmark.tasks.base:Task",
    group="zoo_bench.tasks",
    builtin={row.name: Registered(row, family.__name__) for family in _FAMILIES for row in family.ROWS},
)


def register_task(name: str) -> Callable[[C], C]:
    """Class decorator for a plugin: register a Task subclass under a name."""
    return TASKS.register(name)


__all__ = ["MTEB", "TASKS", "Scores", "Task", "TaskData", "TaskRow", "register_task"]
