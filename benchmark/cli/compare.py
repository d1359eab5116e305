"""`zoo-bench compare A B`: two methods on the same pairs, with intervals and p-values. Imports no torch."""

from __future__ import annotations

import sys
from typing import Any

import click

from benchmark.cli.complete import METHOD, SUITES_LIST, TASKS_LIST
from benchmark.cli.options import (
    Listed,
    complain,
    data_option,
    json_option,
    names_plugin_option,
    results_only_option,
    wide_option,
)
from zoo.errors import UsageError
from zoo.progress import print_safe


@click.command("compare")
@click.argument("rows", nargs=-1, type=METHOD)
@results_only_option
@click.option(
    "--suite",
    "suites",
    cls=Listed,
    type=SUITES_LIST,
    help="Only these suites, comma-separated [default: all that both were measured on].",
)
@click.option("--tasks", cls=Listed, type=TASKS_LIST, help="Instead of suites: these tasks, comma-separated.")
@click.option(
    "--margin", type=click.FloatRange(0, min_open=True), help="Also ask whether A and B differ by less than this."
)
@click.option(
    "--borrow-seed-noise",
    is_flag=True,
    help="For a row of one seed: the pooled noise of its backbone's other rows.",
)
@json_option
@click.option("--pairs", type=click.IntRange(0), default=0, help="Also the N pairs of each task that differ most.")
@names_plugin_option
@wide_option
@click.option("--no-texts", is_flag=True, help="With --pairs: row numbers instead of texts.")
@data_option
def command(rows: tuple[str, ...], as_json: bool, no_texts: bool, wide: bool, **options: Any) -> int:
    """Compare two ROWS, A and B, pair by pair: differences, intervals, p-values, Williams' test."""
    from benchmark import api

    if len(rows) != 2:
        raise UsageError(
            f"compare takes two rows, A and B, and got {len(rows)}; several beside one: zoo-bench ablation BASE."
        )
    comparison = api.compare(*rows, texts=not no_texts, **options)
    if as_json:
        print_safe(comparison.to_json(), sys.stdout)
    else:
        comparison.show(wide=wide)
    for text in comparison.left_out:
        complain(text)
    return 0
