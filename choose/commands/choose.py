"""`zoo-bench choose TABLE`: the best encoder for these texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmark.cli.complete import METHODS_LIST
from benchmark.cli.options import PATH, Listed, load_plugins, say, say_json, sizes_options, terminal_width, wide_option
from choose.commands import running_options


@click.command("choose")
@click.argument("table", type=PATH)
@click.option(
    "--encoders",
    cls=Listed,
    type=METHODS_LIST,
    help="Models (OWNER/NAME, ./FOLDER) and recipes, comma-separated [default: those in the hub's cache, and untrained"
    " ones].",
)
@click.option("--columns", metavar="NAME,NAME,...", help="The columns: texts in order, a score or label.")
@click.option("--kind", type=click.Choice(["score", "binary", "retrieval", "label"]), help="What the table is.")
@click.option(
    "--prompts",
    multiple=True,
    metavar="none|card|FILE",
    help="Compare wordings: no prompts, those of the card, those of a YAML file; repeatable.",
)
@click.option("--max-mb", type=click.FloatRange(0), help="The winner's weights have at most so many MB.")
@click.option("--max-ms", type=click.FloatRange(0), help="95 % of single queries take the winner at most so long.")
@click.option(
    "--at-precision",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="The threshold from which on this share is right, and its recall: 0.95.",
)
@click.option(
    "--floor",
    "floors",
    multiple=True,
    metavar="METRIC=VALUE",
    help="Exit with 1 where the winner is below it; repeatable.",
)
@click.option("--baseline", metavar="ENCODER", help="Exit with 1 where the winner is not better beyond noise.")
@click.option("--corpus", metavar="FILE|own", help="Text on which recipes are trained [default: the bundled one].")
@click.option("--backend", type=click.Choice(["torch", "onnx"]), default="torch", help="Runs finished ones.")
@sizes_options
@click.option("--plot", type=PATH, help="Draw scores, intervals and speed into this PNG file (extra `plots`).")
@wide_option
@running_options
def command(
    table: Path,
    encoders: str | None,
    plot: Path | None,
    wide: bool,
    as_json: bool,
    plugins: tuple[Path, ...],
    **options: Any,
) -> int:
    """Rank encoders on texts of your own: the best, its lead, equals within noise, and the cost of each.

    TABLE is csv, tsv, jsonl, parquet, xlsx, or a folder (BEIR, Dataset.save_to_disk).
    """
    from choose.choice import choose
    from choose.shown import check_plot, drawn

    load_plugins(plugins)
    if plot is not None:
        check_plot()
    choice = choose(table, encoders, quiet=as_json, **options)
    if plot is not None:
        drawn(choice.frame, choice.data.kind, plot, choice.noise)
    say_json(choice.as_dict()) if as_json else say(choice.shown(terminal_width(), wide=wide))
    return 0 if choice.met else 1
