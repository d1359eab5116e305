"""`zoo-bench choose --pairs FILE`: which encoder is the best for these texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmark.cli.complete import METHODS_LIST
from benchmark.cli.options import PATH, Listed, device_option, json_option, precision_option, say, say_json
from zoo.errors import UsageError


@click.command("choose")
@click.option("--pairs", type=PATH, required=True, help="Your table: csv, tsv, jsonl or parquet.")
@click.option(
    "--encoders",
    cls=Listed,
    type=METHODS_LIST,
    help="Models (OWNER/NAME, ./FOLDER) and recipes, comma-separated [default: those in the hub's cache, and untrained"
    " ones].",
)
@click.option("--columns", metavar="NAME,NAME,...", help="The columns: texts in order, a score or label.")
@click.option("--kind", type=click.Choice(["score", "binary", "retrieval", "label"]), help="What the table is.")
@click.option("--dims", cls=Listed, help="Cut the vectors to these widths: 64,128,256.")
@click.option("--bytes", "formats", cls=Listed, default="float32", help="Store numbers as float32, int8, binary.")
@click.option("--plot", type=PATH, help="Draw score against speed into this PNG file (extra `plots`).")
@device_option
@precision_option
@json_option
def command(
    pairs: Path, encoders: str | None, dims: str | None, formats: str, plot: Path | None, as_json: bool, **options: Any
) -> int:
    """Rank encoders on texts of your own: the best, its lead, which may be as good, and what each costs."""
    from benchmark.choosing.choice import choose, drawn  # imports torch

    try:
        widths = [int(part) for part in (dims or "").split(",") if part]
    except ValueError as error:
        raise UsageError(f"--dims {dims}: give whole numbers, as in 64,128.") from error
    forms = [part.strip() for part in formats.split(",")]
    found = choose(pairs, encoders, dims=widths, formats=forms, quiet=as_json, **options)
    if plot is not None:
        drawn(found, plot)
    say_json(found.as_dict()) if as_json else say(str(found))
    return 0
