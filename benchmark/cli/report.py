"""`zoo-bench report`: one HTML page about a method."""

from __future__ import annotations

from pathlib import Path

import click

from benchmark.analysis.report import make_report
from benchmark.cli.complete import METHOD
from benchmark.cli.options import PATH, data_option, results_only_option


@click.command("report")
@click.argument("method", type=METHOD)
@results_only_option
@click.option("--out", type=PATH, help="The page [default: reports/METHOD.html in the results].")
@click.option("--no-texts", is_flag=True, help="Row numbers of the worst pairs instead of texts, for publication.")
@data_option
def command(method: str, results: Path, out: Path | None, no_texts: bool, data: str | None) -> None:
    """Write one HTML page about a method: recipe, scores, seeds, curves, hard and worst pairs, conditions."""
    make_report(method, results, out, data, texts=not no_texts)
