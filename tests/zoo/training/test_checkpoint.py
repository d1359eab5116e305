"""Training state in one file: everything comes back, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from zoo.errors import CorruptError, MissingError
from zoo.files import read_tensors, write_tensors
from zoo.training.checkpoint import restore_checkpoint, save_checkpoint


def setting(seed: int) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    model[3].bias.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1, fused=True)
    return model, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))


def load_checkpoint(path: Path, *parts: Any) -> dict[str, Any]:
    """Read and restore what `save_checkpoint` wrote."""
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
    save_checkpoint(tmp_path / "c.safetensors", *first, {"step": 3, "note": "ρ"})
    wanted = steps(*first, 4)
    second = setting(99)
    assert load_checkpoint(tmp_path / "c.safetensors", *second) == {"step": 3, "note": "ρ"}
    assert steps(*second, 4) == wanted
    assert all(torch.equal(a, b) for a, b in zip(first[0].state_dict().values(), second[0].state_dict().values()))  # noqa: B905


def test_facts_that_are_no_standard_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        save_checkpoint(tmp_path / "c.safetensors", *setting(0), {"loss": float("nan")})
    assert list(tmp_path.iterdir()) == []


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
