"""Measures the cost of training: sentences per second, the time of a million sentences, and the MFU.

python -m speed.epoch --text FILE [--methods simcse,ptbert] [--base] [--steps 100] [--device cuda]

Each method trains for some steps with its own settings (batch, length, queue), without dev scores. An epoch of a
million sentences (the corpus of SimCSE, PT-BERT and PromptBERT) is computed from the sentences per second. MFU is the
speed of the products with the layers' weights (without attention's own products and padding), as a share of the speed
of a matrix product measured in the same run. It counts two operations per weight and token for a forward pass, and six
with the backward pass.
`--base` uses random weights of BERT-base's shape instead of each recipe's backbone.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmark.data.readers.pairs import iterate_text
from speed.encoding import base_weights
from speed.peak import matrix_speed
from speed.report import conditions, write_csv
from speed.script import run
from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import UsageError
from zoo.machine import choose_device, choose_precision
from zoo.recipes import RecipeSpec, all_recipes
from zoo.selection import parse_methods

EPOCH = 1_000_000


def measure(
    spec: RecipeSpec, sentences: list[str], steps: int, backbone: str | None, runtime: Runtime
) -> dict[str, Any]:
    """Measure `steps` steps of a recipe; raises UsageError for one that does not train on single sentences."""
    cls, recipe = spec.resolve()
    if not (cls.traits(recipe).needs_corpus and hasattr(recipe, "epochs") and hasattr(recipe, "train_max_length")):
        raise UsageError(
            f"{spec.name} does not train on batches of single sentences; take simcse, ptbert, promptbert ..."
        )
    recipe = replace(recipe, epochs=1, eval_every=10**9, **({"backbone": backbone} if backbone else {}))
    some = sentences[: steps * recipe.batch_size]
    encoder: Any = cls(recipe, runtime)
    report = encoder.fit(Corpus("speed", some), run=Run(seed=0))
    lengths = encoder.token_table(some).lengths
    tokens = float(np.minimum(lengths, recipe.train_max_length).sum()) / len(some)
    weights = sum(p.numel() for p in encoder.backbone.model.encoder.parameters() if p.ndim == 2)
    rate = len(some) / report.seconds
    return {
        "method": spec.name,
        "sentences": len(some),
        "batch": recipe.batch_size,
        "sentences_per_second": round(rate, 1),
        "million_seconds": round(EPOCH / rate, 1),
        "tokens_per_sentence": round(tokens, 2),
        "tflops": 6.0 * cls.traits(recipe).training_passes * weights * tokens * rate / 1e12,
        "peak_mb": report.peak_memory_mb,
    }


@click.command(help=__doc__)
@click.option("--text", type=click.Path(exists=True, path_type=Path), required=True, help="One sentence per line.")
@click.option("--methods", default="simcse,ptbert", show_default=True)
@click.option("--base", is_flag=True, help="Random weights of BERT-base's shape.")
@click.option("--steps", default=100, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", type=click.Choice(["auto", "bf16", "fp32"]), default="auto", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="CSV file for every single measurement.")
def main(
    text: Path, methods: str, base: bool, steps: int, rounds: int, device: str, precision: str, out: Path | None
) -> None:
    """Measure and print medians."""
    device = choose_device(device)
    precision = choose_precision(precision, device)
    runtime = Runtime(device=device, precision=precision)
    specs = parse_methods(methods, all_recipes())
    sentences = list(itertools.islice(iterate_text(text), steps * 1024))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        backbone = base_weights(Path(folder) / "base") if base else None
        for spec in specs:
            measure(spec, sentences, 5, backbone, runtime)
        for number, spec in itertools.product(range(1, rounds + 1), specs):
            rows.append({**measure(spec, sentences, steps, backbone, runtime), "round": number})
            print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    speed = matrix_speed(device, precision)
    for spec in specs:
        of_method = [row for row in rows if row["method"] == spec.name]
        seconds = statistics.median(row["million_seconds"] for row in of_method)
        tflops = statistics.median(row["tflops"] for row in of_method)
        share = 1e14 * tflops / speed
        print(f"{spec.name}: a million sentences in {seconds:,.0f} s; {tflops:.3f} TFLOP/s, MFU {share:.0f} %")
    if out is not None:
        shape = "BERT-base shape" if base else "the recipe's"
        about = {"backbone": shape, "precision": precision, "matrix_tflops": round(speed / 1e12, 3)}
        write_csv(out, rows, {**about, **conditions(device, "transformers")})


if __name__ == "__main__":
    run(main)
