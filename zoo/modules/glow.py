"""Glow for vectors (Dinh et al. 2015; Kingma and Dhariwal 2018), as in BERT-flow: an invertible map to N(0, I).

A step is actnorm, a fixed permutation of the channels and an additive coupling; `depth` steps are a level. After each
level but the last, the second half of the channels is final (its prior is N(0, 1)); the next level maps the first half.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from zoo.errors import UsageError

# The log-scale is this * parameter, which makes it learn that much faster (tensor2tensor).
LOG_SCALE_FACTOR = 3.0

Mixing = Literal["permutation", "reversal"]


class ActNorm(nn.Module):
    """y = (x + bias) exp(3 logs), a bias and a scale for each channel (Glow, section 3.1)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim))
        self.logs = nn.Parameter(torch.zeros(dim))
        self.starting = False

    @property
    def log_scale(self) -> torch.Tensor:
        return LOG_SCALE_FACTOR * self.logs

    def start(self, x: torch.Tensor) -> None:
        """Set bias and scale for zero mean and unit variance on this batch (n, dim).

        A constant channel keeps its scale; tensor2tensor multiplies it by a million per step, and overflows.
        """
        self.starting = False
        mean = x.mean(0)
        deviation = (x - mean).square().mean(0).sqrt()
        varies = deviation > 1e-6 * (1 + mean.abs())
        self.bias.copy_(-mean)
        self.logs.copy_(-torch.where(varies, deviation, 1.0).log() / LOG_SCALE_FACTOR)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.starting:
            self.start(x)
        return (x + self.bias) * self.log_scale.exp()

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        return y * (-self.log_scale).exp() - self.bias


class CouplingNet(nn.Module):
    """g of the coupling: three linear layers, actnorm and ReLU after the first two; g = 0 at initialisation.

    BERT-flow's table 7 says "3-layer CNN with residual connection"; on a vector a convolution is a linear layer. The
    place of the residual is open: here around the middle layer, of equal input and output width.
    """

    def __init__(self, inputs: int, outputs: int, width: int, residual: bool) -> None:
        super().__init__()
        self.residual = residual
        self.first = nn.Linear(inputs, width, bias=False)
        self.first_norm = ActNorm(width)
        self.middle = nn.Linear(width, width, bias=False)
        self.middle_norm = ActNorm(width)
        self.last = nn.Linear(width, outputs)
        self.logs = nn.Parameter(torch.zeros(outputs))
        nn.init.normal_(self.first.weight, std=0.05)
        nn.init.normal_(self.middle.weight, std=0.05)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.first_norm(self.first(x)))
        deeper = functional.relu(self.middle_norm(self.middle(hidden)))
        if self.residual:
            deeper = deeper + hidden
        shift: torch.Tensor = self.last(deeper) * (LOG_SCALE_FACTOR * self.logs).exp()
        return shift


class FlowStep(nn.Module):
    """Actnorm, permutation, and the coupling y1 = x1, y2 = x2 + g(x1) (BERT-flow, Eq. 5 and 6)."""

    order: torch.Tensor

    def __init__(self, dim: int, width: int, mixing: Mixing, residual: bool) -> None:
        super().__init__()
        self.dim, self.passed = dim, dim // 2
        self.actnorm = ActNorm(dim)
        self.register_buffer("order", torch.randperm(dim) if mixing == "permutation" else torch.arange(dim).flip(0))
        self.net = CouplingNet(self.passed, dim - self.passed, width, residual)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.actnorm(x)[:, self.order]
        x1, x2 = x[:, : self.passed], x[:, self.passed :]
        return torch.cat([x1, x2 + self.net(x1)], 1)

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        """Undo `forward` (BERT-flow, Eq. 7 and 8)."""
        y1, y2 = y[:, : self.passed], y[:, self.passed :]
        x = torch.cat([y1, y2 - self.net(y1)], 1)
        return self.actnorm.inverse(x[:, torch.argsort(self.order)])


class Glow(nn.Module):
    """z = f(u), invertible; weights and permutations are random by torch's generator. Defaults: BERT-flow's table 7.

    Raises UsageError for fewer than 2**levels dimensions.

    Examples:
        >>> flow = Glow(dim=8)
        >>> u = torch.randn(5, 8)
        >>> z, log_det = flow(u)
        >>> z.shape, log_det.shape, torch.allclose(flow.inverse(z), u, atol=1e-5)
        (torch.Size([5, 8]), torch.Size([5]), True)
    """

    def __init__(
        self,
        dim: int,
        *,
        levels: int = 2,
        depth: int = 3,
        width: int = 32,
        mixing: Mixing = "permutation",
        residual: bool = True,
    ) -> None:
        super().__init__()
        if dim < 2**levels:
            raise UsageError(f"a flow of {levels} levels needs vectors of at least {2**levels} dimensions, not {dim}.")
        self.dim = dim
        self.chain = nn.ModuleList(
            FlowStep(dim >> level, width, mixing, residual) for level in range(levels) for _ in range(depth)
        )

    @property
    def steps(self) -> list[FlowStep]:
        return [step for step in self.chain if isinstance(step, FlowStep)]

    def forward(self, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        log_det = u.new_zeros(())
        for step in self.steps:
            u = torch.cat([step(u[:, : step.dim]), u[:, step.dim :]], 1)
            # Permutation and coupling keep the volume.
            log_det = log_det + step.actnorm.log_scale.sum()
        return u, log_det.expand(len(u))

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        for step in reversed(self.steps):
            z = torch.cat([step.inverse(z[:, : step.dim]), z[:, step.dim :]], 1)
        return z

    def log_prob(self, u: torch.Tensor) -> torch.Tensor:
        """log p(u) = log N(f(u); 0, I) + log|det df/du| in nats (n,) (BERT-flow, Eq. 4)."""
        z, log_det = self(u)
        log_prob: torch.Tensor = log_det - (z.square() + math.log(2 * math.pi)).sum(1) / 2
        return log_prob

    @torch.no_grad()
    def initialise(self, u: torch.Tensor) -> None:
        """Data-dependent start: every actnorm, the coupling nets' too, gives this batch zero mean and unit variance."""
        for module in self.modules():
            if isinstance(module, ActNorm):
                module.starting = True
        self(u)
