"""`zoo-bench cite`: the sentence and the BibTeX entries for a paper with a table."""

from __future__ import annotations

from pathlib import Path

import click

from benchmark.cli.complete import SUITES_LIST
from benchmark.cli.options import Listed, names_plugin_option, results_by_place, results_of, say
from benchmark.records.folder import Records
from benchmark.report.cite import citation
from benchmark.report.leaderboard import suites_of
from benchmark.report.table import build_tables, read_completed
from zoo.errors import MissingError
from zoo.recipes import given_recipes


@click.command("cite")
@results_by_place
@names_plugin_option
@click.option("--suite", "suites", cls=Listed, type=SUITES_LIST, help="Only these suites, comma-separated.")
def command(folder: Path | None, results: Path | None, suites: str | None) -> None:
    """Print a paper's sentence on a table of these results, and the BibTeX entries for it."""
    results = results_of(folder, results)
    records = read_completed(Records(results))
    tables = build_tables(records, suites_of(records, suites, results), given=given_recipes(results))
    if not tables:
        of = f" of {suites}" if suites else ""
        raise MissingError(f"no scores{of} in {results}; name a results folder: `zoo-bench cite FOLDER`.")
    say(citation(tables))
