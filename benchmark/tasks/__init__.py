"""The registry of tasks; listing reads no data, imports no torch."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmark.data.catalog import SETS, catalog
from benchmark.tasks.base import Scores, Task, TaskData, TaskRow
from zoo.errors import UsageError
from zoo.plugins import Registered, Registry
from zoo.recipes import build

C = TypeVar("C", bound=type[Task])


def plain_name(name: str) -> str:
    """Drop case, hyphens, underscores and blanks, the differences between spellings."""
    return re.sub(r"[-_ ]", "", name).lower()


MTEB = "mteb:"


class TaskRegistry(Registry[Task]):
    """Built-in rows, Task subclasses of plugins, and mteb's tasks (mteb:NAME), by name."""

    def get(self, name: str) -> Task:
        """Return a task; raises UsageError for an unknown or broken name, MissingError without mteb."""
        if not name.startswith(MTEB):
            return super().get(name)
        from benchmark.tasks.mteb import mteb_task

        return mteb_task(name)

    def spelling(self, name: str) -> str:
        return plain_name(name)

    def canonical(self, name: str) -> str:
        """Return the registered name of a spelling or an alias, else the name."""
        known = {plain_name(task_name): task_name for task_name in self.names()}
        for task_name, entry in self._entries.items():
            for alias in getattr(entry.target, "aliases", ()):
                known.setdefault(plain_name(alias), task_name)
        return name if name in self else known.get(plain_name(name), name)

    def made_of(self, target: Any, base: type[Any], origin: str) -> Task:
        return target if isinstance(target, TaskRow) else super().made_of(target, base, origin)()  # type: ignore[operator]


@dataclass(frozen=True, kw_only=True)
class _Entry:
    title: str
    read: str
    form: str = "plain"
    metric: str = "Spearman, cosine"
    version: int = 1
    aliases: tuple[str, ...] = ()


def _row(name: str, dataset: str, content: Mapping[str, Any]) -> tuple[TaskRow, str]:
    stated = dict(content)
    settings, suites = stated.pop("settings", {}), stated.pop("suites", {})
    entry = build(_Entry, stated, f"{SETS / dataset}.yaml: {name}")
    family, _, function = entry.read.partition(".")
    module = importlib.import_module(f"{__name__}.{family}")
    read = partial(getattr(module, function), **settings)
    row = TaskRow(name, entry.title, dataset, read, entry.form, entry.metric, entry.version, entry.aliases, suites)
    return row, module.__name__


def _with_rows() -> list[Any]:
    paths = sorted(Path(__file__).parent.glob("*.py"))
    modules = [path.stem for path in paths if "\nROWS = " in path.read_text(encoding="utf-8")]
    return [importlib.import_module(f"{__name__}.{name}") for name in modules]


def _builtin() -> dict[str, Registered]:
    rows = [_row(name, entry.name, task) for entry in catalog().values() for name, task in entry.tasks.items()]
    rows += [(row, module.__name__) for module in _with_rows() for row in module.ROWS]
    builtin = {row.name: Registered(row, module) for row, module in rows}
    twice = [row.name for row, _ in rows if builtin[row.name].target is not row]
    if twice:
        raise UsageError(f"task {twice[0]!r} is stated twice; give one of the two another name.")
    return builtin


TASKS = TaskRegistry("task", base="benchmark.tasks.base:Task", group="zoo_bench.tasks", builtin=_builtin)


def register_task(name: str) -> Callable[[C], C]:
    """Class decorator for a plugin: register a Task subclass.

    Args:
        name: The task's name in --tasks.

    Returns:
        The decorator, which returns the class as it is.

    Raises:
        UsageError: The name is taken.
    """
    return TASKS.register(name)


__all__ = ["MTEB", "TASKS", "Scores", "Task", "TaskData", "TaskRow", "register_task"]
