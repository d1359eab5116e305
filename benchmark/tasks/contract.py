"""Tests that a task keeps its interface: the part of `zoo-bench check` for tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmark.data.sources import DataSource, Located
from benchmark.tasks.base import Task, TaskData
from zoo.api import create
from zoo.check import problem_of


def check_task(task: Task, data: DataSource) -> Iterator[tuple[str, str | None]]:
    """Yield (what was checked, None or the problem): the data, their texts, and the score of random vectors."""
    loaded_data: list[TaskData] = []
    problem = problem_of(type(task), lambda: _load(task, data, loaded_data), "load")
    yield "title, data set and data", problem
    if problem is not None:
        return
    cls = type(loaded_data[0]) if type(loaded_data[0]).__module__ == type(task).__module__ else type(task)
    yield "texts", problem_of(cls, lambda: _texts(loaded_data[0]), "texts")
    yield "fewer rows with --limit 2", problem_of(type(task), lambda: _limit(task, data, loaded_data[0].rows), "load")
    if not loaded_data[0].trains_encoder:
        yield "score", problem_of(cls, lambda: _score(loaded_data[0]), "score")


def _load(task: Task, data: DataSource, loaded_data: list[TaskData]) -> str | None:
    for name in ("title", "dataset", "form", "metric"):
        if not isinstance(getattr(task, name, None), str):
            return f"{name} must be a text"
    loaded: object = task.load(data)
    if not isinstance(loaded, TaskData):
        return f"load() must return TaskData, not {type(loaded).__name__}"
    if not isinstance(getattr(loaded, "located", None), Located) or not isinstance(getattr(loaded, "rows", None), int):
        return "load() must return TaskData with `located`, where the data lies, and `rows`, their number"
    loaded_data.append(loaded)
    return None


def _texts(data: TaskData) -> str | None:
    for name in ("texts", "tested", "unlabelled"):
        texts: object = getattr(data, name)()
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            return f"{name}() must return a list of texts that is not empty"
    return None


def _limit(task: Task, data: DataSource, rows: int) -> str | None:
    fewer = task.load(data, 2).rows
    return None if 0 < fewer <= rows else f"load() returns {fewer} rows of {rows} with limit=2"


def _score(data: TaskData) -> str | None:
    encoder = create("random")
    first, second = (data.score(lambda texts: encoder.encode(list(texts))) for _ in range(2))
    if not isinstance(first, dict) or not isinstance(first.get("main_metric"), str):
        return "score() must return a dictionary with `main`, `main_metric` and `reason`"
    main = first.get("main")
    if not (isinstance(main, float | int) and math.isfinite(main)) and not first.get("reason"):
        return f"score() must return a number as `main`, or None with a `reason`, not {main!r:.40}"
    return None if second.get("main") == main else "score() gives another score the second time"
