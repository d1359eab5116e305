"""Measures what a run adds to each cell: many cells of a method that does nothing, with one kill in the middle.

python -m speed.cells [--cells 8,64,512] [--ways one,workers,ray,ray-4] [--no-kill] [--out FILE.csv]

The method is a plugin with a vector for each text, and has `cells` encoders (settings x seeds), each measured on
pocket-words. `one`: one process, which is killed when half of the records are there, and the same command again;
`workers`: --workers 2, `ray`: --executor ray on this machine, of which one working process is killed; `ray-4`: a
cluster of four nodes on this machine, each with one processor. Printed:
milliseconds of wall time per cell from the start to the tables, the processor seconds of the command's own process (in
`one` all, else the head's), the largest sum of the memory of all processes (PSS, which counts shared pages once), the
records that are there in the end, and how often something began again. Exit code 1 if a record is missing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from speed.report import conditions, write_csv
from speed.script import run
from tools.drills.nodes import free_address, ray_node, wait_for
from zoo.errors import UsageError, ZooError

PLUGIN = """
import zlib
import numpy as np
from zoo.methods.randomvectors import RandomVectors
from zoo.plugins import register_method

@register_method("tiny")
class Tiny(RandomVectors):
    "A vector for each text, from its checksum and the seed."
    def vectors_of(self, texts):
        sums = np.array([zlib.crc32(f"{self.seed} {text}".encode()) for text in texts])
        return (sums[:, None] // np.arange(1, self.dim + 1) % 251).astype(np.float32)
"""
_MOST_SEEDS = 1000
WAYS = {
    "one": ((), None, ""),
    "workers": (("--workers", "2"), "spawn_main", "goes on from here"),
    **dict.fromkeys(("ray", "ray-1", "ray-2", "ray-4"), (("--executor", "ray"), "ray::measured_there", "")),
}
"""Options of the command, what the command line of a working process contains, and what is said about its end."""


def processes(root: int) -> dict[int, str]:
    """Return the command lines of a process and of all that it has started."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            children[int((folder / "stat").read_text().rpartition(")")[2].split()[1])].append(int(folder.name))
        except OSError:
            continue
    commands, waiting = {}, [root]
    while waiting:
        process = waiting.pop()
        waiting += children[process]
        try:
            commands[process] = (
                Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue
    return commands


def memory_mb(running: Sequence[int]) -> float:
    """Return the sum of the memory of processes in MB; pages that several share are divided between them."""
    total = 0
    for process in running:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def processor_seconds(process: int) -> float:
    """Return the processor time of a living process without its children."""
    values = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def cluster(way: str, folder: Path) -> Iterator[str]:
    """The address of a cluster with as many nodes as the way's name says; "local" for the other ways."""
    count = int(way.partition("-")[2] or 0)
    with ExitStack() as nodes:
        address = free_address() if count else "local"
        for number in range(count):
            nodes.enter_context(ray_node(folder, f"node{number}" if number else "head", address))
        if count:
            wait_for(address, count)
        yield address


def measure(way: str, cells: int, folder: Path, address: str, killing: bool) -> dict[str, Any]:
    """Run all cells in one way, by default with one kill; returns what is printed. Raises ZooError if it fails."""
    options, victim, marker = WAYS[way]
    settings = -(-cells // _MOST_SEEDS)
    if cells % settings:
        raise UsageError(f"--cells {cells}: give at most {_MOST_SEEDS}, or a multiple of {_MOST_SEEDS}.")
    (folder / "tiny.py").write_text(PLUGIN, encoding="utf-8")
    methods = ",".join(f"tiny:dim={16 + number}" for number in range(settings))
    line = f"run --plugin {folder / 'tiny.py'} --methods {methods} --seeds {cells // settings} --tasks pocket-words"
    results = folder / f"{way}-{cells}"
    command = [sys.executable, "-m", "benchmark", *line.split(), "--no-controls", "--precision", "fp32"]
    command += ["--results", str(results), *options]
    environment = {**os.environ, "RAY_ADDRESS": address, "ZOO_BENCH_CACHE": str(folder / f"cache-{cells}")}
    log_path, peak, busy, killed, starts = folder / f"{cells}.txt", 0.0, 0.0, 0, 1
    started = time.perf_counter()
    with log_path.open("w") as log:
        child = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        while (code := child.poll()) is None or (code == -signal.SIGKILL and killed):
            if code is not None:
                child, starts = subprocess.Popen(command, env=environment, stdout=log, stderr=log), starts + 1
            running, busy = processes(child.pid), processor_seconds(child.pid)
            peak = max(peak, memory_mb(list(running)))
            if killing and not killed and len(list(results.glob("records/*/*.json"))) >= cells // 2:
                working = [process for process, text in running.items() if victim is None or victim in text]
                for process in working[:1]:
                    os.kill(process, signal.SIGKILL)
                    killed += 1
            time.sleep(0.2)
    seconds, text = time.perf_counter() - started, log_path.read_text(encoding="utf-8", errors="replace")
    if code:
        raise ZooError(f"{way} ended with code {code}: {text[-2000:]}")
    records = [json.loads(path.read_text(encoding="utf-8")) for path in results.glob("records/*/*.json")]
    return {
        "way": way,
        "cells": cells,
        "seconds": round(seconds, 1),
        "ms_per_cell": round(1000 * seconds / cells, 2),
        "processor_seconds": round(busy, 1),
        "peak_mb": round(peak),
        "records": len({record["key"] for record in records if record["status"] == "ok"}),
        "killed": killed,
        "began_again": starts - 1 + (text.count(marker) if marker else 0),
    }


@click.command(help=__doc__)
@click.option("--cells", "sizes", default="10000", show_default=True, help="Comma-separated.")
@click.option("--ways", default="one,workers,ray", show_default=True, help="Comma-separated.")
@click.option("--kill/--no-kill", "killing", default=True, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="CSV file for every single measurement.")
def main(sizes: str, ways: str, killing: bool, out: Path | None) -> None:
    """Measure and print each way."""
    if unknown := set(ways.split(",")) - WAYS.keys():
        raise UsageError(f"--ways {','.join(sorted(unknown))}: known are {', '.join(WAYS)}.")
    rows = []
    for way in ways.split(","):
        with tempfile.TemporaryDirectory() as folder, cluster(way, Path(folder)) as address:
            for cells in map(int, sizes.split(",")):
                rows.append(measure(way, cells, Path(folder), address, killing))
                print(", ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    if out is not None:
        write_csv(out, rows, conditions("cpu", "numpy", *(["ray"] if "ray" in ways else [])))
    if any(row["records"] < row["cells"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    run(main)
