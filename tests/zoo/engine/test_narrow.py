"""Weights that are cast together give what autocast gives, to the bit: sums of gradients of two uses among it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from zoo.engine.linear import linear
from zoo.engine.narrow import NarrowWeights


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.unbiased = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8, bias=False)
        self.frozen, self.unused = nn.Linear(8, 8).requires_grad_(False), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = linear([self.first, self.second], x).chunk(2, 1)
        c = self.unbiased(self.first(a) * self.first(b))  # joined once, and alone twice
        with torch.autocast("cpu", enabled=False):
            loss: torch.Tensor = (self.frozen(c.float()) ** 2).sum()
        return loss


@pytest.mark.parametrize("steps", [1, 3])
def test_losses_and_gradients_are_those_of_autocast(steps: int) -> None:
    results = []
    for together in (False, True):
        net, narrow = Net(), NarrowWeights(torch.device("cpu"))
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16), narrow() if together else nullcontext():
                loss = net(torch.linspace(-1, 1, 32).view(4, 8))
            loss.backward()
            narrow.known = True
            optimizer.step()
        assert net.first.weight.dtype == torch.float32 and net.unused.weight.grad is None
        results.append([loss, *(p.grad for p in net.parameters() if p.grad is not None)])
        if together:
            assert set(narrow.maps) == {(net.first, net.second), (net.first,), (net.unbiased,)}
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert len(results[0]) == 6
