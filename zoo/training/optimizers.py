"""Optimisers and schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from zoo.training.settings import TrainSettings

_NO_DECAY = ("bias", "LayerNorm")


class TransformersAdamW(torch.optim.Optimizer):
    """AdamW of the transformers library until 2022, of SimCSE and its successors.

    Epsilon is added before bias correction: up to 32 times PyTorch's effect in the first steps. Weight decay follows
    the step; bias correction is optional, as in BERT's code.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        correct_bias: bool = True,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "correct_bias": correct_bias}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            alike: dict[object, list[torch.Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state |= {"step": 0, "exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}
                state["step"] += 1
                # On a CPU a weight that stays in the cache is worth more than fewer calls.
                alike.setdefault(weight if weight.device.type == "cpu" else state["step"], []).append(weight)
            for weights in alike.values():
                self._update(weights, group)

    def _update(self, weights: list[torch.Tensor], group: dict[str, Any]) -> None:
        first, second = group["betas"]
        states = [self.state[weight] for weight in weights]
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        means, squares = [state["exp_avg"] for state in states], [state["exp_avg_sq"] for state in states]
        torch._foreach_lerp_(means, gradients, 1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - second)
        rate, step = group["lr"], states[0]["step"]
        if group["correct_bias"]:
            rate *= math.sqrt(1 - second**step) / (1 - first**step)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, group["eps"])
        torch._foreach_addcdiv_(weights, means, roots, value=-rate)
        if group["weight_decay"]:
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])


def make_optimizer(named: Iterable[tuple[str, nn.Parameter]], settings: TrainSettings) -> torch.optim.Optimizer:
    named = list(named)
    parameters = [parameter for _, parameter in named]
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "rmsprop":
        return torch.optim.RMSprop(
            parameters, lr=rate, alpha=settings.rmsprop_smoothing, eps=settings.rmsprop_epsilon, weight_decay=decay
        )
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=rate, weight_decay=decay)
    if settings.optimizer == "transformers-adamw":
        spared = [any(part in name for part in _NO_DECAY) for name, _ in named]
        groups = [
            {"params": [p for p, spare in zip(parameters, spared, strict=True) if spare == wanted], "weight_decay": d}
            for wanted, d in ((False, decay), (True, 0.0))
        ]
        return TransformersAdamW(
            [group for group in groups if group["params"]],
            rate,
            settings.adam_betas,
            settings.adam_epsilon,
            correct_bias=settings.adam_bias_correction,
        )
    return torch.optim.AdamW(
        parameters, lr=rate, betas=settings.adam_betas, eps=settings.adam_epsilon, weight_decay=decay, fused=True
    )


def make_scheduler(
    optimizer: torch.optim.Optimizer, settings: TrainSettings, total_steps: int
) -> torch.optim.lr_scheduler.LRScheduler:
    from transformers import get_constant_schedule_with_warmup, get_linear_schedule_with_warmup

    def stepwise(step: int) -> float:
        rate = next((rate for until, rate in settings.rate_until if step < until), settings.learning_rate)
        return rate / settings.learning_rate

    if settings.rate_until:
        return torch.optim.lr_scheduler.LambdaLR(optimizer, stepwise)
    scheduler: torch.optim.lr_scheduler.LRScheduler
    if settings.schedule == "constant":
        scheduler = get_constant_schedule_with_warmup(optimizer, settings.warmup_steps)
    else:
        scheduler = get_linear_schedule_with_warmup(optimizer, settings.warmup_steps, total_steps)
    return scheduler
