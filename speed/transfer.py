"""Measures this project's probes against SentEval's own code on the transfer tasks, on the same vectors, alternating.

python -m speed.transfer compare --data DIR --senteval FOLDER [--tasks TREC,MRPC,CR] [--setting full]
python -m speed.transfer alone --data DIR [--method RECIPE] [--setting full] [--device cuda]
python -m speed.transfer memory [--setting full] [--rows 10662] [--dim 768]

`compare` encodes every sentence once; then each side reads the task's files, looks up its vectors, trains and scores.
By default both run on one thread, and process time is compared, so that other work on the machine does not count. With
`--threads` for this side, or `--peer-threads` for SentEval, wall time is compared, and nothing else should run on the
machine. SentEval runs neither on a current Python nor without a GPU; docs/transfer.md has the line that repairs a copy
of it. `alone` times only this project's side, on any device. `memory` runs a task of MR's size on random vectors and
prints the peak memory of this process.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from benchmark.data.sources import DataSource
from benchmark.metrics.probe.protocol import FAST, FULL, nested
from benchmark.run.vectors import VectorStore
from benchmark.tasks import TASKS
from speed.script import run
from zoo.encoder import Runtime
from zoo.files import write_json
from zoo.machine import choose_device, environment, peak_memory_mb
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

_SEVEN = "MRPC,TREC,CR,SST2,MPQA,MR,SUBJ"


def ours(name: str, setting: str, data: DataSource, store: VectorStore, device: str = "cpu") -> dict[str, Any]:
    """Return accuracies x100 of this project's task."""
    loaded = TASKS.get(name if setting == "full" else f"{name}-{setting}").load(data)
    loaded.device = device
    scores = loaded.score(store)
    assert scores["main"] is not None
    result = {"acc": 100 * scores["main"], "devacc": 100 * scores["dev_accuracy"]}
    return result | ({"f1": 100 * scores["f1"]} if "f1" in scores else {})


def senteval_parameters(folder: Path, *, fast: bool = False) -> dict[str, object]:
    """Return SentEval's full setting (10 folds, Adam) or its fast setting."""
    if fast:
        classifier = {"nhid": 0, "optim": "rmsprop", "batch_size": 128, "tenacity": 3, "epoch_size": 2}
    else:
        classifier = {"nhid": 0, "optim": "adam", "batch_size": 64, "tenacity": 5, "epoch_size": 4}
    return {"task_path": str(folder), "usepytorch": True, "kfold": 5 if fast else 10, "classifier": classifier}


def theirs(name: str, setting: str, folder: Path, store: VectorStore) -> dict[str, Any]:
    """Return accuracies x100 of SentEval's own task; `folder` is its data folder."""
    engine = importlib.import_module("senteval.engine").SE(
        senteval_parameters(folder, fast=setting == "fast"),
        lambda params, batch: store([" ".join(tokens) for tokens in batch]),
    )
    scores = engine.eval("SICKEntailment" if name == "SICK-E" else name)
    return {key: float(scores[key]) for key in ("acc", "devacc", "f1") if key in scores}


