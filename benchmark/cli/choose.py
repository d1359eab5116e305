"""`zoo-bench choose --pairs FILE`: which encoder is the best for these texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmark.cli.complete import METHODS_LIST
from benchmark.cli.options import (
    PATH,
    Listed,
    device_option,
    json_option,
    precision_option,
    say,
    say_json,
    sizes_options,
)


@click.command("choose")
@click.option("--pairs", type=PATH, required=True, help="Your table: csv, tsv, jsonl, parquet, xlsx, a folder.")
@click.option(
    "--encoders",
    cls=Listed,
    type=METHODS_LIST,
    help="Models (OWNER/NAME, ./FOLDER) and recipes, comma-separated [default: those in the hub's cache, and untrained"
    " ones].",
)
@click.option("--columns", metavar="NAME,NAME,...", help="The columns: texts in order, a score or label.")
@click.option("--kind", type=click.Choice(["score", "binary", "retrieval", "label"]), help="What the table is.")
@sizes_options
@click.option("--plot", type=PATH, help="Draw score against speed into this PNG file (extra `plots`).")
@device_option
@precision_option
@json_option
def command(pairs: Path, encoders: str | None, plot: Path | None, as_json: bool, **options: Any) -> int:
    """Rank encoders on texts of your own: the best, its lead, which may be as good, and what each costs."""
    from benchmark.choosing.choice import choose, drawn  # imports torch

    found = choose(pairs, encoders, quiet=as_json, **options)
    if plot is not None:
        drawn(found, plot)
    say_json(found.as_dict()) if as_json else say(str(found))
    return 0
