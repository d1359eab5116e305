"""Trainings of milliseconds a step: 400 tokens, 16 wide, on the pocket sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from zoo.encoder import Run, Runtime
from zoo.files import read_tensors
from zoo.pretraining.pretrain import PlainTexts, Wishes, pretrain
from zoo.pretraining.recipe import PretrainRecipe

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
    steps=24,
    decay_steps=8,
    warmup_steps=4,
    eval_every=12,
    frequent_tokens=64,
    drawn_tokens=64,
    learning_rate=1e-2,
    store="float32",
)


def small(**changes: Any) -> PretrainRecipe:
    """SMALL with other values."""
    return replace(SMALL, **changes)


def texts(tmp_path: Path, path: Path = POCKET) -> PlainTexts:
    """The pocket sentences, with token files that the tests of a session share."""
    return PlainTexts([path], lambda p: p.read_text(encoding="utf-8").splitlines(), tmp_path.parent / "tokens")


def train(
    folder: Path, recipe: PretrainRecipe = SMALL, stop_after: int | None = None, every: int | None = None, **wishes: Any
) -> dict[str, Any]:
    """Train into folder/model; `stop_after` so many steps a signal comes, `every` so many there is a checkpoint."""
    asked = iter(range(10**6))
    run = Run(
        folder / "model" / "training",
        recipe.seed,
        checkpoint_steps=every,
        stop_signal=lambda: 15 if stop_after is not None and next(asked) >= stop_after else None,
    )
    return pretrain(recipe, texts(folder), folder / "model", runtime=Runtime(), run=run, wishes=Wishes(**wishes))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of a model folder."""
    return read_tensors(folder / "model.safetensors")[0]


def same(first: Path, second: Path) -> bool:
    """True where two model folders hold the same bits."""
    a, b = weights(first), weights(second)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
