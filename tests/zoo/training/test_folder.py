"""Training state in one file comes back exactly; a damaged file costs steps since the one before, never the result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from zoo.encoder import FitReport, Run, Runtime
from zoo.errors import CorruptError, Interrupted, MissingError, ZooError
from zoo.progress import Progress
from zoo.tensors import read_tensors, write_copied, write_tensors
from zoo.training.checkpoint import BEFORE, LAST, LOG, checkpoint_of, restore_checkpoint
from zoo.training.loop import Objective, train
from zoo.training.settings import TrainSettings

X = torch.linspace(-1, 1, 40).reshape(-1, 1) ** torch.arange(1, 4)
Y = X @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3


class Regression(Objective):
    """A line through points, with dropout so that the random state matters."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.dropout = nn.Linear(3, 1), nn.Dropout(0.3)

    def forward(self, x: torch.Tensor, y: torch.Tensor, **_: Any) -> torch.Tensor:
        return (self.linear(self.dropout(x)) - y).square().mean()


def fit(folder: Path | None, *, stop: Callable[[], int | None] = lambda: None, lines: list[str] | None = None) -> Any:
    """12 steps, a checkpoint every 2, a dev score every 3; returns the report and the weights."""
    objective = Regression()
    progress = Progress.silent()
    if lines is not None:
        progress.say = lines.append  # type: ignore[method-assign]
    torch.manual_seed(5)
    scores = {3: 1.0, 6: 3.0, 9: 2.0, 12: 2.5}
    step = iter(range(10**6))

    def dev_score() -> float:
        next(step)
        return scores[training_step(objective)]

    seen: dict[str, int] = {}

    def training_step(_: Objective) -> int:
        return seen["step"]

    def log_values(number: int, values: Any) -> None:
        seen["step"] = number

    report = train(
        objective,
        lambda rows: (X[torch.from_numpy(rows)], Y[torch.from_numpy(rows)]),
        len(X),
        TrainSettings(batch_size=10, learning_rate=0.05, epochs=3, eval_every=3, log_every=1),
        runtime=Runtime(progress=progress),
        run=Run(folder=folder, seed=1, checkpoint_steps=2, stop_signal=stop, log_values=log_values),
        backbone=objective.linear,
        dev_score=dev_score,
    )
    return report, {k: v.clone() for k, v in objective.state_dict().items()}


def stop_after(steps: int) -> Callable[[], int | None]:
    count = iter(range(10**6))
    return lambda: 15 if next(count) == steps else None


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """A training stopped after step 9: checkpoints of steps 9 and 8."""
    with pytest.raises(Interrupted):
        fit(tmp_path, stop=stop_after(9))
    assert {LAST, BEFORE, LOG, "best-6.safetensors"} <= {path.name for path in tmp_path.iterdir()}
    return tmp_path


@pytest.fixture(scope="module")
def uninterrupted() -> Any:
    return fit(None)


def equal(first: Any, second: Any) -> bool:
    (report, weights), (other_report, other_weights) = first, second
    same = all(torch.equal(weights[name], other_weights[name]) for name in weights)
    facts = ("steps", "final_loss", "best_step", "dev_scores", "dev_curves")
    return same and all(getattr(report, name) == getattr(other_report, name) for name in facts)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(bytes(content))


DAMAGES = {"cut": truncate, "flipped": flip, "empty": lambda path: path.write_bytes(b""), "lost": Path.unlink}


@pytest.mark.parametrize("how", ["cut", "flipped", "empty"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(cut: Path, uninterrupted: Any, how: str) -> None:
    DAMAGES[how](cut / LAST)
    lines: list[str] = []
    assert equal(fit(cut, lines=lines), uninterrupted)
    assert (cut / (LAST + ".damaged")).is_file()
    text = "\n".join(lines)
    assert LAST in text and "set aside" in text and "resuming at step 8" in text


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut", "lost"])
def test_with_both_checkpoints_damaged_training_starts_anew(cut: Path, uninterrupted: Any, how: str) -> None:
    DAMAGES[how](cut / LAST)
    DAMAGES[how](cut / BEFORE)
    lines: list[str] = []
    assert equal(fit(cut, lines=lines), uninterrupted)
    assert how == "lost" or any("starts anew" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flipped", "lost"])
def test_damaged_best_weights_are_made_again(cut: Path, uninterrupted: Any, how: str) -> None:
    DAMAGES[how](cut / "best-6.safetensors")
    lines: list[str] = []
    assert equal(fit(cut, lines=lines), uninterrupted)
    assert any("best-6" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"\xff\xfe\n", b'{"step": 1}\n' * 50, None])
def test_a_damaged_log_is_written_anew_from_the_checkpoint(
    cut: Path, uninterrupted: Any, tmp_path_factory: pytest.TempPathFactory, content: bytes | None
) -> None:
    other = tmp_path_factory.mktemp("whole")
    fit(other)
    if content is None:
        (cut / LOG).unlink()
    else:
        (cut / LOG).write_bytes(content)
    assert equal(fit(cut), uninterrupted)
    assert (cut / LOG).read_bytes() == (other / LOG).read_bytes()


def setting(seed: int) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    model[3].bias.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1, fused=True)
    return model, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))


