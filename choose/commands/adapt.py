"""`zoo-bench adapt TEXTS`: the method to train on your texts, its gain, and its losses elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmark.cli.complete import METHODS_LIST
from benchmark.cli.options import PATH, Listed, load_plugins, say, say_json, terminal_width
from choose.commands import running_options


@click.command("adapt")
@click.argument("texts", type=PATH)
@click.option("--pairs", type=PATH, help="Labelled texts as `choose` reads them: one part picks, one judges.")
@click.option(
    "--encoder",
    metavar="MODEL",
    help="What to train: OWNER/NAME, ./FOLDER, a backbone [default: the best finished one in the hub's cache].",
)
@click.option("--budget", default="10m", show_default=True, help="Time of all trainings, or '200 updates' for each.")
@click.option("--seeds", type=click.IntRange(2, 1000), default=3, show_default=True, help="Trainings of a method.")
@click.option(
    "--methods", cls=Listed, type=METHODS_LIST, help="Recipes to try, comma-separated [default: those that fit]."
)
@click.option("--out", type=PATH, default="adapted", show_default=True, help="Folder of results and of the encoder.")
@click.option("--elsewhere", default="pocket", show_default=True, help="Suite that shows what is forgotten, as sts.")
@click.option("--columns", metavar="NAME,NAME,...", help="The text column of TEXTS.")
@click.option("--pair-columns", metavar="NAME,NAME,...", help="Columns of --pairs: texts in order, a score or label.")
@click.option("--kind", type=click.Choice(["score", "binary", "retrieval", "label"]), help="What --pairs is.")
@click.option("--data", help="Data folder, for --elsewhere.")
@click.option("--wide", is_flag=True, help="Print all columns, not those that fit.")
@running_options
def command(
    texts: Path, pairs: Path | None, wide: bool, as_json: bool, plugins: tuple[Path, ...], **options: Any
) -> int:
    """Train methods on texts of your own: the gain at home, the change elsewhere, and whether to train.

    TEXTS is a file of lines, a table, documents with empty lines between, or a folder of .txt files. Without --pairs
    the test is neighbouring sentences of held-out documents. The same command continues after an interruption.
    """
    from choose.adapt import adapt

    load_plugins(plugins)
    adaptation = adapt(texts, pairs, quiet=as_json, **options)
    say_json(adaptation.as_dict()) if as_json else say(adaptation.shown(None if wide else terminal_width()))
    return 0
