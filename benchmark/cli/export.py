"""`zoo-bench export`: a trained encoder for sentence-transformers, or scores for mteb."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

import click

from benchmark.cli.complete import METHOD
from benchmark.cli.options import PATH, load_plugins, plugin_option, results_of, say
from benchmark.interop.results import export_scores
from benchmark.run.options import RESULTS
from zoo.files import check_writable
from zoo.progress import counted


class _Options(TypedDict):
    seed: int | None
    licence: str | None
    language: str | None
    push_to_hub: str | None
    private: bool


@click.command("export")
@click.argument("method", type=METHOD)
@click.argument("folder", type=PATH)
@click.argument("place", metavar="[RESULTS]", required=False, type=PATH)
@click.option("--results", type=PATH, help=f"RESULTS by another way [default: {RESULTS}].")
@click.option("--seed", type=click.IntRange(0), help="Seed of the trained encoder [default: the first].")
@click.option(
    "--licence", metavar="ID", help="For the card, as the hub spells it [default: the base model's, if stated]."
)
@click.option("--language", metavar="CODE", help="For the card [default: the base model's, else en].")
@click.option("--push-to-hub", metavar="OWNER/NAME", help="Upload the folder to this repository of the hub.")
@click.option("--private", is_flag=True, help="Make a new repository private.")
@click.option(
    "--scores",
    is_flag=True,
    help="Write scores of METHOD, a name or a glob, instead: mteb's result files, and a card for the hub.",
)
@plugin_option
def command(
    method: str,
    folder: Path,
    place: Path | None,
    results: Path | None,
    scores: bool,
    plugins: tuple[Path, ...],
    **options: Unpack[_Options],
) -> None:
    """Write a trained METHOD as a new sentence-transformers FOLDER with a model card, or its scores (--scores).

    METHOD is a row of the folder RESULTS; the folder of a saved encoder (./FOLDER) is written without a card.
    """
    load_plugins(plugins)
    where = results_of(place, results)
    if scores:
        check_writable(folder)
        written, outside = export_scores(method, folder, where)
        cards = sum(path.name == "README.md" for path in written)
        files = counted(len(written) - cards, "result file")
        say(f"written: {files} in MTEB's form and {counted(cards, 'card')} for the hub below {folder}")
        if outside:
            say(
                f"MTEB has none of these tasks: {', '.join(outside)}. Their scores are in the"
                f" {'cards' if cards > 1 else 'card'} alone; `zoo-bench tasks sts-raw` and mteb:NAME are tasks of MTEB."
            )
        return
    from benchmark import api

    exported = api.export(method, folder, results=where, **options)
    say(f"written: {exported.folder} ({exported.name})")
    if exported.url is not None:
        say(f"pushed: {exported.url}")
