"""`zoo-bench others FILE [A B]`: what results of others show beyond the noise of tasks. Imports no torch."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from benchmark.cli.options import PATH, Listed, json_option, say, say_json, wide_option
from zoo.errors import UsageError
from zoo.progress import print_safe


@click.command("others")
@click.argument("file", type=PATH)
@click.argument("models", nargs=-1, metavar="[A B]")
@click.option(
    "--tasks",
    cls=Listed,
    help="The tasks of the mean, comma-separated, or a benchmark as 'MTEB(eng, v2)' [default: all].",
)
@click.option("--ungrouped", is_flag=True, help="Draw each task by itself, whatever its type.")
@click.option("--out", type=PATH, help="Write the table into this folder too.")
@wide_option
@json_option
def command(
    file: Path, models: tuple[str, ...], tasks: str | None, ungrouped: bool, out: Path | None, wide: bool, as_json: bool
) -> int:
    """Say which ranks of others' results are separated beyond the noise of another draw of tasks.

    FILE is a folder of mteb's, EuroEval's jsonl, or a table as csv or parquet. With A and B: these two models alone.
    """
    from benchmark.interop.second_opinion import second_opinion, split_names

    if models and (len(models) != 2 or out is not None):
        raise UsageError("others takes FILE, and of its models none or two, A and B; --out writes the table of all.")
    opinion = second_opinion(file, tasks=split_names(tasks), grouped=not ungrouped)
    if models:
        verdict = opinion.compare(*models)
        say_json(asdict(verdict)) if as_json else print_safe(str(verdict), sys.stdout)
        return 0
    written = opinion.write(out) if out is not None else []
    if as_json:
        say_json(opinion.as_dict() | {"written": written})
        return 0
    opinion.show(wide=wide)
    if written:
        say(f"written: {', '.join(map(str, written))}")
    return 0
