"""Measures commands that have nothing to compute: help, lists, a leaderboard, a run whose vectors are all cached.

python -m speed.startup [--results FOLDER] [--data FOLDER] [--rounds 7] [--out FILE.csv]

Each command is a process of its own, run once to warm the disk and then `rounds` times, alternating. Printed: medians
of wall and CPU time and the limit, which is meant for an idle machine; if wall time is much longer than CPU time, the
machine was not idle. `leaderboard` needs a folder with records, `run` the STS data: it measures avg-last on all seven
tasks into a new results folder, in float32; the first time encodes the texts and fills a cache of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from speed.report import conditions, median_times, write_csv
from speed.script import run

LIMITS = {"--help": 0.3, "methods": 0.6, "tasks": 0.6, "leaderboard": 0.6, "run": 3.0}
"""Seconds."""


def measure(arguments: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return wall and CPU seconds of a command; raises CalledProcessError with its output if it fails."""
    before, started = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "benchmark", *arguments], env=environment, check=True, capture_output=True)
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - started, cpu


@click.command(help=__doc__)
@click.option("--results", type=click.Path(exists=True, path_type=Path), help="Results folder, for `leaderboard`.")
@click.option("--data", type=click.Path(exists=True, path_type=Path), help="Data folder, for `run`.")
@click.option("--rounds", default=7, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="CSV file for every single measurement.")
def main(results: Path | None, data: Path | None, rounds: int, out: Path | None) -> None:
    """Measure and print the medians."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        commands = {"--help": ["--help"], "methods": ["methods"], "tasks": ["tasks"]}
        if results is not None:
            commands["leaderboard"] = ["leaderboard", "--results", str(results), "--out", str(folder / "tables")]
        if data is not None:
            where = ["--data", str(data), "--results", str(folder / "results"), "--precision", "fp32"]
            cached = ["--embedding-cache", "1", "--no-controls"]
            commands["run"] = ["run", "--methods", "avg-last", "--suite", "sts", *cached, *where]
        environment = {**os.environ, "ZOO_BENCH_CACHE": str(folder / "cache")}
        # An installed package has bytecode too.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        rows: list[dict[str, Any]] = []
        for number in range(rounds + 1):
            for name, arguments in commands.items():
                shutil.rmtree(folder / "results", ignore_errors=True)
                wall, cpu = measure(arguments, environment)
                # The first round warms up.
                if number:
                    rows.append({"command": name, "round": number, "wall_seconds": wall, "cpu_seconds": cpu})
    for name in commands:
        wall, cpu = median_times(rows, name)
        print(f"{name:12} {wall:5.2f} s wall, {cpu:5.2f} s CPU (limit {LIMITS[name]} s)")
    if out is not None:
        write_csv(out, rows, conditions("cpu", "numpy", "click"))


if __name__ == "__main__":
    run(main)
