"""What stops a training: losses and gradients that are no numbers, memory, float16's overflow."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from test_loop import Regression, collate, fit, stop_after
from torch import nn

from zoo.encoder import Run
from zoo.errors import Interrupted, TrainingError, ZooError


class Exploding(Regression):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = super().forward(x, y)
        return loss * (math.nan if len(self.seen) == 8 else 1.0)


def test_a_nan_loss_stops_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    objective = Exploding()
    order: list[list[int]] = []

    def recorded(rows: Any) -> tuple[torch.Tensor, ...]:
        order.append([int(i) for i in rows])
        return collate(rows)

    with pytest.raises(TrainingError) as caught:
        fit(objective, run=Run(folder=tmp_path, seed=1, checkpoint_steps=2), collating=recorded)
    message = str(caught.value)
    assert "nan at step 7" in message and str(order[7][:4]) in message and "learning rate 2.67e-02" in message
    with safe_open(tmp_path / "checkpoint.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["facts"])["step"] == 6
        assert all(torch.isfinite(file.get_tensor(k).float()).all() for k in file.keys())  # noqa: SIM118
    assert torch.isfinite(objective.linear.weight).all()


class BadGradient(Regression):
    """The loss of the eighth batch is finite, its gradient is not: the derivative of sqrt(0 * w) at 0."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = super().forward(x, y)
        self.calls = getattr(self, "calls", 0) + 1
        return loss + (0 * self.linear.weight.sum()).sqrt() if self.calls == 8 else loss


@pytest.mark.parametrize("limit", [1.0, math.inf])
def test_a_nan_gradient_under_a_finite_loss_changes_no_weight(tmp_path: Path, limit: float) -> None:
    objective, good = BadGradient(), Regression()
    good.load_state_dict(objective.state_dict())
    torch.manual_seed(7)
    with pytest.raises(TrainingError, match=r"gradient's norm is nan at step 7 .* no weight was changed"):
        fit(objective, run=Run(folder=tmp_path, seed=1, checkpoint_steps=1), max_grad_norm=limit)
    assert torch.isfinite(objective.linear.weight).all()
    with safe_open(tmp_path / "checkpoint.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["facts"])["step"] == 7
        assert all(torch.isfinite(file.get_tensor(k).float()).all() for k in file.keys())  # noqa: SIM118
    fit(objective, run=Run(folder=tmp_path, seed=1), max_grad_norm=limit)
    torch.manual_seed(7)
    fit(good, run=Run(seed=1), max_grad_norm=limit)
    assert torch.equal(objective.linear.weight, good.linear.weight), "resumed from there, as if it had not happened"


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_dev_score_that_is_no_number_stops_the_training(score: float) -> None:
    with pytest.raises(TrainingError, match="dev score at step 4"):
        fit(Regression(1.0), score=lambda: score)


class Starved(Regression):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(x))
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_out_of_memory_gives_advice_and_no_smaller_batch() -> None:
    objective = Starved()
    with pytest.raises(ZooError, match=r"batch_size 10.*not made smaller silently.*train_max_length"):
        fit(objective)
    assert objective.seen == [10]


def test_in_float16_steps_that_overflow_are_skipped_counted_and_resumed(tmp_path: Path) -> None:
    """The scale of the loss begins too high for these gradients; a checkpoint keeps it."""
    exact, good, cut = Regression(), Regression(), Regression()
    fit(exact, epochs=20)
    report = fit(good, epochs=20, precision="fp16")
    assert 1 <= report.facts["skipped_steps"] <= 10
    assert good.linear.weight.tolist()[0] == pytest.approx(exact.linear.weight.tolist()[0], abs=0.1)
    with pytest.raises(Interrupted):
        fit(Regression(), run=Run(folder=tmp_path, seed=1, stop_signal=stop_after(2)), epochs=20, precision="fp16")
    resumed = fit(cut, run=Run(folder=tmp_path, seed=1), epochs=20, precision="fp16")
    assert torch.equal(cut.linear.weight, good.linear.weight) and resumed.facts == report.facts


def test_an_evaluation_that_fails_restores_the_mode_too() -> None:
    from zoo.training.checkpoint import undisturbed

    module = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    module[0].eval()
    state = torch.get_rng_state()
    with pytest.raises(KeyError), undisturbed(module):
        module.eval()
        torch.rand(3)
        raise KeyError
    assert [part.training for part in module.modules()] == [True, False, True, True]
    assert torch.equal(torch.get_rng_state(), state)
