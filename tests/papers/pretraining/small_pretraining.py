"""Trainings of milliseconds a step: 400 tokens, 16 wide, on the pocket sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from zoo.encoder import Runtime
from zoo.tensors import read_tensors
from zoo_bench_papers.pretraining.pretrain import pretrain
from zoo_bench_papers.pretraining.recipe import PretrainRecipe
from zoo_bench_papers.pretraining.texts import PlainTexts

POCKET = Path(__file__).resolve().parents[3] / "benchmark" / "data" / "pocket" / "sentences.txt"
SMALL = PretrainRecipe(
    architecture="roberta",
    tokenizer="byte-level-bpe",
    vocabulary=400,
    layers=2,
    width=16,
    heads=2,
    inner=32,
    row_length=16,
    batch_rows=8,
    held_out_rows=32,
    steps=12,
    decay_steps=4,
    warmup_steps=2,
    eval_every=6,
    learning_rate=1e-2,
)
SHAPES = {
    "bert": replace(SMALL, architecture="bert", tokenizer="zoo-mini", steps=4),
    "roberta": SMALL,
    "albert": replace(SMALL, architecture="albert", tokenizer="unigram", vocabulary=300, embedding=8, steps=4),
    "gpt2": replace(SMALL, architecture="gpt2", output_bias="zero"),
}
TEXTS = PlainTexts([POCKET], lambda path: path.read_text(encoding="utf-8").splitlines())


def train(folder: Path, recipe: PretrainRecipe = SMALL, every: int | None = None) -> dict[str, Any]:
    return pretrain(recipe, TEXTS, folder, runtime=Runtime(), checkpoint_steps=every, command="zoo-bench pretrain ...")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / "model.safetensors")[0]


def same(first: Path, second: Path) -> bool:
    """True where two model folders hold the same bits."""
    a, b = weights(first), weights(second)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
