"""`zoo-bench tune`: the same budget of trials for each method, on development pairs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from benchmark.cli.closing import next_command
from benchmark.cli.complete import METHODS_LIST, TASK
from benchmark.cli.options import (
    data_option,
    load_plugins,
    option,
    print_rows,
    results_only_option,
    say,
    say_json,
    train_pairs_option,
)
from benchmark.run.options import TUNED_ON, RunOptions
from choose.commands import running_options


@click.command("tune")
@click.argument("methods", type=METHODS_LIST)
@click.option("--trials", type=int, default=12, help="Trials of each study, those of before included.")
@click.option("--minutes", type=click.FloatRange(0), help="Begin no trial of a method after so many minutes.")
@click.option(
    "--studies", type=int, default=1, help="Independent studies of each method: they give the spread of tuning."
)
@click.option("--dev", type=TASK, default=TUNED_ON, help="Task whose development pairs score a trial.")
@click.option(
    "--space",
    multiple=True,
    metavar="KEY=SPACE",
    help="learning_rate=1e-5..3e-4:log, epochs=1..3 or batch_size=[32,64]; repeatable [default: rate,"
    " temperature, batch size, pooling, and what the recipe leaves open or states as its space].",
)
@click.option("--backbone", help="Bundled name, folder or hub id, for every recipe that leaves it open.")
@click.option("--corpus", help="Text to train on, as for `run`.")
@click.option("--pairs", help="Labelled pairs to train on, as for `run`.")
@option("train_sentences")
@train_pairs_option
@data_option
@results_only_option
@running_options
def command(
    trials: int,
    minutes: float | None,
    studies: int,
    space: tuple[str, ...],
    as_json: bool,
    plugins: tuple[Path, ...],
    **chosen: Any,
) -> int:
    """Tune the settings of METHODS, each with the same budget, and write a recipe NAME-tuned for `run`.

    The trials have a seed of their own, and score no test. They are kept in RESULTS/tuned: an interrupted command
    continues from there, and several processes may share a study.
    """
    from choose.tune import Budget, shown, tune

    load_plugins(plugins)
    tunings = tune(RunOptions(**chosen), Budget(trials, minutes, studies), space=space)
    if as_json:
        say_json([asdict(tuning) for tuning in tunings])
        return 0
    header = ["recipe", "trials", "untrained", "paper's settings", "tuned", "values"]
    rows = [
        [
            tuning.name,
            str(tuning.trials),
            "n/a" if tuning.untrained is None else f"{tuning.untrained:.2f}",
            "failed" if tuning.before is None else f"{tuning.before:.2f}",
            f"{tuning.best:.2f}",
            ", ".join(f"{key}={shown(value)}" for key, value in tuning.values.items()),
        ]
        for tuning in tunings
    ]
    print_rows(header, rows)
    for recipe, spread in {tuning.recipe: tuning.spread for tuning in tunings}.items():
        if spread is not None:
            say(f"{recipe}: {spread:.2f} is the spread of tuning (sd of the best scores of {studies} studies)")
    names, dev = ",".join(tuning.name for tuning in tunings), chosen["dev"]
    say(f"scores: Spearman x100 on {dev}; next: {next_command('run', '--methods', names, '--dev', dev)}")
    return 0
