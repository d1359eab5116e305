"""Suites: named lists of tasks in a common table, from configs/suites/*.yaml."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from benchmark.tasks import MTEB, TASKS, TaskRow, plain_name
from zoo.errors import CorruptError, UsageError, did_you_mean
from zoo.files import read_yaml
from zoo.paths import resource_folder, user_path
from zoo.recipes import build
from zoo.selection import match_names, separated


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A table: its columns, the task to choose checkpoints, and the default training texts."""

    name: str
    title: str
    tasks: tuple[str, ...]
    columns: tuple[str, ...]
    dev: str
    corpus: str
    pairs: str = "nli"
    # At most so many of a training text that no one named.
    train_sentences: int = 20_000
    seeds: int = 3
    place: int = 100
    note: str = ""
    aliases: tuple[str, ...] = ()
    means: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # False: the tasks together have no mean, because it would mix measures.
    average: bool = True
    average_title: str = "Avg."

    def narrowed(self, tasks: Collection[str]) -> Suite:
        """Keep only the columns in `tasks`, and their mean, named after them."""
        kept = {task: column for task, column in zip(self.tasks, self.columns, strict=True) if task in tasks}
        if len(kept) in (0, len(self.tasks)):
            return self
        means = {name: some for name, some in self.means.items() if kept.keys() >= set(some)}
        title = f"{', '.join(kept.values())} (of {self.title})"
        columns = tuple(kept.values())
        average = f"Avg. of {', '.join(columns)}" if len(columns) < 4 else f"Avg. of {len(columns)}"
        several = self.average and len(columns) > 1
        return replace(
            self,
            title=title,
            note=_narrowed_note(self.note, self.columns, columns),
            tasks=tuple(kept),
            columns=columns,
            means=means,
            average=several,
            average_title=average,
        )


def _narrowed_note(note: str, every: Collection[str], kept: Collection[str]) -> str:
    parts = []
    for part in re.split(r"(?<=[;.]) ", note):
        head, colon, rest = part.partition(": ")
        names = head.split(", ") if colon and set(head.split(", ")) <= {*every} else _named(part, every)
        there = [name for name in names if name in kept]
        if names and not there:
            continue
        if names == head.split(", "):
            rest = re.sub(r" \(([^)]*)\)", lambda aside: aside[0] if _of_kept(aside[1], every, kept) else "", rest)
            part = f"{', '.join(there)}: {rest}"
        parts.append(part)
    return re.sub(";$", ".", " ".join(parts))


def _named(text: str, columns: Iterable[str]) -> list[str]:
    return [name for name in columns if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]


def _of_kept(text: str, every: Collection[str], kept: Collection[str]) -> bool:
    names = _named(text, every)
    return not names or any(name in kept for name in names)


def all_suites() -> dict[str, Suite]:
    """Return shipped suites, the papers' main tables first."""
    return _shipped(resource_folder("benchmark", "configs") / "suites").copy()


def known_suites(results: Path | None) -> dict[str, Suite]:
    """Return shipped suites, and behind them those whose files runs copied into a results folder."""
    known = all_suites()
    for path in sorted((results / "given" / "suites").glob("*.y*ml")) if results is not None else ():
        # A task of a plugin that is not named here, or a name that a later version ships.
        with suppress(UsageError, CorruptError):
            known[path.stem] = read_suite(path)
    return known


@functools.cache
def _shipped(folder: Path) -> dict[str, Suite]:
    suites = {path.stem: _suite(read_yaml(path), path) for path in folder.glob("*.yaml")}
    for task in filter(TASKS.is_builtin, TASKS.names()):
        row = TASKS.get(task)
        for name, column in row.suites.items() if isinstance(row, TaskRow) else ():
            of_name = suites[name]
            suites[name] = replace(of_name, tasks=(*of_name.tasks, task), columns=(*of_name.columns, column))
    return dict(sorted(suites.items(), key=lambda item: (item[1].place, item[0])))


def _suite(content: object, path: Path) -> Suite:
    if not isinstance(content, dict):
        raise UsageError(f"{path}: a suite is a mapping with the keys {', '.join(f.name for f in fields(Suite))}.")
    means = _means(content.pop("means", {}), str(path))
    suite = replace(build(Suite, {**content, "name": path.stem}, str(path)), means=means)
    unknown = {task for tasks in means.values() for task in tasks} - set(suite.tasks)
    if unknown:
        raise UsageError(f"{path}: means: {', '.join(sorted(unknown))} is no task of the suite.")
    return suite


