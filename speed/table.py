"""Measures the works of docs/speed.md beside their peers, and beside an older checkout.

python -m speed.table [--old FOLDER] [--works NAME,NAME] [--rounds 3]

Every side of a work (this checkout, the older one, each installed peer) is a process that is loaded and warm; in a
round each makes one measurement, in turn. Printed: medians of processor seconds on one thread, and the medians of
the rounds' ratios to this checkout. The processor's limits, products of matrices, are measured before.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import click

from benchmark.report.markdown import markdown_table
from speed.peak import matrix_speed
from speed.pieces import WORKS
from speed.report import conditions
from speed.script import run
from zoo.errors import UsageError

_HERE = Path(__file__).resolve().parent
# What must be installed for a peer.
_PACKAGES = {"product": "numpy", "sentence-transformers": "sentence_transformers"}


class Side:
    """A process that measures one work."""

    def __init__(self, work: str, side: str, tree: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        environment["TOKENIZERS_PARALLELISM"] = "false"
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(_HERE / "pieces.py"), work, side],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.answer("ready")

    def answer(self, ends_with: str = "") -> str:
        assert self.process.stdout is not None and self.process.stderr is not None
        line = ""
        for line in self.process.stdout:
            if not ends_with or line.strip() == ends_with:
                return line
        raise UsageError(f"a measurement ended early: {self.process.stderr.read()[-400:]}")

    def seconds(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write("once\n")
        self.process.stdin.flush()
        return float(self.answer())

    def close(self) -> None:
        self.process.communicate()


def measured(work: str, rounds: int, old: Path | None) -> dict[str, list[float]]:
    """Return the seconds of each side's rounds."""
    peers = [peer for peer in WORKS[work][3] if importlib.util.find_spec(_PACKAGES.get(peer, peer))]
    sides = {"now": ("ours", _HERE.parent), **({} if old is None else {"before": ("ours", old)})}
    sides |= {peer: (peer, _HERE.parent) for peer in peers}
    with contextlib.ExitStack() as stack:
        processes = {}
        for name, (side, tree) in sides.items():
            processes[name] = Side(work, side, tree)
            stack.callback(processes[name].close)
        rows = [{name: process.seconds() for name, process in processes.items()} for _ in range(rounds)]
    return {name: [row[name] for row in rows] for name in sides}


def cells(work: str, seconds: dict[str, list[float]]) -> list[str]:
    """Return a line of the table: times in ms, and ratios to this checkout's."""

    def shown(name: str) -> str:
        ratio = statistics.median(ours / other for ours, other in zip(seconds["now"], seconds[name], strict=True))
        return f"{1000 * statistics.median(seconds[name]):.3g} ({ratio:.2f})"

    peers = ", ".join(f"{name} {shown(name)}" for name in seconds if name not in ("now", "before"))
    now = f"{1000 * statistics.median(seconds['now']):.3g}"
    return [WORKS[work][0], now, shown("before") if "before" in seconds else "–", peers or "–"]


@click.command(help=__doc__)
@click.option("--old", type=click.Path(exists=True, file_okay=False, path_type=Path), help="An older checkout.")
@click.option("--works", default=",".join(WORKS), help="Their names, separated by commas.  [default: all]")
@click.option("--rounds", default=3, show_default=True)
def main(old: Path | None, works: str, rounds: int) -> None:
    """Print the table."""
    import torch

    if unknown := set(works.split(",")) - set(WORKS):
        raise UsageError(f"unknown works {', '.join(sorted(unknown))}; there are {', '.join(WORKS)}.")
    torch.set_num_threads(1)
    limits = {precision: matrix_speed("cpu", precision, time.process_time) / 1e9 for precision in ("fp32", "bf16")}
    rows = []
    for work in works.split(","):
        rows.append(cells(work, measured(work, rounds, None if old is None else old.resolve())))
        click.echo(f"{work}: {', '.join(rows[-1][1:])}", err=True)
    click.echo(", ".join(f"{name} {value}" for name, value in conditions("cpu").items()))
    click.echo(", ".join(f"{precision} product {limit:,.0f} GFLOP/s" for precision, limit in limits.items()) + "\n")
    head = ["work", "ms", "before (ratio)", "peers (ratio)"]
    click.echo("\n".join(markdown_table(head, rows, [False, True, True, False])))


if __name__ == "__main__":
    run(main)
