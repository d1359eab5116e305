"""The tasks: one file per family with a table of rows, and their registry. Listing reads no data, imports no torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from benchmark.tasks import finetune, phrases, pocket, relatedness, semeval, sts, transfer, words
from benchmark.tasks.base import Scores, Task, TaskData, TaskRow
from zoo.registry import Registered, Registry

_FAMILIES = (sts, relatedness, transfer, words, phrases, semeval, finetune, pocket)

C = TypeVar("C", bound=type[Task])


def plain_name(name: str) -> str:
    """Return a name without case, hyphens, underscores and blanks, in which people's spellings of it differ."""
    return re.sub(r"[-_ ]", "", name).lower()


MTEB = "mteb:"  # the prefix of names of mteb's tasks


class TaskRegistry(Registry[Task]):
    """Maps names to tasks: rows of the built-in tables, Task subclasses of plugins, and mteb's tasks (mteb:NAME)."""

    def get(self, name: str) -> Task:
        """Return a task; raises UsageError for an unknown or broken name, MissingError where mteb is not installed."""
        if not name.startswith(MTEB):
            return super().get(name)
        from benchmark.tasks.mteb import mteb_task

        return mteb_task(name)

    def canonical(self, name: str) -> str:
        """Return the registered name that a name, another spelling of it or an alias stands for, else the name."""
        known = {plain_name(one): one for one in self.names()}
        for one, entry in self._entries.items():
            for alias in getattr(entry.target, "aliases", ()):
                known.setdefault(plain_name(alias), one)
        return name if name in self else known.get(plain_name(name), name)

    def made_of(self, found: Any, base: type[Any], origin: str) -> Task:
        """Return the row, or a new task of a plugin's class."""
        return found if isinstance(found, TaskRow) else super().made_of(found, base, origin)()  # type: ignore[operator]


TASKS = TaskRegistry(
    "task",
    base="benchmark.tasks.base:Task",
    group="zoo_bench.tasks",
    builtin=lambda: {row.name: Registered(row, family.__name__) for family in _FAMILIES for row in family.ROWS},
)


def register_task(name: str) -> Callable[[C], C]:
    """Class decorator for a plugin: register a Task subclass under a name."""
    return TASKS.register(name)


__all__ = ["MTEB", "TASKS", "Scores", "Task", "TaskData", "TaskRow", "register_task"]
