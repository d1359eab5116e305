"""The momentum encoder and the queue of past keys (He et al. 2020; PT-BERT Eq. 5)."""

from __future__ import annotations

import torch
from torch import nn


@torch.no_grad()
def momentum_update(key: nn.Module, query: nn.Module, momentum: float) -> None:
    """theta_k <- momentum * theta_k + (1 - momentum) * theta_q, over all parameters."""
    pairs = list(zip(key.parameters(), query.parameters(), strict=True))
    torch._foreach_lerp_([k for k, _ in pairs], [q.to(k.dtype) for k, q in pairs], 1.0 - momentum)


def freeze(module: nn.Module) -> nn.Module:
    """Turn off gradients of the module's parameters and return it; its train/eval mode does not change."""
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    return module


class Queue(nn.Module):
    """The newest `size` keys, newest batch first; it starts empty, not with random keys, and fills with the batches."""

    keys: torch.Tensor
    filled: torch.Tensor

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(size, dim))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))
        self.count: int | None = 0  # `filled` on the host; None until it is read after a checkpoint
        self.register_load_state_dict_post_hook(_forget_count)  # type: ignore[no-untyped-call]

    def held(self) -> torch.Tensor:
        """Return the keys in the queue (<= size, dim), newest batch first."""
        if self.count is None:
            self.count = int(self.filled)
        return self.keys[: self.count]

    @torch.no_grad()
    def push(self, keys: torch.Tensor) -> torch.Tensor:
        """Add a batch (n, dim) in front, drop the oldest keys, and return all keys (<= size, dim), this batch first."""
        held = torch.cat([keys.detach().float(), self.held()])[: len(self.keys)]
        self.count = len(held)
        self.filled.fill_(self.count)
        self.keys[: len(held)] = held
        return held


def _forget_count(queue: nn.Module, _: object) -> None:
    queue.count = None  # type: ignore[assignment]
