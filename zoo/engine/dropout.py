"""Dropout rates of a model, and faster masks on a CPU, where they take a sixth of a small step."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

# Four elements of a mask come from one draw of 64 bits.
_BITS = 16
# The cache keeps so many sizes of packed batches of one shape.
_SIZES = 16


def packed_size(tokens: int, places: int) -> int:
    """Packed places: a batch's tokens, padded to a few sizes so that memory fits again."""
    return min(tokens + -tokens % max(places // _SIZES, 1), places)


def dropout(x: torch.Tensor, rate: float) -> torch.Tensor:
    """Set elements to 0 with probability `rate` (rounded to 1/65,536); divide the others by 1 - rate."""
    dropped = round(rate * 2**_BITS)
    if x.device.type != "cpu" or not 0 < dropped < 2**_BITS:
        return F.dropout(x, rate)
    result: torch.Tensor = x * _kept(x.shape, dropped).to(x.dtype).mul_(1 / (1 - dropped / 2**_BITS))
    return result


def _kept(shape: torch.Size, dropped: int) -> torch.Tensor:
    draws = torch.empty((shape.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    mask: torch.Tensor = draws.view(torch.int16)[: shape.numel()].view(shape) >= dropped - 2 ** (_BITS - 1)
    return mask


class Dropout(nn.Dropout):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return dropout(input, self.p) if self.training else input


def cheapen_dropout(model: nn.Module) -> None:
    for module in model.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                cheap = Dropout(child.p)
                setattr(module, name, cheap.train(child.training))


# Rates of modules that draw by themselves, without a layer for it (LLaMA, OPT).
_RATES = ("attention_dropout", "dropout")


def set_dropout(model: nn.Module, rate: float | None) -> None:
    """Set the rate of all dropout layers, or of modules if there are none; None changes nothing."""
    if rate is None:
        return
    layers = [module for module in model.modules() if isinstance(module, nn.Dropout)]
    for layer in layers:
        layer.p = rate
    for module in () if layers else model.modules():
        for name in _RATES:
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, rate)


def has_dropout(model: nn.Module) -> bool:
    layers = [module.p for module in model.modules() if isinstance(module, nn.Dropout)]
    others = (getattr(module, name, None) for module in model.modules() for name in _RATES)
    return any(rate > 0 for rate in (*layers, *(rate for rate in others if isinstance(rate, float))))
