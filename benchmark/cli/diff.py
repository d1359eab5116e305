"""`zoo-bench diff A B`: changes between two results folders, and their causes. Imports no torch."""

from __future__ import annotations

import click

from benchmark.cli.options import json_option, names_plugin_option, say_json, say_prose
from benchmark.run.options import RESULTS
from zoo.errors import UsageError


@click.command("diff")
@click.argument("a")
@click.argument("b", required=False)
@click.option("--results", help="B by another way [default: zoo-bench-results].")
@click.option(
    "--fail-if-worse", is_flag=True, help="Exit 1 where a score of B fell beyond noise or a record is damaged."
)
@names_plugin_option
@json_option
def command(a: str, b: str | None, results: str | None, fail_if_worse: bool, as_json: bool) -> int:
    """Show which cells of results folder B are new, gone or moved against A, with causes and ranks.

    FOLDER@CODE takes the records of one code, by the first digits of its digest or commit. A move is beyond noise at
    p < 0.05 by Holm's procedure over all moved cells, with the noise of pairs and of seeds.
    """
    from benchmark.checking.diff import diff

    if b is not None and results is not None:
        raise UsageError(f"{b} and --results {results} are two folders; name one.")
    changes = diff(a, b or results or str(RESULTS))
    say_json(changes.as_dict()) if as_json else say_prose(str(changes))
    return int(fail_if_worse and any(cell.worse or cell.damaged for cell in changes.cells))