def timed(threads: int, side: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Run one side on `threads` threads; returns its result with process time and wall time in seconds."""
    torch.set_num_threads(threads)
    cpu, wall = time.process_time(), time.perf_counter()
    result = side(*arguments)
    return result | {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}


def _warm_up(setting: str) -> None:
    """Make both sides import their modules and take their first steps, on random vectors."""
    x, y = np.random.RandomState(0).randn(90, 8).astype(np.float32), np.arange(90) % 2
    nested(x, y, FAST if setting == "fast" else FULL)
    kind = importlib.import_module("senteval.tools.classifier").MLP
    probe = kind(senteval_parameters(Path(), fast=setting == "fast")["classifier"], inputdim=8, nclasses=2)
    probe.fit(x, y, validation_split=0.1)


@click.group(help=__doc__)
def main() -> None:
    """Three commands."""


def _store(method: str, device: str) -> VectorStore:
    """Return the store that encodes texts of all tasks with a recipe."""
    cls, recipe = parse_methods(method, all_recipes())[0].resolve({})
    return VectorStore(cls(recipe, Runtime(device=device)), method)


@main.command()
@click.option("--data", type=click.Path(exists=True, path_type=Path), required=True, help="Holds downstream/.")
@click.option("--senteval", type=click.Path(exists=True, path_type=Path), required=True, help="The mended copy.")
@click.option("--method", default="avg-last", show_default=True, help="A recipe, with its overrides.")
@click.option("--tasks", default="TREC,MRPC,CR", show_default=True)
@click.option("--setting", type=click.Choice(["full", "fast"]), default="full", show_default=True)
@click.option("--threads", default=1, show_default=True, help="Of this side.")
@click.option("--peer-threads", default=1, show_default=True, help="Of SentEval, whose steps are too small to share.")
@click.option("--rounds", default=1, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="JSON file for every single measurement.")
def compare(
    data: Path,
    senteval: Path,
    method: str,
    tasks: str,
    setting: str,
    threads: int,
    peer_threads: int,
    rounds: int,
    out: Path | None,
) -> None:
    """Print the accuracies and times of both sides and their ratio, task by task."""
    sys.path.insert(0, str(senteval))
    torch.set_num_threads(1)
    alike = threads == peer_threads == 1
    compared, label = ("cpu_seconds", "process time") if alike else ("wall_seconds", "wall time")
    store, source = _store(method, "cpu"), DataSource(data, hub=False)
    _warm_up(setting)
    results: list[dict[str, Any]] = []
    report = {"method": method, "setting": setting, "threads": threads, "peer_threads": peer_threads}
    report |= {"environment": environment("cpu"), "results": results}
    for name in tasks.split(","):
        store.add(TASKS.get(name).load(source).texts())
        pairs = []
        for number in range(rounds):
            us = timed(threads, ours, name, setting, source, store)
            them = timed(peer_threads, theirs, name, setting, data, store)
            pairs.append((us, them))
            results += [
                {"task": name, "round": number, "side": side, **result}
                for side, result in (("zoo-bench", us), ("SentEval", them))
            ]
        ratio = statistics.median(t[compared] / u[compared] for u, t in pairs)
        us, them = pairs[-1]
        print(
            f"{name:6} {setting}: SentEval {them['acc']:.2f} (dev {them['devacc']:.2f}), here {us['acc']:.2f}"
            f" (dev {us['devacc']:.2f}); {label} {them[compared]:.1f} s : {us[compared]:.2f} s = {ratio:.0f}",
            flush=True,
        )
        # It is written after every task, because all of them take an hour.
        if out is not None:
            write_json(out, report)
    us_all, them_all = (sum(r[compared] for r in results if r["side"] == side) for side in ("zoo-bench", "SentEval"))
    print(f"all: {label} {them_all:.1f} s : {us_all:.2f} s = {them_all / us_all:.0f}")


@main.command()
@click.option("--data", type=click.Path(exists=True, path_type=Path), required=True, help="Holds downstream/.")
@click.option("--method", default="avg-last", show_default=True, help="A recipe, with its overrides.")
@click.option("--tasks", default=_SEVEN, show_default=True)
@click.option("--setting", type=click.Choice(["full", "fast"]), default="full", show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="JSON file for every single measurement.")
def alone(data: Path, method: str, tasks: str, setting: str, device: str, out: Path | None) -> None:
    """Print the time of this project's probes, task by task, encoding left out."""
    device, threads = choose_device(device), torch.get_num_threads()
    store, source = _store(method, device), DataSource(data, hub=False)
    random = np.random.RandomState(0)
    # The first steps warm up.
    nested(random.randn(90, 8).astype(np.float32), np.arange(90) % 2, FAST, device)
    results: list[dict[str, Any]] = []
    for name in tasks.split(","):
        store.add(TASKS.get(name).load(source).texts())
        results.append({"task": name, **timed(threads, ours, name, setting, source, store, device)})
        print(f"{name:6} {setting}: {results[-1]['acc']:.2f}, {results[-1]['wall_seconds']:.2f} s", flush=True)
    total = sum(result["wall_seconds"] for result in results)
    print(f"all {len(results)}, {store.encoder.dim} dimensions, {device}: {total:.1f} s of wall time")
    if out is not None:
        about = {"method": method, "dim": store.encoder.dim, "setting": setting, "environment": environment(device)}
        write_json(out, about | {"results": results})


@main.command()
@click.option("--setting", type=click.Choice(["full", "fast"]), default="full", show_default=True)
@click.option("--rows", default=10662, show_default=True)
@click.option("--dim", default=768, show_default=True)
def memory(setting: str, rows: int, dim: int) -> None:
    """Print the most memory and the time of nested folds over random vectors of two classes."""
    random = np.random.RandomState(0)
    x, y = random.randn(rows, dim).astype(np.float32), np.arange(rows) % 2
    x[:, 0] += y
    start = peak_memory_mb("cpu")
    result = timed(
        torch.get_num_threads(),
        lambda: {"acc": nested(x, y, {s.name: s for s in (FULL, FAST)}[setting]).accuracy},
    )
    print(
        f"{rows} x {dim}, {setting}: at most {peak_memory_mb('cpu')} MB resident (before the probe {start}),"
        f" process time {result['cpu_seconds']:.1f} s, accuracy {result['acc']:.2f}"
    )


if __name__ == "__main__":
    run(main)
