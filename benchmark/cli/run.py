"""`zoo-bench run`: train, evaluate and record methods, then print the table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchmark.cli.complete import SUITES_LIST, TASK, TASKS_LIST
from benchmark.cli.options import (
    allow_pickle_option,
    data_option,
    device_option,
    load_plugins,
    methods_option,
    plugin_option,
    precision_option,
    results_option,
    say,
    typed_command,
)
from benchmark.run.options import RunOptions
from zoo.errors import MissingError
from zoo.progress import clock

if TYPE_CHECKING:
    from benchmark.records.store import Records
    from benchmark.run.prepare import Prepared


@click.command("run")
@methods_option
@click.option(
    "--suite",
    "suites",
    type=SUITES_LIST,
    help="Lists of tasks, comma-separated: pocket, sts, words, phrases, transfer ...; `zoo-bench tasks` has all"
    " [default: the suites of --tasks, else pocket].",
)
@click.option("--tasks", type=TASKS_LIST, help="Only these tasks (names or globs, comma-separated).")
@click.option(
    "--seeds", type=click.IntRange(1), help="Seeds 0..N-1 for methods that depend on one [default: the suite's]."
)
@click.option(
    "--backbone", help="Bundled name, folder or hub id, for every recipe that leaves it open [default: zoo-mini]."
)
@click.option("--revision", help="Revision of the hub backbone.")
@click.option(
    "--corpus", help="Text to train on: a catalog name or a file, one sentence a line [default: the suite's]."
)
@click.option(
    "--pairs",
    help="Labelled pairs to train on: catalog names, files of premise, hypothesis, label, PPDB packs; joined by +"
    " [default: the suite's].",
)
@click.option(
    "--dev",
    type=TASK,
    help="Task whose development pairs pick checkpoints: STS-B, or stsb-dev-disjoint, which has no test pair of"
    " STS12-16 [default: the suite's].",
)
@click.option("--tensorboard", type=click.Path(path_type=Path), help="Folder for TensorBoard's training curves.")
@click.option("--train-pairs", type=click.IntRange(1), help="Use the first N of the labelled pairs.")
@click.option("--train-sentences", type=click.IntRange(1), help="Draw N sentences of the corpus, the same N each time.")
@data_option
@results_option
@device_option
@precision_option
@click.option("--limit", type=click.IntRange(2), help="Trial: cut every subset to N rows; kept apart in tables.")
@click.option("--dry-run", is_flag=True, help="Print the plan and an estimate; run nothing.")
@click.option("--allow-missing", is_flag=True, help="Exit 0 although data or weights were missing.")
@allow_pickle_option
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes of this machine that share the plan.",
)
@click.option("--shard", metavar="I/N", help="Run the I-th of N parts of the encoders, as a job of an array does.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first failed cell.")
@click.option("--remeasure", is_flag=True, help="Measure cells again that were made by other code.")
@click.option(
    "--embedding-cache",
    type=click.FloatRange(0),
    metavar="GB",
    default=4.0,
    show_default=True,
    envvar="ZOO_BENCH_EMBEDDING_CACHE",
    show_envvar=True,
    help="Keep the vectors of texts between runs, up to this size; 0 keeps and reads none.",
)
@plugin_option
def command(plugins: tuple[Path, ...], dry_run: bool, **chosen: Any) -> int:
    """Train, evaluate and record methods; then print the table."""
    from benchmark import api  # here and below: --help and a shell's completion need none of it
    from benchmark.records.store import Records
    from benchmark.run.runner import exit_code

    load_plugins(plugins)
    options = RunOptions(**chosen)
    if dry_run:
        print_plan(api.prepare(options, write=False), Records(options.results))
        return 0
    prepared = api.prepare(options)
    if options.workers > 1:
        finished = api.execute_in_workers(options, command=typed_command(), plugins=plugins)
    else:
        finished = api.execute(prepared, options, command=typed_command())
    outcome, tell = finished.outcome, prepared.runtime.progress.say
    tell(
        f"{outcome.measured} cells measured, {outcome.kept} kept from before,"
        f" {len(outcome.failed)} failed, {len(outcome.missing)} n/a"
    )
    if outcome.other_code:
        tell(f"{outcome.other_code} kept cells were made by other code; --remeasure measures them again")
    for path, reason in finished.corrupt:
        tell(f"a damaged record was set aside as {path}: {reason}")
    suites = ",".join(prepared.suites)
    try:
        api.leaderboard(options.results, suites=suites).show()
    except MissingError:
        tell(f"no table: no task of {suites} has a record in {options.results}")
    return exit_code(outcome, allow_missing=options.allow_missing)


def print_plan(prepared: Prepared, records: Records) -> None:
    """Print a line per encoder: what is done, and how long the rest takes by estimate."""
    from benchmark.run.estimate import estimate_seconds
    from zoo.hardware import matrix_speed

    runtime = prepared.runtime
    speed = matrix_speed(runtime.device, runtime.precision)
    total, unknown = 0.0, False
    for encoder_plan in prepared.plan.encoders:
        done = sum(records.finished(encoder_plan.name, c.task.name, c.key) is not None for c in encoder_plan.cells)
        seconds = None
        if encoder_plan.missing is None:
            seconds = estimate_seconds(encoder_plan, records, speed, runtime.allow_pickle)
        total += seconds or 0.0
        unknown |= seconds is None
        seed = "" if encoder_plan.seed is None else f" seed {encoder_plan.seed}"
        time_text = "?" if seconds is None else clock(seconds)
        missing = [c.task.name for c in encoder_plan.cells if c.task.data is None]
        without = f", no data for {', '.join(missing)}" if missing else ""
        if encoder_plan.missing is not None:
            say(f"{encoder_plan.name}{seed}: n/a: {encoder_plan.missing}")
            continue
        say(f"{encoder_plan.name}{seed}: {done}/{len(encoder_plan.cells)} cells done, about {time_text}{without}")
    more = " and more" if unknown else ""
    say(f"about {clock(total)} in all{more} (an estimate from sizes and a measured matrix product)")
