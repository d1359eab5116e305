"""`zoo-bench tasks`: the tasks that --tasks takes, and the suites."""

from __future__ import annotations

from pathlib import Path

import click

from benchmark.cli.options import load_plugins, plugin_option, print_rows, say
from benchmark.tasks import TASKS
from benchmark.tasks.suites import all_suites


@click.command("tasks")
@plugin_option
def command(plugins: tuple[Path, ...]) -> None:
    """List the tasks that --tasks takes, and the suites."""
    load_plugins(plugins)
    rows = []
    for name, task in TASKS.load_all():
        rows.append([name, task.dataset, task.form, task.title, task.metric] if task else [name, "", "", "broken", ""])
    print_rows(["TASK", "DATA SET", "TEXT", "TITLE", "SCORE"], rows)
    for suite in all_suites().values():
        say(f"suite {suite.name}: {', '.join(suite.tasks)}")
    for name, reason in TASKS.broken().items():
        say(f"broken: {name}: {reason}")
