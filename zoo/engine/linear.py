"""Linear maps in one product, optionally with GELU; weights at rest are cast and packed for the CPU's kernels once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Maps = tuple[nn.Linear, ...]
Joint = tuple[torch.Tensor, torch.Tensor | None]
_packed: ContextVar[dict[tuple[Any, ...], Joint] | None] = ContextVar("packed", default=None)
_joined: ContextVar[Callable[[Maps], Joint | None]] = ContextVar("joined", default=lambda maps: None)


@contextmanager
def resting_weights() -> Iterator[None]:
    """Let `linear` pack weights inside the block, where the caller must not change any; elsewhere none is packed."""
    token = _packed.set({})
    try:
        yield
    finally:
        _packed.reset(token)


@contextmanager
def joined_by(join: Callable[[Maps], Joint | None]) -> Iterator[None]:
    """Let `linear` ask for joined weights inside the block before it joins any."""
    token = _joined.set(join)
    try:
        yield
    finally:
        _joined.reset(token)


def product_dtype(x: torch.Tensor) -> torch.dtype:
    """Return the type in which products with x are made: autocast's, or its own."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def linear(maps: Sequence[nn.Linear], x: torch.Tensor, *, gelu: bool = False) -> torch.Tensor:
    """Apply all maps to x (..., in) in one product -> (..., sum of outs), with `gelu` then GELU; x is cast once."""
    packed = _packed.get()
    device, dtype = x.device.type, product_dtype(x)
    if packed is None or not _can_keep(maps, x, dtype):
        y: torch.Tensor = maps[0](x) if len(maps) == 1 else F.linear(x, *(_joined.get()(tuple(maps)) or _joint(maps)))
        return F.gelu(y) if gelu else y
    key = (dtype, *map(id, maps))
    if key not in packed:
        weight, bias = _joint(maps)
        weight, bias = weight.detach().to(dtype), None if bias is None else bias.detach().to(dtype)
        packed[key] = torch.ops.mkldnn._reorder_linear_weight(weight, None) if device == "cpu" else weight, bias
    weight, bias = packed[key]
    if device != "cpu":
        y = F.linear(x, weight, bias)
        return F.gelu(y) if gelu else y
    activation, algorithm = ("gelu", "none") if gelu else ("none", "")
    with torch.autocast("cpu", enabled=False):
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x.to(dtype), weight, bias, activation, [], algorithm)
    return result


def _can_keep(maps: Sequence[nn.Linear], x: torch.Tensor, dtype: torch.dtype) -> bool:
    """Return whether weights can be kept: outside autograd, for nn.Linear layers without hooks; on a CPU by oneDNN."""
    if torch.is_grad_enabled() or any(
        type(m) is not nn.Linear or m._forward_hooks or m._forward_pre_hooks for m in maps
    ):
        return False
    return x.device.type != "cpu" or (
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and (dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


def _joint(maps: Sequence[nn.Linear]) -> Joint:
    weight = torch.cat([m.weight for m in maps]) if len(maps) > 1 else maps[0].weight
    if all(m.bias is None for m in maps):
        return weight, None
    biases: list[torch.Tensor] = [m.weight.new_zeros(m.out_features) if m.bias is None else m.bias for m in maps]
    return weight, torch.cat(biases) if len(maps) > 1 else biases[0]
