"""Projection heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

Head = TypeVar("Head", bound=nn.Module)


def untrained(make: Callable[[], Head]) -> Head:
    """Return a new head in eval mode with fixed weights, for an encoder before `fit`, which draws new ones."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().eval()


class TanhHead(nn.Module):
    """SimCSE's MLP: Linear(dim, dim) and tanh, weights N(0, 0.02^2), bias 0; unsupervised SimCSE removes it at test."""

    def __init__(self, dim: int, initializer_range: float = 0.02) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        nn.init.normal_(self.dense.weight, std=initializer_range)
        nn.init.zeros_(self.dense.bias)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """(n, dim) -> (n, dim)."""
        output: torch.Tensor = torch.tanh(self.dense(vectors))
        return output
