"""`zoo-bench ablation BASE [ROWS]`: rows beside one base, in one table. Imports no torch."""

from __future__ import annotations

from pathlib import Path

import click

from benchmark.cli.complete import METHOD, SUITES_LIST, TASKS_LIST
from benchmark.cli.options import PATH, Listed, json_option, names_plugin_option, results_only_option, say_json
from zoo.files import write_text


@click.command("ablation")
@click.argument("base", type=METHOD)
@click.argument("rows", nargs=-1, type=METHOD)
@results_only_option
@click.option("--suite", "suites", cls=Listed, type=SUITES_LIST, help="Only these suites, comma-separated.")
@click.option("--tasks", cls=Listed, type=TASKS_LIST, help="Instead of suites: these tasks, comma-separated.")
@click.option("--tex", type=PATH, help="Write the table as LaTeX too.")
@names_plugin_option
@json_option
def command(
    base: str,
    rows: tuple[str, ...],
    results: Path,
    suites: str | None,
    tasks: str | None,
    tex: Path | None,
    as_json: bool,
) -> int:
    """Compare each of ROWS with BASE, seed by seed for rows with a single changed setting.

    ROWS are names or globs [default: the rows of BASE's recipe with other settings].
    """
    from benchmark import api

    table = api.ablation(base, rows, results=results, suites=suites, tasks=tasks)
    if tex is not None:
        write_text(tex, table.latex())
    if as_json:
        say_json(table.as_dict())
    else:
        table.show()
    return 0
