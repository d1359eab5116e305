"""The vocabulary loss against torch's own, value and gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from zoo.training.losses import linear_cross_entropy


def setting(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    states = torch.randn(40, 16, dtype=dtype, requires_grad=True)
    weight = torch.randn(300, 16, dtype=dtype, requires_grad=True)
    bias = torch.randn(300, dtype=dtype, requires_grad=True)
    truth = torch.randint(300, (40,))
    truth[::7] = -100
    return states, weight, bias, truth


@pytest.mark.parametrize("offset", [0.0, 500.0, -500.0])
def test_value_and_gradients_are_torchs(offset: float) -> None:
    states, weight, bias, truth = setting(torch.float64)
    inputs = (states, weight, bias)
    ours = linear_cross_entropy(states, weight, bias + offset, truth)
    wanted = F.cross_entropy(F.linear(states, weight, bias), truth)
    assert ours.item() == pytest.approx(wanted.item(), abs=1e-5)
    for a, b in zip(torch.autograd.grad(3 * ours, inputs), torch.autograd.grad(3 * wanted, inputs), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_a_hopeless_token_costs_its_distance_not_infinity() -> None:
    states, weight = torch.ones(1, 1), torch.tensor([[200.0], [-200.0]])
    loss = linear_cross_entropy(states, weight, torch.zeros(2), torch.tensor([1]))
    assert float(loss) == pytest.approx(400.0)


def test_nothing_to_count_is_zero_with_zero_gradients() -> None:
    states, weight, bias, _ = setting()
    loss = linear_cross_entropy(states, weight, bias, torch.full((40,), -100))
    assert loss.item() == 0.0
    assert all(not grad.any() for grad in torch.autograd.grad(loss, (states, weight, bias)))


def test_under_autocast_it_stays_near_float32() -> None:
    states, weight, bias, truth = setting()
    exact = linear_cross_entropy(states, weight, bias, truth)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = linear_cross_entropy(states, weight, bias, truth)
    assert rough.item() == pytest.approx(exact.item(), rel=0.01)
    for a, b in zip(
        torch.autograd.grad(rough, (states, weight, bias)),
        torch.autograd.grad(exact, (states, weight, bias)),
        strict=True,
    ):
        assert a.dtype == torch.float32
        assert F.cosine_similarity(a.flatten(), b.flatten(), dim=0) > 0.999
