"""The end of `run` for human readers: its findings, and a command to run next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from benchmark.cli.main import main_group
from benchmark.cli.options import say, say_prose
from benchmark.run.options import RunOptions
from zoo.progress import clean_line

if TYPE_CHECKING:
    from benchmark.records.record import Record
    from benchmark.report.leaderboard import Leaderboard
    from benchmark.run.plan import Run


def next_command(name: str, *words: str) -> str:
    """Return a command to run next, with those options typed here that it shares."""
    context = click.get_current_context()
    following = main_group.get_command(context, name)
    # Options of one name may differ: `run --pairs` names labelled pairs, `compare --pairs` is a number.
    known = {(param.name, type(param.type)) for param in following.params} if following else set()
    carried: list[str] = []
    for param in context.command.params:
        typed = context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if not typed or not isinstance(param, click.Option) or (param.name, type(param.type)) not in known:
            continue
        flag, value = param.opts[0], context.params[param.name or ""]
        if flag not in (*words, "--json", "--suite" if "--tasks" in words else ""):
            values = value if isinstance(value, tuple) else (value,)
            carried += [flag] if param.is_flag else [word for item in values for word in (flag, str(item))]
    return shlex.join(["zoo-bench", name, *words, *carried])


def _compared(rows: Sequence[str], records: Sequence[Record], folder: Path, tasks: set[str]) -> list[str]:
    """Return the tasks on which all rows have scores of items, which `compare` needs."""
    # It imports numpy, which --help does without.
    from benchmark.records.query import row_named

    for row in rows:
        measured = row_named(records, row, folder)
        tasks = tasks & {r["task"]["name"] for r in measured if r.get("pairs") or r.get("items")}
        tasks = tasks - {r["task"]["name"] for r in measured if r["status"] != "ok"}
    return sorted(tasks)


def show_closing(options: RunOptions, run: Run, board: Leaderboard) -> None:
    from benchmark.report.learned import learned

    encoders = run.encoders
    keys = {plan.inputs.row_key for plan in encoders if not plan.row.control}
    tasks = {cell.task.name for plan in encoders for cell in plan.cells}
    tables = [table for table in board.tables if table.limit == options.limit and tasks.intersection(table.suite.tasks)]
    lessons = [learned(table, board.store, keys) for table in tables]
    for table, (lines, _) in zip(tables, lessons, strict=True):
        title = f"{table.suite.name}: " if len(lessons) > 1 else ""
        say_prose("\n".join(["", *(f"{title}{clean_line(line)}" for line in lines)]))
    rows = next((rows for _, rows in lessons if rows), ())
    # It imports numpy, which --help does without.
    from benchmark.tasks import TASKS

    typed = {TASKS.canonical(name.strip()) for name in options.tasks.split(",")} if options.tasks else set()
    compared = _compared(rows, board.records, options.results, tasks) if rows else []
    if compared:
        words = ("--tasks", ",".join(compared)) if {*compared} != (typed or tasks) else ()
        say(f"Next, task by task: {next_command('compare', *rows, *words)}")
    say_prose(f"Notes, costs and plots: {board.place / 'index.html'}")
