"""`zoo-bench tune`: the same budget of trials for each method, on development pairs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from benchmark.cli.complete import METHODS_LIST, TASK
from benchmark.cli.options import (
    data_option,
    device_option,
    json_option,
    load_plugins,
    option,
    plugin_option,
    precision_option,
    print_rows,
    results_only_option,
    say,
    say_json,
    train_pairs_option,
)
from benchmark.run.options import TUNED_ON, RunOptions


@click.command("tune")
@click.argument("methods", type=METHODS_LIST)
@click.option("--trials", type=int, default=12, help="Trials of each method, finished ones of before included.")
@click.option("--minutes", type=click.FloatRange(0), help="Begin no trial of a method after so many minutes.")
@click.option("--dev", type=TASK, default=TUNED_ON, help="Task whose development pairs score a trial.")
@click.option(
    "--space",
    multiple=True,
    metavar="KEY=SPACE",
    help="learning_rate=1e-5..3e-4:log, epochs=1..3 or batch_size=[32,64]; repeatable [default: the recipe's space,"
    " else rate, temperature and batch size].",
)
@click.option("--backbone", help="Bundled name, folder or hub id, for every recipe that leaves it open.")
@click.option("--corpus", help="Text to train on, as for `run`.")
@click.option("--pairs", help="Labelled pairs to train on, as for `run`.")
@option("train_sentences")
@train_pairs_option
@data_option
@results_only_option
@device_option
@precision_option
@json_option
@plugin_option
def command(
    trials: int, minutes: float | None, space: tuple[str, ...], as_json: bool, plugins: tuple[Path, ...], **chosen: Any
) -> int:
    """Tune the settings of METHODS, each with the same budget, and write a recipe NAME-tuned for `run`.

    The trials have a seed of their own, and score no test. They are kept in RESULTS/tuned: a command that was stopped
    goes on from there, and several processes may work on one study.
    """
    from benchmark.tune import Budget, tune

    load_plugins(plugins)
    found = tune(RunOptions(**chosen), Budget(trials, minutes), space=space)
    if as_json:
        say_json([asdict(one) for one in found])
        return 0
    header = ["recipe", "trials", "paper's settings", "tuned", "values"]
    rows = [
        [
            one.name,
            str(one.trials),
            "not tried" if one.before is None else f"{one.before:.2f}",
            f"{one.best:.2f}",
            ", ".join(
                f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}"
                for key, value in one.values.items()
            ),
        ]
        for one in found
    ]
    print_rows(header, rows)
    say(
        f"scores: Spearman x100 on {chosen['dev']}; next: zoo-bench run --methods {','.join(one.name for one in found)}"
    )
    return 0
