"""Loads tasks with their data, or with the reason for missing data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import NotRequired, TypedDict

from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS, Task, TaskData
from zoo.check import own_line
from zoo.encoder import Traits
from zoo.errors import CorruptError, MissingError, UsageError, error_text

_SAMPLE = 64
_LONGEST = 8


class TaskIdentity(TypedDict):
    """The part of a task in keys; `sha256` is over its data files."""

    name: str
    version: int
    dataset: str
    form: str
    sha256: str | None
    # Versions of the metrics that compute its scores, of those above 1.
    metrics: NotRequired[dict[str, int]]


@dataclass(frozen=True)
class LoadedTask:
    name: str
    task: Task
    data: TaskData | None
    reason: str | None = None
    # The data exists but is damaged: its cells fail instead of being n/a.
    damaged: bool = False

    def identity(self) -> TaskIdentity:
        located = self.data.located if self.data is not None else None
        identity: TaskIdentity = {
            "name": self.name,
            "version": self.task.version,
            "dataset": self.task.dataset,
            "form": self.task.form,
            "sha256": None if located is None else located.sha256,
        }
        if self.data is not None and (raised := self.data.raised_metrics()):
            identity["metrics"] = raised
        return identity

    def can_score(self, traits: Traits) -> bool:
        """True without data, and unless the task trains the encoder and the method has no trainable weights.

        Also False for single words if the method needs several.
        """
        if self.data is None:
            return True
        if self.data.trains_encoder and not traits.fine_tunes:
            return False
        return not traits.needs_several_words or any(len(text.split()) > 1 for text in self.data.texts())

    @cached_property
    def sample(self) -> list[str]:
        """64 of its texts, or all: those of smallest digest, whatever their order."""
        texts = set(self._texts())
        return sorted(texts, key=lambda text: sha256(text.encode("utf-8", "surrogatepass")).digest())[:_SAMPLE]

    @property
    def longest(self) -> list[str]:
        return sorted(set(self._texts()), key=lambda text: (-len(text), text))[:_LONGEST]

    def _texts(self) -> list[str]:
        try:
            return self.data.texts() if self.data is not None else []
        except Exception:
            # A plugin's cells fail when they are measured, and state the error.
            return []


def load_tasks(names: Sequence[str], data: DataSource, limit: int | None) -> list[LoadedTask]:
    loaded = []
    for name in names:
        task = TASKS.get(name)
        try:
            data_of_task: object = task.load(data, limit)
            if not isinstance(data_of_task, TaskData):
                raise TypeError(f"load() must return TaskData, not {type(data_of_task).__name__}")
            loaded.append(LoadedTask(name, task, data_of_task))
        except (MissingError, CorruptError) as error:
            loaded.append(LoadedTask(name, task, None, str(error), damaged=isinstance(error, CorruptError)))
        except Exception as error:
            if TASKS.is_builtin(name) or isinstance(error, UsageError):
                raise
            # A plugin's task fails, the others go on.
            reason = error_text(error) + own_line(type(task), error, "load")
            loaded.append(LoadedTask(name, task, None, reason, damaged=True))
    return loaded
