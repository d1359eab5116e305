"""The end of `run` for human readers: its findings, and a command to run next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
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
        if flag not in (*words, "--json"):
            values = value if isinstance(value, tuple) else (value,)
            carried += [flag] if param.is_flag else [word for item in values for word in (flag, str(item))]
    return shlex.join(["zoo-bench", name, *words, *carried])


def _without_items(records: Sequence[Record]) -> set[str]:
    """Return the tasks of plugins that keep no scores of items, which `compare` needs."""
    measured = [record for record in records if record["status"] == "ok"]
    return {r["task"]["name"] for r in measured if not (r.get("pairs") or r.get("items"))}


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
    compared = [name for name in sorted(tasks) if name not in _without_items(board.records)] if typed else []
    if rows and (compared or not typed):
        words = ("--tasks", ",".join(compared)) if {*compared} != typed else ()
        say(f"Next, task by task: {next_command('compare', *rows, *words)}")
    say_prose(f"Notes, costs and plots: {board.place / 'index.html'}")
