"""`zoo-bench tasks`: the tasks for --tasks, by family, and the suites."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from benchmark.cli.complete import TASKS_OR_SUITES
from benchmark.cli.options import (
    data_option,
    joined,
    json_option,
    line_width,
    load_plugins,
    matches,
    plugin_option,
    say,
    say_json,
    say_prose,
)
from benchmark.data.catalog import catalog
from benchmark.data.sources import found_here
from benchmark.report.terminal import hanging, wrapped
from benchmark.tasks import TASKS
from benchmark.tasks.base import Task
from benchmark.tasks.suites import Suite, all_suites, suite_name
from zoo.errors import UsageError, did_you_mean

_ORDER = ("sts", "relatedness", "words", "phrases", "transfer")


@click.command("tasks")
@click.argument("names", nargs=-1, type=TASKS_OR_SUITES, callback=joined)
@click.option("--family", help="Only tasks of this family: sts, relatedness, transfer, words, phrases ...")
@click.option("--show", is_flag=True, help="Print all that is known of the tasks and suites NAMES.")
@data_option
@json_option
@plugin_option
def command(
    names: str | None, family: str | None, show: bool, data: str | None, as_json: bool, plugins: tuple[Path, ...]
) -> None:
    """List the tasks that --tasks takes, by family, and the suites; NAMES are globs, or words to look for.

    With --show: rows, licence, the data's place on this machine, test items repeated or in training data, and its
    suites; of a suite, the training data of methods.
    """
    load_plugins(plugins)
    if show and names is None and family is None:
        raise UsageError("name what to show, as in `zoo-bench tasks STS12 --show`.")
    tasks, suites = _chosen(names, family)
    known = list(all_suites().values())
    listed = [_listed(name, task, known) for name, task in tasks]
    if show:
        for entry in listed:
            entry |= _data_of(entry, data)
    if as_json:
        say_json({"tasks": listed, "suites": [asdict(suite) for suite in suites], "broken": TASKS.broken()})
        return
    if show:
        say("\n\n".join([*(_shown(entry) for entry in listed), *(_shown(asdict(suite)) for suite in suites)]))
        return
    _print_tasks(listed)
    _print_suites(suites)
    if names is None and family is None:
        say_prose("mteb:NAME: an STS, classification, clustering or pair classification task of mteb (extra `mteb`)")
    for name, reason in TASKS.broken().items():
        say_prose(f"broken: {name}: {reason}")


def task_family(name: str) -> str:
    """Return the name of the file with the task's table, or "plugins"."""
    return TASKS.origin(name).rpartition(".")[2] if TASKS.is_builtin(name) else "plugins"


def _chosen(names: str | None, family: str | None) -> tuple[list[tuple[str, Task | None]], list[Suite]]:
    tasks, suites = list(TASKS.load_all()), list(all_suites().values())
    families = list(dict.fromkeys(task_family(name) for name, _ in tasks))
    if family is not None:
        if family not in families:
            raise UsageError(
                f"unknown family {family!r}.{did_you_mean(family, families)} Known: {', '.join(families)}."
            )
        tasks, suites = [(name, task) for name, task in tasks if task_family(name) == family], []
    if names is None:
        return tasks, suites
    wanted = [word.strip() for word in names.split(",") if word.strip()]
    exact = [TASKS.canonical(word) for word in wanted]
    tasks_named = [(name, task) for name, task in tasks if name in exact]
    named = [suite for suite in suites if suite.name in map(suite_name, wanted)]
    if not tasks_named and not named:
        tasks_named = [
            (name, task)
            for name, task in tasks
            if any(matches(word, name, *((task.title, task.dataset) if task else ())) for word in wanted)
        ]
        named = [suite for suite in suites if any(matches(word, suite.name, suite.title) for word in wanted)]
    if not tasks_named and not named:
        known = [*(name for name, _ in tasks), *(suite.name for suite in suites)]
        raise UsageError(f"no task or suite fits {names!r}.{did_you_mean(names, known)} `zoo-bench tasks` lists all.")
    return tasks_named, named


def _listed(name: str, task: Task | None, suites: list[Suite]) -> dict[str, object]:
    head = {
        "name": name,
        "family": task_family(name),
        "suites": [suite.name for suite in suites if name in suite.tasks],
    }
    if task is None:
        return {**head, "title": "broken", "dataset": "", "form": "", "metric": "", "version": 0}
    more = {key: getattr(task, key) for key in ("title", "dataset", "form", "metric", "version")}
    return {**head, **more}


def _data_of(described: dict[str, Any], folder: str | None) -> dict[str, Any]:
    from benchmark.tasks.overlap import repeated

    entry = catalog().get(described["dataset"])
    if entry is None or described["form"] not in entry.forms:
        stated = None if described["name"] in TASKS.broken() else TASKS.get(described["name"])
        return {key: getattr(stated, key, "") for key in ("licence", "citation")} | {
            "repeated test items": "not measured"
        }
    return {
        "rows": dict(entry.rows),
        "subsets": dict(entry.subsets),
        "licence": entry.licence,
        "citation": entry.citation,
        "homepage": entry.homepage,
        "repeated test items": repeated(described["name"]) or "not measured",
        "found": found_here(entry.name, described["form"], folder),
    }


def _print_tasks(listed: list[dict[str, Any]]) -> None:
    if not listed:
        return
    width = line_width()
    indent = max(len(entry["name"]) for entry in listed) + 4
    rest = sorted({entry["family"] for entry in listed} - set(_ORDER), key=lambda name: (name == "plugins", name))
    for family in (*_ORDER, *rest):
        if all(entry["family"] != family for entry in listed):
            continue
        say(f"{family}:")
        for entry in listed:
            if entry["family"] == family:
                text = ", ".join(part for part in (entry["title"], entry["metric"]) if part)
                say("\n".join(hanging(f"  {entry['name']}", text, indent, width)))


def _print_suites(suites: list[Suite]) -> None:
    width = line_width()
    for suite in suites:
        title, tasks = f"suite {suite.name}: {suite.title}", ", ".join(suite.tasks)
        say("\n".join([*wrapped(title, width), *wrapped(tasks, width, "  ", "  ")]))


def _shown(values: dict[str, Any]) -> str:
    lines = [str(values["name"])]
    for key, value in values.items():
        if key == "name" or value in ("", None, [], {}, ()):
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v:,}" if isinstance(v, int) else f"{k}: {', '.join(v)}" for k, v in value.items())
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        lines += wrapped(f"{key}: {text}", line_width(), "  ", "    ")
    return "\n".join(lines)
