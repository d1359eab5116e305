"""Measures unsupervised SimCSE training by this project and by sentence-transformers, alternating in one run.

python -m speed.training --text FILE [--backbone zoo-small] [--steps 40] [--rounds 3] [--out speed.csv]

Both train the same weights on the same sentences with the same loss (in-batch InfoNCE of two dropout views, cosine,
temperature 0.05), batch, length, learning rate and number of steps, without evaluation. Each side runs in float32 and
in bfloat16; the best precision of each is compared, by the median of the rounds.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
from pathlib import Path
from typing import Any

import click

from benchmark.data.readers.pairs import iterate_text
from speed.report import conditions, write_csv
from speed.script import run
from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.hub_models import DEFAULT_BACKBONE
from zoo.machine import choose_device, choose_precision


def ours(backbone: str, sentences: list[str], batch: int, length: int, device: str, precision: str) -> float:
    """Return sentences per second of one epoch in this project's loop."""
    from zoo.methods.simcse import SimCSE

    recipe = SimCSE.Recipe(backbone=backbone, batch_size=batch, train_max_length=length)
    encoder = SimCSE(recipe, Runtime(device=device, precision=precision))
    report = encoder.fit(Corpus("speed", sentences), run=Run(seed=0))
    return len(sentences) / report.seconds


def peers(backbone: str, sentences: list[str], batch: int, length: int, device: str, precision: str) -> float:
    """Return sentences per second of one epoch in sentence-transformers' trainer (its own clock, training only)."""
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer
    from sentence_transformers.sentence_transformer.training_args import SentenceTransformerTrainingArguments

    from zoo.engine.backbone import find_backbone

    folder = str(find_backbone(backbone).folder)
    # Both sides train float32 weights, in whatever precision the checkpoint is stored.
    transformer = Transformer(folder, max_seq_length=length, model_kwargs={"dtype": torch.float32})
    dim = transformer.get_embedding_dimension()
    head = Dense(dim, dim)
    model = SentenceTransformer(modules=[transformer, Pooling(dim, "cls"), head], device=device)
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=batch,
            learning_rate=3e-5,
            bf16=precision == "bf16",
            use_cpu=device == "cpu",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
        )
        trainer = SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict({"anchor": sentences, "positive": sentences}),
            loss=MultipleNegativesRankingLoss(model, scale=20.0),
        )
        seconds = float(trainer.train().metrics["train_runtime"])
    return len(sentences) / seconds


@click.command(help=__doc__)
@click.option("--text", type=click.Path(exists=True, path_type=Path), required=True, help="One sentence per line.")
@click.option("--backbone", default=DEFAULT_BACKBONE, show_default=True)
@click.option("--steps", default=40, show_default=True)
@click.option("--batch", default=64, show_default=True)
@click.option("--length", default=32, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="CSV file for every single measurement.")
def main(
    text: Path, backbone: str, steps: int, batch: int, length: int, rounds: int, device: str, out: Path | None
) -> None:
    """Measure and print medians and the ratio."""
    device = choose_device(device)
    # It caps the instruction set, before the first product, on a CPU that overstates it.
    choose_precision("bf16", device)
    sentences = list(itertools.islice(iterate_text(text), steps * batch))
    rows: list[dict[str, Any]] = []
    sides = {"zoo-bench": ours, "sentence-transformers": peers}
    for number in range(rounds + 1):
        for precision in ("fp32", "bf16"):
            for name, side in sides.items():
                # The first round warms up memory, kernels and caches.
                some = sentences if number else sentences[: 4 * batch]
                rate = side(backbone, some, batch, length, device, precision)
                if number:
                    rows.append({"side": name, "precision": precision, "round": number, "sentences_per_second": rate})
                    print(f"{name:22} {precision} round {number}: {rate:8.1f} sentences/s", flush=True)
    medians = {
        (name, precision): statistics.median(
            row["sentences_per_second"] for row in rows if (row["side"], row["precision"]) == (name, precision)
        )
        for name in sides
        for precision in ("fp32", "bf16")
    }
    best = {name: max((medians[name, precision], precision) for precision in ("fp32", "bf16")) for name in sides}
    for name, (rate, precision) in best.items():
        print(f"{name:22} best: {rate:8.1f} sentences/s ({rate / batch:.2f} steps/s) in {precision}")
    print(f"ratio {best['zoo-bench'][0] / best['sentence-transformers'][0]:.2f}")
    if out is not None:
        about = conditions(device, "transformers", "sentence-transformers")
        write_csv(out, rows, {"backbone": backbone, "batch": batch, "length": length, **about})


if __name__ == "__main__":
    run(main)
