"""Measures `zoo-bench leaderboard` for many records with pair scores: all tables, marks and the page.

python -m speed.tables RESULTS [--records 10000] [--rounds 3] [--out FILE.csv]

Whole rows of a packed results folder, in an order drawn from a fixed seed, are packed into a temporary folder until it
has N records; pair scores are copied completely. Then the command runs in a process of its own. `first`: the cache is
empty, so that the pairs of all rows are resampled; `again`: the resamples are cached. Printed: medians of wall and CPU
time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmark.records.packed import Packed, pair_rows, read_packed, write_packed
from speed.report import conditions, median_times, write_csv
from speed.script import run
from speed.startup import measure
from zoo.errors import UsageError


def copy(source: Packed, count: int, folder: Path) -> int:
    """Pack `count` records of packed ones, row by row, into a folder; returns how many of them have pair scores.

    Raises UsageError where there are too few records.
    """
    if len(source) < count:
        raise UsageError(f"{source.path} has {len(source):,} records; name fewer with --records.")
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number in range(len(source)):
        record = source.record(number)
        rows[record["method"]["name"], record["row_key"]].append(number)
    listed = list(rows.values())
    order = np.random.default_rng(0).permutation(len(listed))
    chosen = sorted([number for row in order for number in listed[row]][:count])
    records = [source.record(number) for number in chosen]
    with_pairs = [record for record in records if source.has_pairs(record)]
    tasks = sorted({record["task"]["name"] for record in with_pairs})
    tables = (
        pair_rows([(one, source.pair_scores(one)) for one in with_pairs if one["task"]["name"] == task])
        for task in tasks
    )
    write_packed(folder, list(zip([source.text(number) for number in chosen], records, strict=True)), tables)
    return len(with_pairs)


@click.command(help=__doc__)
@click.argument("results", type=click.Path(exists=True, path_type=Path))
@click.option("--records", "count", default=10_000, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="CSV file for every single measurement.")
def main(results: Path, count: int, rounds: int, out: Path | None) -> None:
    """Measure and print the medians."""
    source = read_packed(results)
    if source is None:
        raise UsageError(f"{results} has no packed records; make them with `zoo-bench pack`.")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with_pairs = copy(source, count, folder / "results")
        environment = {**os.environ, "ZOO_BENCH_CACHE": str(folder / "cache")}
        command = ["leaderboard", "--results", str(folder / "results"), "--out", str(folder / "tables")]
        rows: list[dict[str, Any]] = []
        measure(["--help"], environment)
        for number in range(1, rounds + 1):
            shutil.rmtree(folder / "cache", ignore_errors=True)
            for name in ("first", "again"):
                wall, cpu = measure(command, environment)
                rows.append({"command": name, "round": number, "wall_seconds": wall, "cpu_seconds": cpu})
        files = sorted(path.name for path in (folder / "tables").iterdir())
    tables = sum(name.endswith(".json") for name in files)
    print(f"{count:,} records, {with_pairs:,} with pair scores: {tables} tables")
    for name in ("first", "again"):
        wall, cpu = median_times(rows, name)
        print(f"{name:6} {wall:5.2f} s wall, {cpu:5.2f} s CPU")
    if out is not None:
        write_csv(out, rows, conditions("cpu", "numpy", "click"))


if __name__ == "__main__":
    run(main)
