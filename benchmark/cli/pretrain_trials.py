"""`zoo-bench pretrain-trials`: trains each setting of a table on the same number of tokens and compares them."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

import click

from benchmark.cli.options import PATH, data_option, device_option, precision_option, say, text_option


class _Options(TypedDict):
    table: str
    texts: tuple[str, ...]
    data: str | None
    out: Path
    only: tuple[str, ...]
    tokens: int | None
    device: str
    precision: str


@click.command("pretrain-trials")
@click.argument("table")
@text_option
@data_option
@click.option("--out", type=PATH, required=True, help="Folder of the trials and of their table.")
@click.option("--only", multiple=True, metavar="TRIAL", help="This trial of the table; may be repeated.")
@click.option("--tokens", type=click.IntRange(1), help="Tokens of each trial, instead of the table's number.")
@device_option
@precision_option
def command(**options: Unpack[_Options]) -> int:
    """Pretrain once for each line of a table of settings, and compare them on held-out text.

    TABLE is a name (zoo-mini, zoo-text, tiny) or a YAML file with the keys recipe, tokens, base and trials. Trials that
    are done are kept, so that the same command goes on after a stop, and `--only` adds one trial at a time to the
    table.
    """
    from benchmark.data.sources import DataSource
    from benchmark.pretraining.texts import clean_texts, find_texts
    from benchmark.pretraining.trials import chosen_trials, read_trials, run_trials, write_table
    from benchmark.run.stop import Stop
    from zoo.encoder import Run
    from zoo.files import check_writable
    from zoo.hardware import make_runtime

    trials = read_trials(options["table"], options["tokens"])
    chosen = chosen_trials(trials, options["only"])
    out = options["out"]
    check_writable(out)
    data = DataSource.from_options(options["data"], hub=False)
    find_texts(options["texts"], data)
    runtime = make_runtime(options["device"], options["precision"])
    clean = clean_texts(options["texts"], data, runtime.progress)
    with Stop().listening() as stop:
        run = Run(stop_signal=stop)
        lines = run_trials(trials, chosen, clean.texts, out, runtime=runtime, run=run)
    say(write_table(lines, out))
    say(f"written: {out / 'trials.md'}, .csv, .json")
    return 0
