"""Fifteen measurements of one GPU in five minutes: python -m speed.gpu --out FILE.csv [--old FOLDER] [--device cuda].

Each step prints a line and appends it to the file at once; when the time is over, the rest is named as not measured.
The texts are made up and the weights random, of BERT-base's shape, so neither data nor a network is needed. `--old` is
a checkout whose steps of training alternate with this one's. `--device cpu --tiny` tries all steps in a minute.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from speed import device as pieces
from speed.peak import matrix_speed
from speed.script import run

Values = dict[str, Any]


def graphs(method: str, backbone: str, device: str, *, steps: int, tiny: bool) -> Values:
    """Return the speed of a training in bfloat16 whose steps are CUDA graphs."""
    from zoo.encoder import Run

    encoder = pieces.make_encoder(method, backbone, device, "bf16", tiny=tiny)
    encoder = type(encoder)(encoder.recipe, dataclasses.replace(encoder.runtime, cuda_graphs=True))
    report = encoder.fit(pieces.corpus(encoder, steps * encoder.recipe.batch_size), run=Run(seed=0))
    captured = report.facts.get("captured_steps")
    return {"ms_per_step": 1000 * report.seconds / report.steps, "captured": captured, "loss": report.final_loss}


def encoding(backbone: str, device: str, some: list[str], *, ids_known: bool) -> Values:
    """Return texts per second in bfloat16, from texts or from their token ids."""
    from zoo.api import create
    from zoo.encoder import Runtime
    from zoo.engine.batching import encode_table
    from zoo.engine.tokens import MEMORY

    encoder: Any = create(f"avg-last:backbone={backbone}")
    encoder = type(encoder)(encoder.recipe, Runtime(device=device, precision="bf16"))
    encoder.encode(some[:512])
    table = encoder.token_table(list(dict.fromkeys(some)))
    MEMORY.forget()
    started = time.perf_counter()
    if ids_known:
        settings = {"dim": encoder.pooled_dim, "pad_id": encoder.backbone.pad_id}
        encode_table(table, encoder.forward, runtime=encoder.runtime, stats=encoder.stats, **settings)
    else:
        encoder.encode(some)
    seconds = time.perf_counter() - started
    return {"per_second": len(table) / seconds, "tokens_per_second": len(table.ids) / seconds}


def looks(backbone: str, device: str, *, steps: int, tiny: bool) -> Values:
    """Return what a dev look of 3,000 texts and a checkpoint add to a training in bfloat16."""
    import numpy as np

    from zoo.encoder import Run

    dev = pieces.made_up(30 if tiny else 3000, seed=1)
    encoder = pieces.make_encoder("simcse", backbone, device, "bf16", tiny=tiny)
    encoder = type(encoder)(dataclasses.replace(encoder.recipe, eval_every=max(steps // 4, 1)), encoder.runtime)
    spent: list[float] = []

    def score(of: Any) -> float:
        started = time.perf_counter()
        first, second = np.split(of.encode(dev), 2)
        spent.append(time.perf_counter() - started)
        return float(np.mean(first * second))

    with tempfile.TemporaryDirectory() as folder:
        every = Run(seed=0, folder=Path(folder), checkpoint_steps=max(steps // 4, 1))
        report = encoder.fit(pieces.corpus(encoder, steps * encoder.recipe.batch_size), dev_score=score, run=every)
    return {"seconds": report.seconds, "of_looks": sum(spent), "looks": len(spent), "steps": report.steps}


def older(old: Path, backbone: str, device: str, method: str, out: Path, *, tiny: bool) -> Values:
    """Measure a training of an older checkout, by a process of its own."""
    arguments = ["train", "--out", str(out.with_suffix(".old.csv")), "--device", device, "--precisions", "bf16"]
    arguments += ["--methods", method, "--steps", "40", *(["--tiny"] if tiny else [])]
    environment = {**os.environ, "PYTHONPATH": str(old.resolve())}
    script = str(Path(pieces.__file__).resolve())
    done = subprocess.run([sys.executable, "-P", script, *arguments], env=environment, capture_output=True, text=True)
    return {"line": " ".join((done.stdout or done.stderr).split())[-300:]}


@click.command(help=__doc__)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--old", type=click.Path(exists=True, path_type=Path), help="An older checkout.")
@click.option("--device", default="cuda", show_default=True)
@click.option("--seconds", default=300.0, show_default=True, help="Nothing begins after them.")
@click.option("--tiny", is_flag=True, help="A small model, and few steps and texts.")
def main(out: Path, old: Path | None, device: str, seconds: float, tiny: bool) -> None:
    """Measure the steps in the order of their worth."""
    steps, count = (2, 60) if tiny else (40, 20_000)
    with tempfile.TemporaryDirectory() as folder:
        backbone = pieces.weights(Path(folder), tiny=tiny)

        def training(method: str, precision: str) -> Callable[[], Values]:
            return lambda: pieces.train(method, backbone, device, precision, steps=steps, tiny=tiny)

        def profile(method: str) -> Callable[[], Values]:
            return lambda: pieces.kernels(method, backbone, device, "bf16", steps=min(steps, 5), tiny=tiny)

        def before(method: str) -> Callable[[], Values]:
            assert old is not None
            return lambda: older(old, backbone, device, method, out, tiny=tiny)

        def products() -> Values:
            return {name: matrix_speed(device, name) / 1e12 for name in ("fp32", "bf16")}

        some = pieces.made_up(count)
        named: dict[str, Callable[[], Values]] = {
            "warm-up: TFLOP/s of products": products,
            "simcse bf16": training("simcse", "bf16"),
            **({} if old is None else {"simcse bf16, older": before("simcse")}),
            "ptbert bf16": training("ptbert", "bf16"),
            **({} if old is None else {"ptbert bf16, older": before("ptbert")}),
            "simcse bf16, graphs": lambda: graphs("simcse", backbone, device, steps=steps, tiny=tiny),
            "ptbert bf16, graphs": lambda: graphs("ptbert", backbone, device, steps=steps, tiny=tiny),
            "encoding bf16, texts": lambda: encoding(backbone, device, some, ids_known=False),
            "encoding bf16, ids": lambda: encoding(backbone, device, some, ids_known=True),
            "encoding bf16, sentence-transformers": lambda: pieces.encode(
                "sentence-transformers", backbone, device, "bf16", texts=some
            ),
            "profile simcse": lambda: pieces.kernels(
                "simcse", backbone, device, "bf16", steps=min(steps, 5), tiny=tiny
            ),
            "profile ptbert": lambda: pieces.kernels(
                "ptbert", backbone, device, "bf16", steps=min(steps, 5), tiny=tiny
            ),
            "dev looks and checkpoints": lambda: looks(backbone, device, steps=steps, tiny=tiny),
            "simcse fp32": training("simcse", "fp32"),
            "ptbert fp32": training("ptbert", "fp32"),
        }
        begin = time.monotonic()
        for step, measure in named.items():
            if time.monotonic() - begin > seconds:
                click.echo(f"{step}: not measured, the time is over")
                continue
            started = time.monotonic()
            try:
                values = measure()
            except Exception as error:
                # The other steps are worth the GPU's time.
                values = {"error": " ".join(str(error).split())[:200]}
            shown = ", ".join(f"{name} {value}" for name, value in values.items())
            line = {"step": step, "seconds": round(time.monotonic() - started, 1), "values": shown}
            pieces.append(out, {**line, "device": device})


if __name__ == "__main__":
    run(main)
