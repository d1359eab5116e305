"""Small ports of released training codes, written from reading them, whose losses ours are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

NO_DECAY = ("bias", "LayerNorm.bias", "LayerNorm.weight")


class HuggingFaceAdamW:
    """AdamW of transformers before version 4.3 or so: epsilon on the uncorrected root, decay after the step."""

    def __init__(
        self, named: Sequence[tuple[str, nn.Parameter]], *, epsilon: float, correct_bias: bool, decay: float = 0.0
    ) -> None:
        self.named = list(named)
        self.epsilon, self.correct_bias, self.decay = epsilon, correct_bias, decay
        self.moments = {id(p): [torch.zeros_like(p), torch.zeros_like(p), 0] for _, p in self.named}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Clip the gradients' norm to 1, move the weights, forget the gradients."""
        gradients = [p.grad for _, p in self.named if p.grad is not None]
        norm = torch.sqrt(sum((g * g).sum() for g in gradients))
        factor = min(1.0, 1.0 / (float(norm) + 1e-6))
        for name, p in self.named:
            if p.grad is None:
                continue
            moments = self.moments[id(p)]
            gradient = p.grad * factor
            moments[0] = 0.9 * moments[0] + 0.1 * gradient
            moments[1] = 0.999 * moments[1] + 0.001 * gradient * gradient
            moments[2] += 1
            size = rate
            if self.correct_bias:
                size *= math.sqrt(1 - 0.999 ** moments[2]) / (1 - 0.9 ** moments[2])
            p -= size * moments[0] / (moments[1].sqrt() + self.epsilon)
            if not any(part in name for part in NO_DECAY):
                p -= rate * self.decay * p
            p.grad = None


def linear_rate(step: int, peak: float, warmup: int, total: int) -> float:
    """Learning rate of a step: up over the warm-up, then down to 0 at the last."""
    return peak * (step / warmup if step < warmup else (total - step) / max(total - warmup, 1))
