"""What `zoo-bench run` adds for human readers: what the run showed, and commands to run next."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.cli.options import say
from benchmark.run.options import RESULTS, RunOptions
from zoo.paths import address_of

if TYPE_CHECKING:
    from benchmark.leaderboard.files import Leaderboard
    from benchmark.leaderboard.learned import Learned
    from benchmark.leaderboard.rows import Table
    from benchmark.records.record import Record
    from benchmark.run.prepare import Prepared

_NEXT = "sts"  # the suite to run after pocket
_SENTENCES = 20_000  # of its training text, which has millions
_SHOWN = 3  # commands

Command = tuple[list[str], str]
"""The words after `zoo-bench`, and what they do."""


def show_closing(
    options: RunOptions, plugins: Sequence[Path], prepared: Prepared, made: Leaderboard, *, complete: bool
) -> None:
    """Print what each table of the run shows, and commands to run next; `complete`: every cell has a score."""
    from benchmark.leaderboard.learned import learned
    from benchmark.leaderboard.table import read_completed
    from benchmark.records.folder import Records

    store = Records(options.results)
    records = read_completed(store)
    encoders = prepared.plan.encoders
    keys = {plan.row_key for plan in encoders if not plan.control}
    starts = {plan.row_key: plan.start_key for plan in encoders}
    tasks = {cell.task.name for plan in encoders for cell in plan.cells}
    trial = options.limit is not None
    tables = [table for table in made.tables if table.partial == trial and tasks.intersection(table.suite.tasks)]
    found = [(table, learned(table, records, store, keys, starts)) for table in tables]
    for table, one in found:
        title = f" ({table.suite.name})" if len(found) > 1 else ""
        say(f"\nWhat was learned{title}: {' '.join(one.sentences)}")
    if not found:
        return
    runs: list[Command] = []
    if complete:
        again = run_words(dataclasses.replace(options, controls=True), plugins)
        if not options.controls and found[0][1].control is None:
            runs.append((again, "the same with the controls that are missing, into the same table"))
        runs += _next_suite(options, plugins, prepared)
    say("What to do next:")
    for words, what in commands(options, plugins, *found[0], records, runs):
        say(f"  {shlex.join(['zoo-bench', *words])}\n      {what}")


def commands(
    options: RunOptions,
    plugins: Sequence[Path],
    table: Table,
    one: Learned,
    records: Sequence[Record],
    runs: Sequence[Command],
) -> list[Command]:
    """Return the commands to suggest: a closer look at the best row, `runs`, and what else there is."""
    where = [] if options.results == RESULTS else ["--results", address_of(options.results) or str(options.results)]
    found: list[Command] = []
    if one.rows:
        best = one.rows[0]
        other = one.starts.get(best) or next(iter([*one.rows[1:2], *([one.control] if one.control else [])]), None)
        if one.tasks and other is not None:
            names = [_unique(table, name, records, options.results) for name in (best, other)]
            text = "how the two differ on each task, with intervals"
            found.append((["compare", *names, *_tasks(table, one.tasks), *where], text))
        what = f"one page about {best}: curves, seeds, hard and worst pairs"
        data = [] if options.data is None else ["--data", options.data]
        report = ["report", _unique(table, best, records, options.results), *where, *data]
        found += [*runs[:1], (report, what), *runs[1:]]
    if table.suite.name == "pocket":
        found.append((["data", "list"], "the papers' data sets, and which of them are here"))
    else:
        found.append(
            (["leaderboard", "--by-condition", *where], "a table for each group of rows that learned from the same")
        )
    found.append((["methods", *_plugin_words(plugins)], "what else can be run"))
    return found[:_SHOWN]


def run_words(options: RunOptions, plugins: Sequence[Path]) -> list[str]:
    """Return the words of `zoo-bench run` with these options and plugins; what is at its default is left out."""
    words = ["run", "--methods", options.methods, *_plugin_words(plugins)]
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in ("methods", "file", "embedding_cache") or value in (field.default, None):
            continue  # the file's content is in the other options; the cache changes no result
        name = {"suites": "suite"}.get(field.name, field.name.replace("_", "-"))
        if field.name != "controls":
            value = (address_of(value) or value) if name == "results" else value
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words if options.controls else [*words, "--no-controls"]


def _plugin_words(plugins: Sequence[Path]) -> list[str]:
    return [word for path in plugins for word in ("--plugin", str(path))]


def _next_suite(options: RunOptions, plugins: Sequence[Path], prepared: Prepared) -> list[Command]:
    """Return the same run on the papers' tasks, if pocket was run and all data that it would read is here."""
    from benchmark.data.sources import DataSource
    from benchmark.tasks.loaded import load_tasks
    from benchmark.tasks.suites import suite
    from zoo.errors import ZooError

    if prepared.suites != ("pocket",):
        return []
    after, traits = suite(_NEXT), [plan.traits for plan in prepared.plan.encoders]
    # What was typed has been read by this run; its defaults are other texts.
    corpus = options.corpus is None and any(one.needs_corpus for one in traits)
    pairs = options.pairs is None and any(one.needs_pairs for one in traits)
    data = DataSource.from_options(options.data, hub=False)
    try:
        for name in [*([after.corpus] if corpus else []), *(after.pairs.split("+") if pairs else [])]:
            data.locate(name, "plain")
    except ZooError:  # without it the run would fail, so that it is not suggested
        return []
    if any(task.data is None for task in load_tasks([*after.tasks, options.dev or after.dev], data, options.limit)):
        return []
    drawn = options.train_sentences or (_SENTENCES if corpus else None)
    other = dataclasses.replace(options, suites=_NEXT, tasks=None, train_sentences=drawn)
    return [(run_words(other, plugins), "the same on the papers' tasks, whose data is here")]


def _tasks(table: Table, tasks: Sequence[str]) -> list[str]:
    """Return the options of `compare` for these tasks of a table: its suite where that ships with the package."""
    from benchmark.tasks.suites import all_suites

    if tuple(tasks) == table.suite.tasks and table.suite.name in all_suites():
        return ["--suite", table.suite.name]
    return ["--tasks", ",".join(tasks)]


def _unique(table: Table, name: str, records: Sequence[Record], folder: Path) -> str:
    """Return a name under which `compare` and `report` find this row alone: as printed, if need be with its key."""
    from benchmark.records.names import printed_names
    from benchmark.records.query import rows_named

    if len(rows_named(records, name, folder)) == 1:
        return name
    row = next(row for row in table.rows if row.name == name)
    return f"{printed_names(r['method']['name'] for r in records)[row.identity]} [{row.row_key[:8]}]"
