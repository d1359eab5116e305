"""Small ports of released training codes, written from reading them, whose losses ours are compared with."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
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


def consert_pair_loss(first: torch.Tensor, second: torch.Tensor, temperature: float) -> torch.Tensor:
    """`_contrastive_loss_forward` of ConSERT: the cross-entropies of both directions, added."""
    first, second = F.normalize(first, dim=-1), F.normalize(second, dim=-1)
    n = len(first)
    diagonal = torch.eye(n) * 1e9
    labels = torch.arange(n)
    there = torch.cat([first @ second.T / temperature, first @ first.T / temperature - diagonal], dim=1)
    back = torch.cat([second @ first.T / temperature, second @ second.T / temperature - diagonal], dim=1)
    return F.cross_entropy(there, labels) + F.cross_entropy(back, labels)


def consert_mean(bert: Any, ids: torch.Tensor, mask: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
    """Mean of the last layer over the mask; `keep` multiplies the embedding layer's output."""

    def cut(module: Any, given: Any, output: torch.Tensor) -> torch.Tensor:
        return output if keep is None else output * keep

    hook = bert.embeddings.register_forward_hook(cut)
    states = bert(input_ids=ids, attention_mask=mask).last_hidden_state
    hook.remove()
    expanded = mask.unsqueeze(-1).expand(states.size()).float()
    return (states * expanded).sum(1) / expanded.sum(1).clamp(min=1e-9)


def consert_losses(
    bert: Any,
    classifier: nn.Linear,
    batches: Sequence[tuple[torch.Tensor, ...]],
    keeps: Sequence[torch.Tensor],
    *,
    rate: float,
    warmup: int,
    total: int,
) -> list[float]:
    """ConSERT's `fit` on its AdvCLSoftmaxLoss: sup-consert-joint-base.

    The draws of the views, what is kept of embeddings, come from outside in their order.
    """
    bert, classifier = copy.deepcopy((bert, classifier))
    named = [(f"model.{name}", p) for name, p in bert.named_parameters()]
    named += [(f"classifier.{name}", p) for name, p in classifier.named_parameters()]
    optimizer = HuggingFaceAdamW(named, epsilon=1e-6, correct_bias=False, decay=0.01)
    losses = []
    cuts = iter(keeps)
    for step, batch in enumerate(batches):
        bert.train()
        sides = batch[0:2], batch[2:4]
        u, v = (consert_mean(bert, *side, None) for side in sides)
        cut_u, cut_v = (consert_mean(bert, *side, next(cuts)) for side in sides)
        features = torch.cat([u, v, torch.abs(u - v), torch.max(u, v).pow(2)], 1)
        loss = F.cross_entropy(classifier(features), batch[4])
        loss = loss + 0.15 * (consert_pair_loss(u, cut_u, 0.1) + consert_pair_loss(v, cut_v, 0.1))
        losses.append(float(loss.detach()))
        loss.backward()
        optimizer.step(linear_rate(step, rate, warmup, total))
    return losses
