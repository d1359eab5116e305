"""GCSE: the decay by hand, and what it leaves of hard negatives; test_releases has ten steps beside the release."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from test_dropoutviews import encoder_of

from zoo.methods.gcse import GCSERecipe, gaussian_decay

GOLDEN = {"gcse": {"version": 2, "values": [-1.0, 0.5279, -0.3985, 0.0298, 0.5279, -0.1727, 0.1509, 1.0]}}


def test_the_decay_by_hand() -> None:
    logits, frozen = torch.tensor([10.0, 10.0, 10.0, 12.0]), torch.tensor([10.0, 10.17, 14.0, 10.0])
    wanted = [-10.0, -10.0 * math.exp(-0.5), 0.0, 0.0]
    torch.testing.assert_close(gaussian_decay(logits, frozen, 0.17), torch.tensor(wanted), rtol=0, atol=1e-4)
    assert not gaussian_decay(logits.requires_grad_(), frozen, 0.17).requires_grad


def test_a_negative_as_near_as_before_pushes_less(tiny_bert: Path) -> None:
    """The gradient of an own hard negative that was as near before, and of one that was far."""
    objective = encoder_of("gcse", tiny_bert).objective()
    torch.manual_seed(0)
    h = torch.eye(3, 8)
    h_plus, h_minus = h + 0.1 * torch.randn(3, 8), (h + 0.1 * torch.randn(3, 8)).requires_grad_()
    now = objective.logits(h, h_minus).detach()
    sizes = []
    for before in (now + 0.01, now - 5):
        (gradient,) = torch.autograd.grad(objective.contrast(h, h_plus, h_minus, before), h_minus)
        sizes.append(float(gradient.norm()))
    assert 0 < sizes[0] < 0.1 * sizes[1]


@pytest.mark.parametrize("setting", [{"sigma": 0.0}, {"supervised": False}, {"mlm_weight": 0.1}])
def test_settings_that_mean_nothing_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        dataclasses.replace(GCSERecipe(), **setting)