def _means(content: object, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(content, dict) or not all(isinstance(tasks, list) and tasks for tasks in content.values()):
        raise UsageError(f"{where}: means: expected names with lists of tasks, got {content!r}.")
    return {str(name): tuple(map(str, tasks)) for name, tasks in content.items()}


def suites_named(names: str, results: Path | None = None) -> list[Suite]:
    """Return suites by name, those given to runs of `results` too; raises UsageError with suggestions."""
    return [suite(name, results) for name in dict.fromkeys(name.strip() for name in names.split(","))]


def suites_for(names: str | None, tasks: str | None) -> list[Suite]:
    """Return suites by name; default: pocket if it has all tasks (or none are named), else suites with any."""
    if names is not None:
        return suites_named(names)
    patterns = [TASKS.canonical(part.strip()).lower() for part in (tasks or "").split(",") if part.strip()]

    def has(suite: Suite, pattern: str) -> bool:
        return bool(fnmatch.filter([task.lower() for task in suite.tasks], pattern))

    pocket = suite("pocket")
    if all(has(pocket, pattern) for pattern in patterns):
        return [pocket]
    return [candidate for candidate in all_suites().values() if any(has(candidate, p) for p in patterns)] or [pocket]


def merged(suites: Sequence[Suite]) -> Suite:
    tasks = dict.fromkeys(task for suite in suites for task in suite.tasks)
    return replace(suites[0], tasks=tuple(tasks))


def suite_of_run(names: str | None, tasks: str | None, dev: str | None, seeds: int | None) -> Suite:
    """Return the tasks of a run as a suite, named after its suites; raises UsageError for a wrong name."""
    suites = suites_for(names, tasks)
    joined = merged(suites)
    dev = TASKS.canonical(dev or joined.dev)
    tasks_named(dev)
    name, chosen = names or ",".join(each.name for each in suites), tuple(choose_tasks(joined, tasks))
    return replace(joined, name=name, tasks=chosen, dev=dev, seeds=seeds or joined.seeds)


def read_suite(path: Path) -> Suite:
    """Read a suite from a user's YAML file; raises UsageError for a wrong file.

    Default: columns are the tasks' names, STS-B chooses checkpoints, and methods are trained on wiki.
    """
    content = read_yaml(path)
    if not isinstance(content, dict) or not isinstance(content.get("tasks"), list) or not content["tasks"]:
        raise UsageError(f"{path}: a suite is a mapping with a list of `tasks`; `zoo-bench tasks` has their names.")
    if path.stem in all_suites():
        raise UsageError(f"{path}: {path.stem} is a suite that ships with the package; rename the file.")
    defaults = {"title": path.stem, "columns": content["tasks"], "dev": "STS-B", "corpus": "wiki"}
    suite = _suite({**defaults, **content}, path)
    suite = replace(suite, tasks=tuple(map(TASKS.canonical, suite.tasks)), dev=TASKS.canonical(suite.dev))
    named = (*suite.tasks, suite.dev)
    unknown = [task for task in named if task not in TASKS and not task.startswith(MTEB)]
    if unknown:
        hint = did_you_mean(unknown[0], TASKS.names())
        raise UsageError(f"{path}: unknown task {unknown[0]!r}.{hint} `zoo-bench tasks` lists them all.")
    if len(suite.columns) != len(suite.tasks) or len(set(suite.tasks)) != len(suite.tasks):
        raise UsageError(f"{path}: list each task only once, and give `columns` one title for each task.")
    return suite


def suite(name: str, results: Path | None = None) -> Suite:
    """Return a suite by name or YAML file; raises UsageError with suggestions."""
    if name.endswith((".yaml", ".yml")):
        return read_suite(user_path(name))
    suites = known_suites(results)
    known_name = name if name in suites else suite_name(name)
    if known_name is None:
        hint = separated(name, suites) or did_you_mean(name, suites)
        if (task := TASKS.canonical(name)) in TASKS:
            hint = f" It is a task: --tasks {task}."
        raise UsageError(f"unknown suite {name!r:.200}.{hint} Known: {', '.join(suites)}.")
    return suites[known_name]


def suite_name(name: str) -> str | None:
    known = {plain_name(alias): suite.name for suite in all_suites().values() for alias in (*suite.aliases, suite.name)}
    return known.get(plain_name(name))


def tasks_named(names: str, also: Collection[str] = ()) -> tuple[str, ...]:
    """Return tasks, mteb:NAME, or names of `also`, which alone a glob fits; raises UsageError for others."""
    tasks: dict[str, None] = {}
    for name in (TASKS.canonical(part.strip()) for part in names.split(",") if part.strip()):
        if also and any(sign in name for sign in "*?["):
            tasks |= dict.fromkeys(match_names(name, {task: task for task in sorted(also)}, "task"))
            continue
        if name not in also and not name.startswith(MTEB):
            _check_no_suite(name)
            match_names(name, dict.fromkeys([*TASKS.names(), *also]), "task")
        tasks[name] = None
    if not tasks:
        raise UsageError("--tasks names no task; see `zoo-bench tasks`.")
    return tuple(tasks)


def _check_no_suite(name: str) -> None:
    if (named := suite_name(name)) is not None:
        raise UsageError(f"--tasks: {name!r} is a suite: --suite {named}.")


def choose_tasks(chosen: Suite, patterns: str | None) -> list[str]:
    """Return the suite's tasks, or those of `--tasks`; raises UsageError."""
    if patterns is None:
        return list(chosen.tasks)
    known = {name: name for name in TASKS.names()}
    names: list[str] = []
    for pattern in (TASKS.canonical(part.strip()) for part in patterns.split(",")):
        if not pattern:
            continue
        # A glob matches the suite's tasks first: `--suite sts --tasks 'sts*'` does not include the raw tasks.
        in_suite = {name: name for name in chosen.tasks}
        if pattern.startswith(MTEB):
            known = {**known, pattern: pattern}
        try:
            hits = match_names(pattern, in_suite, "task")
        except UsageError:
            _check_no_suite(pattern)
            hits = match_names(pattern, known, "task")
        twice = [hit for hit in hits if hit in names]
        if twice:
            raise UsageError(f"--tasks: {twice[0]!r} is named twice.")
        names += hits
    if not names:
        raise UsageError("--tasks names no task; see `zoo-bench tasks`.")
    return names
