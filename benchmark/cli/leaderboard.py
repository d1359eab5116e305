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
    results_only_option,
    say,
    say_json,
    sizes_options,
    wide_option,
)
from zoo.errors import UsageError


@click.command("leaderboard")
@click.argument("published", required=False, type=PATH)
@results_only_option
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
    "--tasks",
    cls=Listed,
    help="Of PUBLISHED: the tasks of the mean, comma-separated, or a benchmark as 'MTEB(eng, v2)' [default: all].",
)
@click.option("--ungrouped", is_flag=True, help="Of PUBLISHED: draw each task by itself, whatever its type.")
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
@click.pass_context
def command(
    ctx: click.Context,
    /,
    published: Path | None,
    tasks: str | None,
    ungrouped: bool,
    results: Path,
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

    With PUBLISHED, results of others (a folder of mteb's, EuroEval's jsonl, a table as csv or parquet): the ranks
    separated beyond the noise of another draw of tasks. --out writes the table.

    --dims and --bytes add a table of the cost of smaller vectors for each row; its texts are encoded again for it.
    """
    if published is not None:
        return _second_opinion(ctx, published, options["out"], wide=wide, as_json=as_json)
    if tasks is not None or ungrouped:
        raise UsageError("--tasks and --ungrouped are for results of others; of the records take --suite or --columns.")
    from benchmark import api
    from benchmark.report.write import as_dict

    load_plugins(plugins)
    board = api.leaderboard(results, **options)
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


def _second_opinion(ctx: click.Context, published: Path, out: Path | None, *, wide: bool, as_json: bool) -> int:
    from benchmark.interop.second_opinion import second_opinion, split_names

    for option in ctx.command.params:
        name = option.name or ""
        typed = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if typed and name not in ("published", "tasks", "ungrouped", "out", "wide", "as_json"):
            raise UsageError(f"{option.opts[0]} is for our records and does not go with {published}; leave it out.")
    opinion = second_opinion(published, tasks=split_names(ctx.params["tasks"]), grouped=not ctx.params["ungrouped"])
    written = opinion.write(out) if out is not None else []
    if as_json:
        say_json(opinion.as_dict() | {"written": written})
        return 0
    opinion.show(wide=wide)
    if written:
        say(f"written: {', '.join(map(str, written))}")
    return 0
