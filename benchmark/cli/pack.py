"""`zoo-bench pack`: joins the loose records of a results folder into two Parquet files."""

from __future__ import annotations

from pathlib import Path

import click

from benchmark.cli.options import complain, names_plugin_option, results_by_place, results_of, say
from zoo.progress import counted


@click.command("pack")
@results_by_place
@names_plugin_option
def command(folder: Path | None, results: Path | None) -> None:
    """Join the loose records of a results folder and the scores of their pairs: records.parquet, pairs.parquet.

    Every command reads packed and loose records alike. Loose files are removed after the packed files were read back
    from the disk. A record stays in place and is named if it is damaged or contradicts a packed record.
    """
    from benchmark.records.pack import pack
    from benchmark.records.packed import RECORDS

    results = results_of(folder, results)
    done = pack(results)
    for reason in done.skipped:
        complain(f"left as it is: {reason}")
    say(f"{results / RECORDS}: {counted(done.records, 'record')}, {done.added:,} of them new")
