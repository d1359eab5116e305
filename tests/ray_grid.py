"""A Ray cluster of simulated GPUs, on which many encoders are fitted; how busy each GPU was, by the log of the run.

python tests/ray_grid.py [--nodes 4] [--gpus 8] [--methods 100] [--seeds 5] [--seconds 60]

Minutes; run by a person, and small by tests/test_ray_grid.py. The nodes are processes of this machine, their GPUs are
numbers that Ray deals out. The method is a plugin whose fit sleeps (three quarters to five quarters of --seconds). When
half of the encoders are measured, one node is killed, and a new one joins. A GPU is busy while Ray runs a task on it
(Ray's own log, `ray.timeline`), and it works while an encoder is fitted on it (written by the fits). The shares count
from the first start to the last one, after which nothing waits for a GPU, and to the end.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmark.run.executors.board import ray_library, ray_messages
from zoo.progress import Progress

PLUGIN = """
import dataclasses, json, os, time
from pathlib import Path
from benchmark.run import prepare
from zoo.methods.randomvectors import RandomVectors
from zoo.registry import register_method

make_runtime = prepare.make_runtime
# The GPUs do not exist: what is computed beside the sleep is computed on the CPU.
prepare.make_runtime = lambda device, *rest, **more: make_runtime("cpu", *rest, **more)

@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    dim: int = 16
    number: int = 0

@register_method("sleeper")
class Sleeper(RandomVectors):
    "Sleeps in its fit, and writes when and on which GPU."
    Recipe = Recipe

    def fit(self, corpus, *, dev_score=None, run):
        import ray
        context = ray.get_runtime_context()
        (gpu,) = context.get_accelerator_ids()["GPU"]
        path = Path(LOG) / f"{self.recipe.number}-{run.seed}-{os.getpid()}.json"
        told = {"node": context.get_node_id(), "gpu": gpu, "worker": context.get_worker_id()}
        told |= {"begin": time.time(), "end": None}
        path.write_text(json.dumps(told))
        time.sleep(SECONDS * (0.75 + 0.5 * (self.recipe.number * 7 % 10) / 9))
        path.write_text(json.dumps({**told, "end": time.time()}))
        return super().fit(corpus, dev_score=dev_score, run=run)
