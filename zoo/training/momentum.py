"""Momentum encoder and queue (He et al. 2020; PT-BERT Eq. 5)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from zoo.engine.backbone import without_pooler
from zoo.engine.dropout import set_dropout
from zoo.training.loop import Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@torch.no_grad()
def momentum_update(key: nn.Module, query: nn.Module, momentum: float) -> None:
    """theta_k <- momentum * theta_k + (1 - momentum) * theta_q, over all parameters."""
    pairs = list(zip(key.parameters(), query.parameters(), strict=True))
    torch._foreach_lerp_([k for k, _ in pairs], [q.to(k.dtype) for k, q in pairs], 1.0 - momentum)


def freeze(module: nn.Module) -> nn.Module:
    """Turn off gradients; the train/eval mode stays."""
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    return module


class Queue(nn.Module):
    """The newest `size` keys (<= size, dim), newest batch first; empty at first, not random."""

    keys: torch.Tensor
    filled: torch.Tensor

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(size, dim))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))
        # `filled` on the host. None until it is read after a checkpoint.
        self.count: int | None = 0
        self.register_load_state_dict_post_hook(_forget_count)  # type: ignore[no-untyped-call]

    def held(self) -> torch.Tensor:
        if self.count is None:
            self.count = int(self.filled)
        return self.keys[: self.count]

    @torch.no_grad()
    def push(self, keys: torch.Tensor) -> torch.Tensor:
        """Add a batch (n, dim) in front, drop the oldest keys, return all."""
        held = torch.cat([keys.detach().float(), self.held()])[: len(self.keys)]
        self.count = len(held)
        self.filled.fill_(self.count)
        self.keys[: len(held)] = held
        return held


def _forget_count(queue: nn.Module, _: object) -> None:
    queue.count = None  # type: ignore[assignment]


def check_momentum(recipe: Any, *, holds_batch: bool = True) -> None:
    if holds_batch and recipe.queue_size < recipe.batch_size:
        raise ValueError(f"queue_size {recipe.queue_size} must hold a batch of {recipe.batch_size}")
    if not 0 <= recipe.momentum <= 1:
        raise ValueError(f"momentum must be between 0 and 1, not {recipe.momentum}")


class MomentumObjective(Objective):
    """Query branch, key branch by momentum, and queue; `key_start: random` leaves the keys' `model` unpretrained."""

    def __init__(self, branch: nn.Module, recipe: Any) -> None:
        super().__init__()
        self.recipe, self.query_branch, self.key_branch = recipe, branch, copy.deepcopy(branch)
        model: PreTrainedModel = branch.model  # type: ignore[assignment]
        if recipe.key_start == "random":
            self.key_branch.model = type(model)(model.config, **without_pooler(type(model)))
            set_dropout(self.key_branch.model, recipe.dropout)
        freeze(self.key_branch)
        self.queue = Queue(recipe.queue_size, model.config.hidden_size)

    def is_steady(self) -> bool:
        return self.queue.count == len(self.queue.keys)

    def after_step(self) -> None:
        """theta_k <- lambda theta_k + (1 - lambda) theta_q (PT-BERT Eq. 5)."""
        momentum_update(self.key_branch, self.query_branch, self.recipe.momentum)
