"""`zoo-bench compare A B`: two methods on the same pairs, with intervals and p-values. Imports no torch."""

from __future__ import annotations

import sys
from typing import Any

import click

from benchmark.cli.complete import METHOD, SUITES_LIST, TASKS_LIST
from benchmark.cli.options import Listed, complain, data_option, json_option, results_option
from zoo.progress import print_safe


@click.command("compare")
@click.argument("a", type=METHOD)
@click.argument("b", type=METHOD)
@results_option
@click.option(
    "--suite",
    "suites",
    cls=Listed,
    type=SUITES_LIST,
    help="Only these suites, comma-separated [default: all that both were measured on].",
)
@click.option("--tasks", cls=Listed, type=TASKS_LIST, help="Instead of suites: these tasks, comma-separated.")
@click.option("--resamples", type=click.IntRange(100, 1_000_000), default=10_000, help="Of the pairs.")
@click.option(
    "--borrow-seed-noise",
    is_flag=True,
    help="For a row of one seed: the pooled noise of its backbone's other rows.",
)
@json_option
@click.option("--pairs", type=click.IntRange(0), default=0, help="Also the N pairs of each task that differ most.")
@click.option("--no-texts", is_flag=True, help="With --pairs: row numbers instead of texts.")
@data_option
def command(a: str, b: str, as_json: bool, no_texts: bool, **options: Any) -> int:
    """Compare methods A and B pair by pair: differences, bootstrap intervals, p-values, Williams' test."""
    from benchmark import api  # imported here because --help and shell completion do not need it

    found = api.compare(a, b, texts=not no_texts, **options)
    if as_json:
        print_safe(found.to_json(), sys.stdout)
    else:
        found.show()
    for text in found.left_out:
        complain(text)
    return 0
