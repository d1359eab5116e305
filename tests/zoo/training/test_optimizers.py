"""The released codes' AdamW in numpy, which weights it decays; when training asks for dev scores, and gives up."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

from zoo.encoder import Run, Runtime
from zoo.training.loop import Objective, train
from zoo.training.optimizers import make_optimizer
from zoo.training.settings import TrainSettings
from zoo.training.siamese import train_by_accuracy

BASE = {"batch_size": 5, "learning_rate": 0.01, "epochs": 4, "eval_every": 4}


@pytest.mark.parametrize("correct", [True, False])
def test_transformers_adamw_equals_numpy(correct: bool) -> None:
    """Gradients as small as epsilon, where it matters to which root epsilon is added."""
    settings = TrainSettings(
        **BASE, optimizer="transformers-adamw", adam_epsilon=1e-6, weight_decay=0.01, adam_bias_correction=correct
    )
    weight = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = make_optimizer([("layer.weight", weight)], settings)
    wanted, mean, square = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for step, gradient in enumerate(np.array([[1e-6, 0.3], [-2e-6, 0.1], [3e-6, -0.2]]), 1):
        weight.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        rate = 0.01 * (math.sqrt(1 - 0.999**step) / (1 - 0.9**step) if correct else 1)
        wanted = (wanted - rate * mean / (np.sqrt(square) + 1e-6)) * (1 - 0.01 * 0.01)
        np.testing.assert_allclose(weight.detach().numpy(), wanted, rtol=1e-12)


def test_biases_and_layer_norms_do_not_decay() -> None:
    settings = TrainSettings(**BASE, optimizer="transformers-adamw", weight_decay=0.5)
    names = ["model.dense.weight", "model.dense.bias", "model.LayerNorm.weight", "model.LayerNorm.bias"]
    weights = [nn.Parameter(torch.ones(2)) for _ in names]
    optimizer = make_optimizer(list(zip(names, weights, strict=True)), settings)
    for weight in weights:
        weight.grad = torch.zeros(2)
    optimizer.step()
    assert [weight[0].item() for weight in weights] == [pytest.approx(1 - 0.01 * 0.5), 1.0, 1.0, 1.0]


class Line(Objective):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x: torch.Tensor, **_: object) -> torch.Tensor:
        return self.layer(x).square().mean()


def fit(scores: list[float], run: Run | None = None, **settings: object) -> dict[str, float]:
    """Train on 48 rows, ten batches an epoch; return the dev scores by step."""
    data, remaining = torch.ones(48, 2), iter(scores)
    report = train(
        Line(),
        lambda rows: (data[rows],),
        48,
        TrainSettings(**{**BASE, **settings}),
        runtime=Runtime(),
        run=run or Run(seed=0),
        backbone=nn.Linear(1, 1),
        dev_score=lambda: next(remaining),
    )
    return dict(report.dev_scores)


def test_dev_scores_are_asked_within_epochs_and_at_their_ends() -> None:
    asked = fit([float(i) for i in range(20)], eval_within_epochs=True)
    assert list(map(int, asked)) == [4, 8, 10, 14, 18, 20, 24, 28, 30, 34, 38, 40]
    assert list(map(int, fit([float(i) for i in range(20)]))) == [4, 8, 12, 16, 20, 24, 28, 32, 36, 40]


@pytest.mark.parametrize("folder", [False, True])
def test_training_ends_after_n_scores_without_a_better_one(folder: bool, tmp_path: Path) -> None:
    run = Run(tmp_path if folder else None, seed=0, checkpoint_steps=1)
    scores = [50.0, 60.0, 59.0, 61.0, 60.0, 61.0, 3.0, 99.0]
    asked = fit(scores, run, patience=3)
    assert list(asked.values()) == scores[:7], "an equal score is no better one"
    assert list(map(int, asked))[-1] == 28
    assert len(fit([*scores, 98.0, 97.0], patience=9)) == 10, "or at its own end"


@pytest.mark.parametrize("steps", [1, 9, 10, 11, 19, 20, 23])
def test_a_report_counts_the_rows_of_the_steps_made(steps: int) -> None:
    """Of whole epochs all rows, though their last batch is smaller; of the last epoch those that were read."""
    data, sizes = torch.ones(48, 2), list[int]()

    def collate(rows: np.ndarray) -> tuple[torch.Tensor, ...]:
        sizes.append(len(rows))
        return (data[rows],)

    settings = TrainSettings(**{**BASE, "steps": steps})
    part = nn.Linear(1, 1)
    report = train(Line(), collate, 48, settings, runtime=Runtime(), run=Run(), backbone=part, dev_score=None)
    assert (report.steps, report.sentences) == (steps, sum(sizes[:steps]))


def test_the_log_has_the_last_step_and_no_checkpoint_follows_it(tmp_path: Path) -> None:
    fit([50.0], Run(tmp_path, seed=0, checkpoint_steps=1), steps=23, eval_every=99)
    lines = map(json.loads, (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines())
    assert [line["step"] for line in lines if "loss" in line] == [10, 20, 23]
    with safe_open(tmp_path / "checkpoint.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["facts"])["step"] == 22


def test_a_training_ends_once_its_rate_is_below_the_least() -> None:
    """Halved after each epoch: after two it is the least one, and after three below it."""
    data, settings = torch.ones(48, 2), TrainSettings(**{**BASE, "eval_every": 10})
    more = {"runtime": Runtime(), "run": Run(), "backbone": nn.Linear(1, 1)}
    halved = (lambda accuracies: 0.01 / 2 ** len(accuracies)), 0.0025, (lambda: 50.0)
    report = train_by_accuracy(Line(), lambda rows: (data[rows],), 48, settings, *halved, **more)
    assert report.steps == 30