"""
GIB = 1 << 30
Span = tuple[float, float]


@dataclass
class Node:
    """A node of the grid: its id in Ray, when it joined, and when it was killed (None: never)."""

    id: str
    joined: float
    killed: float | None = None


def share(spans: list[Span], window: Span) -> float:
    """Return the part of a window that the spans cover; they may overlap."""
    covered, until = 0.0, window[0]
    for begin, end in sorted(spans):
        begin, end = max(begin, until), min(end, window[1])
        if end > begin:
            covered, until = covered + end - begin, end
    return covered / (window[1] - window[0])


@dataclass
class Grid:
    """What a run on the grid left: its nodes, the times of the GPUs, the records and what the command said."""

    nodes: list[Node]
    gpus: int  # of each node
    fits: list[dict[str, Any]]
    tasks: dict[str, Span]  # by the worker of each task
    records: int
    seconds: float
    said: str

    def spans(self, of_tasks: bool) -> dict[tuple[str, str], list[Span]]:
        """Return when a task ran on each GPU, or when an encoder was fitted on it; a killed one ran to the kill."""
        killed = {node.id: node.killed for node in self.nodes}
        found = defaultdict(list)
        for fit in self.fits:
            fitted = fit["begin"], fit["end"] or killed[fit["node"]]
            begin, end = self.tasks.get(fit["worker"], fitted) if of_tasks else fitted
            found[fit["node"], fit["gpu"]].append((min(begin, fitted[0]), end))
        return found

    def shares(self, of_tasks: bool, to_the_end: bool) -> list[float]:
        """Return the part of its time that each GPU was busy, from the first start to the last one, or to the end."""
        spans = self.spans(of_tasks)
        begins = [begin for of_gpu in spans.values() for begin, _ in of_gpu]
        stop = max(end for of_gpu in spans.values() for _, end in of_gpu) if to_the_end else max(begins)
        found = []
        for node in self.nodes:
            window = max(node.joined, min(begins)), min(node.killed or stop, stop)
            if window[1] > window[0]:
                found += [share(spans[node.id, str(gpu)], window) for gpu in range(self.gpus)]
        return found

    def told(self) -> str:
        """Return the sizes and the shares in a few lines."""
        kinds = {"busy (a task runs on it)": True, "working (an encoder is fitted on it)": False}
        lines = [
            f"{len(self.nodes)} nodes x {self.gpus} GPUs, of which one was killed and one joined:"
            f" {len(self.fits)} fits, {self.records} records, {self.seconds:.0f} s"
        ]
        for kind, of_tasks in kinds.items():
            for to_the_end, until in ((False, "the last start"), (True, "the end")):
                shares = self.shares(of_tasks, to_the_end)
                smallest, mean = min(shares), sum(shares) / len(shares)
                lines.append(f"{kind}, to {until}: smallest {smallest:.1%}, mean {mean:.1%}")
        before = [fit["begin"] - self.tasks[fit["worker"]][0] for fit in self.fits if fit["worker"] in self.tasks]
        gaps = []
        for spans in map(sorted, self.spans(True).values()):
            gaps += [after[0] - before[1] for before, after in itertools.pairwise(spans)]
        if before and gaps:
            lines.append(
                f"mean seconds from the end of a task to the next one on its GPU: {sum(gaps) / len(gaps):.1f};"
                f" from the start of a task to that of the fit: {sum(before) / len(before):.1f}"
            )
        return "\n".join(lines)


def run_grid(folder: Path, nodes: int, gpus: int, methods: int, seeds: int, seconds: float) -> Grid:
    """Run the grid in a folder, which keeps the results; raises RuntimeError where the command fails."""
    from ray.cluster_utils import Cluster

    ray = ray_library()
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  else workers wait for all other work on the machine
    log = folder / "log"
    log.mkdir()
    (folder / "sleeper.py").write_text(f"LOG, SECONDS = {str(log)!r}, {seconds}\n{PLUGIN}", encoding="utf-8")
    place: dict[str, Any] = {
        "num_cpus": gpus,
        "num_gpus": gpus,
        "memory": 4 * gpus * GIB,
        "object_store_memory": 1 << 27,
    }
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 1 << 28}
    machines, grid, started = Cluster(initialize_head=True, head_node_args=head), [], time.time()
    child = None

    def join() -> None:
        node = machines.add_node(**place)
        grid.append((node, Node(node.node_id, time.time())))

    try:
        for _ in range(nodes):
            join()
        ray.init(machines.address, log_to_driver=False, logging_level="error")
        names = ",".join(f"sleeper:number={number}" for number in range(methods))
        line = f"run --plugin {folder / 'sleeper.py'} --methods {names} --seeds {seeds} --tasks pocket-words"
        line += f" --no-controls --precision fp32 --executor ray --embedding-cache 0 --results {folder / 'results'}"
        environment = {**os.environ, "RAY_ADDRESS": machines.address, "OMP_NUM_THREADS": "1"}
        with (folder / "said").open("w") as said:
            command = [sys.executable, "-m", "benchmark", *line.split()]
            child = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        while child.poll() is None:
            measured = len(list(folder.glob("results/records/*/*.json")))
            if len(grid) == nodes and measured >= methods * seeds // 2:
                grid[0][1].killed = time.time()
                machines.remove_node(grid[0][0], allow_graceful=False)
                join()
            time.sleep(0.2)
        time.sleep(2)  # in which the last tasks report to Ray's log
        tasks = [event for event in ray.timeline() if event["name"].endswith("remote.work")]
    finally:
        if child is not None:
            child.kill()
        ray.shutdown()
        machines.shutdown()
    text = (folder / "said").read_text(encoding="utf-8")
    if child.returncode:
        raise RuntimeError(f"the command ended with code {child.returncode}: {text[-2000:]}")
    return Grid(
        nodes=[node for _, node in grid],
        gpus=gpus,
        fits=[json.loads(path.read_text(encoding="utf-8")) for path in sorted(log.glob("*.json"))],
        tasks={
            event["tid"].removeprefix("worker:"): (event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6)
            for event in tasks
        },
        records=len(list(folder.glob("results/records/*/*.json"))),
        seconds=time.time() - started,
        said=text,
    )


@click.command(help=__doc__)
@click.option("--nodes", default=4, show_default=True)
@click.option("--gpus", default=8, show_default=True, help="Of each node.")
@click.option("--methods", default=100, show_default=True)
@click.option("--seeds", default=5, show_default=True)
@click.option("--seconds", default=60.0, show_default=True, help="The mean duration of a fit.")
def main(nodes: int, gpus: int, methods: int, seeds: int, seconds: float) -> None:
    """Run the grid and print how busy its GPUs were."""
    with tempfile.TemporaryDirectory() as folder, ray_messages(Progress.silent()):
        grid = run_grid(Path(folder), nodes, gpus, methods, seeds, seconds)
    print(grid.told())
    sys.exit(grid.records != methods * seeds)


if __name__ == "__main__":
    main()
