"""What `zoo-bench run` adds for human readers: controls in the default suite, a summary, and next commands."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING

from benchmark.cli.options import say
from benchmark.run.options import RESULTS, RunOptions

if TYPE_CHECKING:
    from benchmark.leaderboard.files import Leaderboard
    from benchmark.leaderboard.learned import Learned
    from benchmark.leaderboard.rows import Table
    from benchmark.run.prepare import Prepared

# They take seconds. Not bag-of-words, which has no score on single words: a first run would end with a failed cell.
_CONTROLS = ("random", "avg-last")
_WHERE = ("results", "device", "precision", "embedding_cache", "workers")


def with_controls(options: RunOptions) -> RunOptions:
    """Add the controls to the methods if nothing else is chosen except where to compute and to write.

    Such a run is a first look at the bundled data, where a score means little without a score to compare it with.
    """
    from zoo.recipe import all_recipes, parse_methods

    where = {name: getattr(options, name) for name in _WHERE}
    if options != RunOptions(methods=options.methods, **where):
        return options
    recipes = all_recipes()
    chosen = {spec.name for spec in parse_methods(options.methods, recipes)}
    missing = [name for name in _CONTROLS if name not in chosen and name in recipes]
    return dataclasses.replace(options, methods=",".join([options.methods, *missing]))


def show_closing(options: RunOptions, prepared: Prepared, made: Leaderboard) -> None:
    """Print two or three sentences about each table of the run, and three commands to run next."""
    from benchmark.leaderboard.files import read_completed
    from benchmark.leaderboard.learned import learned
    from benchmark.records.store import Records

    store = Records(options.results)
    records = read_completed(store)
    keys = {plan.row_key for plan in prepared.plan.encoders}
    tables = [table for table in made.tables if table.partial == (options.limit is not None)]
    found = [(table, learned(table, records, store, keys)) for table in tables]
    for table, one in found:
        title = f" ({table.suite.name})" if len(found) > 1 else ""
        say(f"\nWhat was learned{title}: {' '.join(one.sentences)}")
    if found:
        say("What to do next:")
        for words, what in commands(options, *found[0]):
            say(f"  {shlex.join(['zoo-bench', *words])}\n      {what}")


def commands(options: RunOptions, table: Table, one: Learned) -> list[tuple[list[str], str]]:
    """Return three command lines, each with what it does: a closer look, what is missing, and the next suite."""
    from benchmark.leaderboard.conditions import missing_controls

    where = [] if options.results == RESULTS else ["--results", str(options.results)]
    found: list[tuple[list[str], str]] = []
    others = [*one.rows[1:2], *([one.control] if one.control else [])]
    if one.tasks and others:
        whole = one.tasks == table.suite.tasks
        what = ["--suite", table.suite.name] if whole else ["--tasks", ",".join(one.tasks)]
        text = "how the two differ on each task, with intervals"
        found.append((["compare", one.rows[0], others[0], *what, *where], text))
    missing = missing_controls(table)
    if missing and one.control is None:
        run = ["run", "--methods", ",".join(missing), *_same(options, table), *where]
        found.append((run, "the controls that are missing, into the same table"))
    if one.rows:
        found.append(
            (["report", one.rows[0], *where], f"one page about {one.rows[0]}: curves, seeds, hard and worst pairs")
        )
    # `run` accepts neither a label nor a name that was shortened for printing.
    asked = {row.name: row.recipe or row.identity for row in table.rows}
    names = ",".join(dict.fromkeys(asked.get(name, name) for name in one.rows[:2])) or options.methods
    if table.suite.name == "pocket":
        text = "the same on the papers' tasks (README says how their data is found)"
        found.append((["run", "--methods", names, "--suite", "sts", *where], text))
    else:
        found.append(
            (["leaderboard", "--by-condition", *where], "a table for each group of rows that learned from the same")
        )
    found.append((["methods"], "what else can be run"))
    return found[:3]


def _same(options: RunOptions, table: Table) -> list[str]:
    """Return the options that put new rows into the same table."""
    given = {
        "--suite": table.suite.name if options.tasks is None else options.suites,
        "--tasks": options.tasks,
        "--backbone": options.backbone,
        "--revision": options.revision,
        "--data": options.data,
        "--limit": options.limit,
        "--precision": None if options.precision == "auto" else options.precision,
    }
    return [word for name, value in given.items() if value is not None for word in (name, str(value))]
