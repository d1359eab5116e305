"""What `zoo-bench run` adds for human readers: what the run showed, and one command to run next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmark.cli.following import next_command
from benchmark.cli.options import say, say_prose
from benchmark.run.options import RunOptions
from zoo.progress import clean_line

if TYPE_CHECKING:
    from benchmark.report.leaderboard import Leaderboard
    from benchmark.run.plan import Run


def show_closing(options: RunOptions, run: Run, board: Leaderboard) -> None:
    """Print who is tied, what training gained, the command to run next, and where the rest is."""
    from benchmark.report.learned import learned

    encoders = run.encoders
    keys = {plan.inputs.row_key for plan in encoders if not plan.row.control}
    tasks = {cell.task.name for plan in encoders for cell in plan.cells}
    tables = [table for table in board.tables if table.limit == options.limit and tasks.intersection(table.suite.tasks)]
    lessons = [learned(table, board.store, keys) for table in tables]
    for table, (lines, _) in zip(tables, lessons, strict=True):
        title = f"{table.suite.name}: " if len(lessons) > 1 else ""
        say_prose("\n".join(["", *(f"{title}{clean_line(line)}" for line in lines)]))
    if rows := next((rows for _, rows in lessons if rows), None):
        say(f"Next, task by task: {next_command('compare', *rows)}")
    say_prose(f"Notes, costs and plots: {board.place / 'index.html'}")
