"""`zoo-bench compare A B`: two methods on the same pairs, with intervals and p-values. Imports no torch."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from benchmark import api
from benchmark.cli.options import complain, data_option, results_option
from zoo.progress import print_safe


@click.command("compare")
@click.argument("a")
@click.argument("b")
@results_option
@click.option("--suite", help="Only these suites, comma-separated [default: all that both were measured on].")
@click.option("--task", help="Instead of suites: these tasks, comma-separated.")
@click.option("--resamples", type=click.IntRange(100), default=10_000, show_default=True, help="Of the pairs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--pairs",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Also the N pairs of each task that differ most.",
)
@click.option("--no-texts", is_flag=True, help="Their row numbers only.")
@data_option
def command(
    a: str,
    b: str,
    results: Path,
    suite: str | None,
    task: str | None,
    resamples: int,
    as_json: bool,
    pairs: int,
    no_texts: bool,
    data: str | None,
) -> int:
    """Compare methods A and B pair by pair: differences, bootstrap intervals, p-values, Williams' test."""
    found = api.compare(
        a,
        b,
        results=results,
        suites=suite,
        tasks=task,
        resamples=resamples,
        pairs=pairs,
        texts=not no_texts,
        data=data,
    )
    if as_json:
        print_safe(found.to_json(), sys.stdout)
    else:
        found.show()
    for text in found.left_out:
        complain(text)
    return 0
