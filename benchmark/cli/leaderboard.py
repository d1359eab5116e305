"""`zoo-bench leaderboard`: tables, LaTeX and the HTML page from the records."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from benchmark import api
from benchmark.cli.options import say
from benchmark.run.options import RESULTS


@click.command("leaderboard")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True, help="Results folder.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the tables [default: the results folder].")
@click.option("--suite", "suites", help="Only these suites, comma-separated; the page has all.")
@click.option(
    "--aggregation",
    type=click.Choice(["all", "mean", "wmean"]),
    default="all",
    show_default=True,
    help="Score of STS12-16: over concatenated subsets, or the mean over subsets, plain or weighted by pairs.",
)
@click.option("--by-condition", is_flag=True, help="A table for each condition: untrained, supervised ...")
@click.option("--mteb", type=click.Path(path_type=Path), help="Write the STS scores here too, as MTEB's result files.")
@click.option("--strict", is_flag=True, help="Exit 1 when a record is damaged.")
def command(
    results: Path,
    out: Path | None,
    suites: str | None,
    aggregation: Literal["all", "mean", "wmean"],
    by_condition: bool,
    mteb: Path | None,
    strict: bool,
) -> int:
    """Make the tables (md, csv, json, LaTeX, published values beside ours, HTML page) from the records."""
    made = api.leaderboard(results, out=out, suites=suites, aggregation=aggregation, by_condition=by_condition)
    made.show()
    if mteb is not None:
        from benchmark.interop.mteb import export

        say(f"written: {len(export(results, mteb))} result files in MTEB's form below {mteb}")
    return 1 if made.corrupt and strict else 0
