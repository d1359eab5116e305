"""`zoo-bench leaderboard`: tables, LaTeX and the HTML page from the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmark.cli.complete import SUITES_LIST
from benchmark.cli.options import (
    PATH,
    Listed,
    complain,
    data_option,
    device_option,
    json_option,
    load_plugins,
    plugin_option,
    results_by_place,
    results_of,
    say,
    say_json,
    sizes_options,
    wide_option,
)


@click.command("leaderboard")
@results_by_place
@click.option("--out", type=PATH, help="Where to write the tables [default: the results folder].")
@click.option(
    "--suite", "suites", cls=Listed, type=SUITES_LIST, help="Only these suites, comma-separated; the page has all."
)
@click.option(
    "--aggregation",
    type=click.Choice(["all", "mean", "wmean"]),
    default="all",
    help="Score of STS12-16: over concatenated subsets, or the mean over subsets, plain or weighted by pairs.",
)
@click.option(
    "--columns", cls=Listed, help="Show these columns in this order: names, comma-separated; `scores` are all tasks'."
)
@click.option("--methods", cls=Listed, help="Only these rows: names or globs, comma-separated; see --out.")
@click.option("--baseline", default="", help="Mark the rows above or below this one beyond noise (Holm over all rows).")
@click.option("--borrow-seed-noise", is_flag=True, help="For rows of one seed: the pooled noise of their backbone's.")
@click.option(
    "--strict",
    is_flag=True,
    help="Check all pair scores too; exit 1 when anything is damaged.",
)
@sizes_options
@wide_option
@data_option
@device_option
@plugin_option
@json_option
def command(
    folder: Path | None,
    results: Path | None,
    strict: bool,
    wide: bool,
    dims: list[int],
    formats: list[str],
    data: str | None,
    device: str,
    plugins: tuple[Path, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Make the tables (md, csv, json, LaTeX, published values beside ours, HTML page) from the records.

    --dims and --bytes add a table of the cost of smaller vectors for each row; its texts are encoded again for it.
    """
    from benchmark import api
    from benchmark.report.write import as_dict

    load_plugins(plugins)
    board = api.leaderboard(results_of(folder, results), **options)
    if strict:
        damaged = board.store.damaged_pairs(board.records)
        board.corrupt.extend(damaged)
        for _, reason in damaged:
            complain(reason)
    answer: dict[str, Any] = {
        "tables": [as_dict(table) for table in board.tables] if as_json else [],
        "written": board.written,
        "left_out": [{"path": path, "reason": reason} for path, reason in board.corrupt],
    }
    if not as_json:
        board.show(wide=wide)
    if dims or formats != ["float32"]:
        from benchmark.checking.sizes import write_sizes

        for sizes in write_sizes(board.tables, board.store, board.place, data, dims, formats, device):
            answer.setdefault("sizes", []).append(sizes.as_dict())
            if not as_json:
                say(str(sizes))
    if as_json:
        say_json(answer)
    return 1 if board.corrupt and strict else 0
