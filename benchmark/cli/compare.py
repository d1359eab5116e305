"""`zoo-bench compare A B`: two methods on the same pairs, with intervals and p-values. Imports no torch."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from benchmark.cli.complete import METHOD, SUITES_LIST, TASKS_LIST
from benchmark.cli.options import (
    PATH,
    Listed,
    complain,
    data_option,
    json_option,
    names_plugin_option,
    results_only_option,
    say_json,
    wide_option,
)
from benchmark.interop.published_scores import is_published
from benchmark.interop.second_opinion import second_opinion, split_names
from zoo.errors import UsageError
from zoo.files import write_text
from zoo.progress import print_safe


@click.command("compare")
@click.argument("rows", nargs=-1, type=METHOD)
@results_only_option
@click.option(
    "--suite",
    "suites",
    cls=Listed,
    type=SUITES_LIST,
    help="Only these suites, comma-separated [default: all that both were measured on].",
)
@click.option("--tasks", cls=Listed, type=TASKS_LIST, help="Instead of suites: these tasks, comma-separated.")
@click.option(
    "--margin", type=click.FloatRange(0, min_open=True), help="Also ask whether A and B differ by less than this."
)
@click.option(
    "--borrow-seed-noise",
    is_flag=True,
    help="For a row of one seed: the pooled noise of its backbone's other rows.",
)
@json_option
@click.option("--pairs", type=click.IntRange(0), default=0, help="Also the N pairs of each task that differ most.")
@click.option(
    "--ablation",
    metavar="BASE",
    help="Instead: each of ROWS beside BASE, in one column [default: its recipe with other settings].",
)
@click.option("--tex", type=PATH, help="With --ablation: write the table as LaTeX too.")
@names_plugin_option
@wide_option
@click.option("--no-texts", is_flag=True, help="With --pairs: row numbers instead of texts.")
@data_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    rows: tuple[str, ...],
    as_json: bool,
    no_texts: bool,
    wide: bool,
    ablation: str | None,
    tex: Path | None,
    **options: Any,
) -> int:
    """Compare two ROWS, A and B, pair by pair: differences, intervals, p-values, Williams' test.

    If --results is a file or folder of others' results, as for `leaderboard PUBLISHED`: the noise of tasks.

    With --ablation BASE, each of ROWS is compared with BASE, seed by seed for rows with a single changed setting.
    """
    from benchmark import api

    if ablation is not None:
        chosen = {key: options[key] for key in ("results", "suites", "tasks")}
        table = api.ablation(ablation, rows, **chosen)
        if tex is not None:
            write_text(tex, table.latex())
        if as_json:
            say_json(table.as_dict())
        else:
            table.show()
        return 0
    if is_published(options["results"]) and len(rows) == 2:
        for option in ctx.command.params:
            name = option.name or ""
            typed = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
            if typed and name not in ("rows", "results", "tasks", "as_json"):
                raise UsageError(f"{option.opts[0]} is for our records, and {options['results']} is of others.")
        verdict = second_opinion(options["results"], tasks=split_names(options["tasks"])).compare(*rows)
        if as_json:
            say_json(asdict(verdict))
        else:
            print_safe(str(verdict), sys.stdout)
        return 0
    if len(rows) != 2:
        raise UsageError(f"compare takes two rows, A and B, and got {len(rows)}; several beside one: --ablation BASE.")
    comparison = api.compare(*rows, texts=not no_texts, **options)
    if as_json:
        print_safe(comparison.to_json(), sys.stdout)
    else:
        comparison.show(wide=wide)
    for text in comparison.left_out:
        complain(text)
    return 0