def load_checkpoint(path: Path, *parts: Any) -> dict[str, Any]:
    return restore_checkpoint(path, *read_tensors(path, unsigned=False), *parts)


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, scheduler: Any, count: int) -> list[float]:
    losses = []
    for _ in range(count):
        loss = model(torch.randn(8, 3)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        losses.append(float(loss.detach()))
    return losses


def test_training_goes_on_bit_equal_in_fresh_objects(tmp_path: Path) -> None:
    """Weights, buffers, moments, step counts, schedule and random state: had one been lost, the losses would differ."""
    first = setting(0)
    steps(*first, 3)
    write_copied(tmp_path / "c.safetensors", *checkpoint_of(*first, {"step": 3, "note": "ρ"}))
    wanted = steps(*first, 4)
    second = setting(99)
    assert load_checkpoint(tmp_path / "c.safetensors", *second) == {"step": 3, "note": "ρ"}
    assert steps(*second, 4) == wanted
    assert all(torch.equal(a, b) for a, b in zip(first[0].state_dict().values(), second[0].state_dict().values()))  # noqa: B905


def test_facts_that_are_no_standard_json_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        checkpoint_of(*setting(0), {"loss": float("nan")})


def test_a_file_that_is_no_checkpoint_is_corrupt(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, tmp_path / "c.safetensors")
    with pytest.raises(CorruptError, match="has no sha256"):
        load_checkpoint(tmp_path / "c.safetensors", *setting(0))
    write_tensors(tmp_path / "c.safetensors", {"x": torch.zeros(1)})
    with pytest.raises(CorruptError, match="does not fit this training"):
        load_checkpoint(tmp_path / "c.safetensors", *setting(0))
    with pytest.raises(MissingError):
        load_checkpoint(tmp_path / "absent.safetensors", *setting(0))


class Slope(Objective):
    """Its weight is smaller after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.ones(1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.slope.sum() * rows.mean()


def slope_trained(folder: Path) -> FitReport:
    objective, settings = Slope(), TrainSettings(batch_size=1, learning_rate=1e-2, epochs=1, eval_every=9)
    run = Run(folder=folder, checkpoint_steps=2)
    return train(
        objective,
        lambda rows: (torch.ones(len(rows)),),
        8,
        settings,
        runtime=Runtime(),
        run=run,
        backbone=objective,
        dev_score=None,
    )


def test_steps_go_on_while_a_checkpoint_is_written_and_its_weights_are_of_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[float] = []
    seen = []

    def slow(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
        step = json.loads(metadata["facts"])["step"]
        # The step after it is made meanwhile.
        while len(steps) <= step:
            time.sleep(0.001)
        seen.append((step, float(tensors["model/slope"])))
        write_copied(path, tensors, metadata)

    monkeypatch.setattr("zoo.training.checkpoint.write_copied", slow)
    monkeypatch.setattr(Slope, "after_step", lambda self: steps.append(float(self.slope.detach())))
    assert slope_trained(tmp_path).steps == 8
    assert seen == [(step, pytest.approx(steps[step - 1])) for step in (2, 4, 6)]
    assert read_tensors(tmp_path / LAST, unsigned=False)[0]["model/slope"].item() == pytest.approx(steps[5])


def test_a_checkpoint_that_cannot_be_written_ends_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise ZooError("the disk is full")

    monkeypatch.setattr("zoo.training.checkpoint.write_copied", full)
    with pytest.raises(ZooError, match="the disk is full"):
        slope_trained(tmp_path)
