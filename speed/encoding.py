"""Measures the encoding of STS texts by this project's engine and by sentence-transformers, alternating in one run.

python -m speed.encoding --data FOLDER [--model MODEL] [--base] [--pairs N] [--rounds 3] [--out FILE.csv]

Both encode STS12-16, STS-B and SICK-R with the same weights, tokenisation included, loading excluded. The peer encodes
both columns of every task, as evaluations with it do, at its defaults (float32, batches of 32) and in bfloat16. Ours
gets the same texts at once, in float32 and in bfloat16. Printed: medians, ratios, the largest difference of a task's
score from the peer's in float32, and the speed of the products with the layers' weights in our best precision, relative
to a matrix product measured in the same run. `--base` uses random weights of BERT-base's shape.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmark.data.sources import DataSource
from benchmark.run.vectors import VectorStore
from benchmark.tasks.base import PairsData
from benchmark.tasks.loaded import LoadedTask, load_tasks
from benchmark.tasks.suites import all_suites
from speed.peak import matrix_speed
from speed.report import conditions, write_csv
from speed.script import run
from zoo.encoder import Runtime, Vectors
from zoo.engine.hub_models import DEFAULT_BACKBONE
from zoo.engine.tokens import MEMORY
from zoo.machine import choose_device, choose_precision

PRECISIONS = ("fp32", "bf16")


def base_weights(folder: Path) -> str:
    """Write random weights of BERT-base's shape, with its vocabulary, as a transformers folder."""
    import torch
    from transformers import BertConfig, BertModel

    from zoo.engine.backbone import Backbone

    torch.manual_seed(0)
    tokenizer = Backbone.load(DEFAULT_BACKBONE, None, Runtime()).tokenizer
    BertModel(BertConfig(vocab_size=len(tokenizer))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def base_shape(folder: Path) -> str:
    """Write `base_weights`, with mean pooling, as a sentence-transformers folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(base_weights(folder / "plain"), max_seq_length=128)
    SentenceTransformer(modules=[transformer, Pooling(768, "mean")], device="cpu").save(str(folder / "model"))
    return str(folder / "model")


def our_side(model: str, device: str, precision: str) -> Callable[[Sequence[LoadedTask]], dict[str, Vectors]]:
    """Return a function that encodes tasks with this project: every distinct text of all tasks once."""
    from zoo.methods.pretrained import Pretrained

    encoder = Pretrained(Pretrained.Recipe(model=model), Runtime(device=device, precision=precision))

    def encode(tasks: Sequence[LoadedTask]) -> dict[str, Vectors]:
        # This process sees these texts for the first time.
        MEMORY.forget()
        store = VectorStore(encoder, "speed")
        texts = {task.name: task.data.texts() for task in tasks if task.data is not None}
        store.add([text for some in texts.values() for text in some])
        return {name: store(some) for name, some in texts.items()}

    return encode


def peer_side(model: str, device: str, precision: str) -> Callable[[Sequence[LoadedTask]], dict[str, Vectors]]:
    """Return a function that encodes tasks with sentence-transformers: column by column, task by task."""
    import torch
    from sentence_transformers import SentenceTransformer

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    peer = SentenceTransformer(model, device=device, model_kwargs={"dtype": dtype})

    def column(texts: list[str]) -> Vectors:
        vectors = peer.encode(texts, show_progress_bar=False, convert_to_tensor=True)
        result: Vectors = vectors.float().cpu().numpy()
        return result

    def encode(tasks: Sequence[LoadedTask]) -> dict[str, Vectors]:
        result = {}
        for task in tasks:
            assert isinstance(task.data, PairsData)
            pairs = list(task.data.subsets.values())
            first = column([text for subset in pairs for text in subset.first])
            second = column([text for subset in pairs for text in subset.second])
            ends = np.cumsum([len(subset) for subset in pairs])[:-1]
            halves = zip(np.split(first, ends), np.split(second, ends), strict=True)
            result[task.name] = np.concatenate([side for both in halves for side in both])
        return result

    return encode


def layer_flops(model: str, tasks: Sequence[LoadedTask]) -> float:
    """Return the floating-point operations of the layers' weights for encoding every distinct text once."""
    from zoo.methods.pretrained import Pretrained

    encoder = Pretrained(Pretrained.Recipe(model=model), Runtime())
    texts = list(dict.fromkeys(text for task in tasks if task.data is not None for text in task.data.texts()))
    weights: int = sum(p.numel() for p in encoder.backbone.model.get_submodule("encoder").parameters() if p.ndim == 2)
    return 2.0 * weights * int(encoder.token_table(texts).lengths.sum())


def scores(tasks: Sequence[LoadedTask], vectors: dict[str, Vectors]) -> dict[str, float]:
    """Return the score x100 of each task."""
    result = {}
    for task in tasks:
        assert task.data is not None
        row = {text: i for i, text in enumerate(task.data.texts())}
        main = task.data.score(partial(_rows, vectors[task.name], row))["main"]
        assert main is not None
        result[task.name] = 100 * main
    return result


def _rows(vectors: Vectors, row: dict[str, int], texts: Sequence[str]) -> Vectors:
    return vectors[[row[text] for text in texts]]


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, path_type=Path), required=True, help="Folder of the data sets.")
@click.option(
    "--model", default=DEFAULT_BACKBONE, show_default=True, help="A folder or hub id of sentence-transformers."
)
@click.option("--base", is_flag=True, help="Random weights of BERT-base's shape instead.")
@click.option("--pairs", type=int, help="Only the first N pairs of each subset.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="CSV file for every single measurement.")
def main(data: Path, model: str, base: bool, pairs: int | None, rounds: int, device: str, out: Path | None) -> None:
    """Measure and print medians, ratios and differences of scores."""
    device = choose_device(device)
    # It caps the instruction set, before the first product, on a CPU that overstates it.
    choose_precision("bf16", device)
    tasks = load_tasks(all_suites()["sts"].tasks, DataSource.from_options(str(data)), pairs)
    texts = sum(len(task.data.texts()) for task in tasks if task.data is not None)
    with tempfile.TemporaryDirectory() as folder:
        model = base_shape(Path(folder)) if base else model
        sides = {
            (name, precision): side(model, device, precision)
            for precision in PRECISIONS
            for name, side in (("zoo-bench", our_side), ("sentence-transformers", peer_side))
        }
        flops = layer_flops(model, tasks)
        rows: list[dict[str, Any]] = []
        points: dict[tuple[str, str], dict[str, float]] = {}
        for number in range(rounds + 1):
            for (name, precision), encode in sides.items():
                started = time.perf_counter()
                # The first round warms up: memory, kernels, caches.
                vectors = encode(tasks if number else tasks[:1])
                seconds = time.perf_counter() - started
                if number:
                    rows.append({"side": name, "precision": precision, "round": number, "seconds": round(seconds, 3)})
                    points[name, precision] = scores(tasks, vectors)
                    print(f"{name:22} {precision} round {number}: {seconds:7.2f} s", flush=True)
    medians = {
        side: statistics.median(row["seconds"] for row in rows if (row["side"], row["precision"]) == side)
        for side in sides
    }
    exact = points["sentence-transformers", "fp32"]
    for side, seconds in medians.items():
        apart = max(abs(points[side][task] - exact[task]) for task in exact)
        print(f"{side[0]:22} {side[1]}: {seconds:7.2f} s, {texts / seconds:8.1f} texts/s, scores within {apart:.4f}")
    best = min(PRECISIONS, key=lambda precision: medians["zoo-bench", precision])
    for precision in PRECISIONS:
        ratio = medians["sentence-transformers", precision] / medians["zoo-bench", best]
        print(f"sentence-transformers in {precision} takes {ratio:.2f} times as long as our best")
    rate = flops / medians["zoo-bench", best]
    print(f"our best: {rate / 1e12:.3f} TFLOP/s, {100 * rate / matrix_speed(device, best):.0f} % of a matrix product's")
    if out is not None:
        about = conditions(device, "transformers", "sentence-transformers")
        write_csv(out, rows, {"model": "BERT-base shape" if base else Path(model).name, "texts": texts, **about})


if __name__ == "__main__":
    run(main)
