"""Linear maps whose weights are packed once into the layout of the CPU kernels, optionally with GELU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Packed = dict[tuple[Any, ...], tuple[torch.Tensor, torch.Tensor | None]]
_packed: ContextVar[Packed | None] = ContextVar("packed", default=None)


@contextmanager
def resting_weights() -> Iterator[None]:
    """Let `linear` pack weights inside the block, where the caller must not change any; elsewhere none is packed."""
    token = _packed.set({})
    try:
        yield
    finally:
        _packed.reset(token)


def linear(maps: Sequence[nn.Linear], x: torch.Tensor, *, gelu: bool = False) -> torch.Tensor:
    """Apply all maps to x (..., in) in one product -> (..., sum of outs), then GELU if asked; x is cast only once."""
    packed = _packed.get()
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
    if packed is None or not _can_pack(maps, x, dtype):
        y: torch.Tensor = maps[0](x) if len(maps) == 1 else F.linear(x, *_joint(maps))
        return F.gelu(y) if gelu else y
    key = (dtype, *map(id, maps))
    if key not in packed:
        weight, bias = (None if part is None else part.detach().to(dtype) for part in _joint(maps))
        packed[key] = torch.ops.mkldnn._reorder_linear_weight(weight, None), bias
    weight, bias = packed[key]
    activation, algorithm = ("gelu", "none") if gelu else ("none", "")
    with torch.autocast("cpu", enabled=False):
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x.to(dtype), weight, bias, activation, [], algorithm)
    return result


def _can_pack(maps: Sequence[nn.Linear], x: torch.Tensor, dtype: torch.dtype) -> bool:
    """Return whether packing works: on a CPU with oneDNN, outside autograd, for nn.Linear layers without hooks."""
    return (
        x.device.type == "cpu"
        and not torch.is_grad_enabled()
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and (dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported())  # older processors lack it
        and all(type(m) is nn.Linear and not m._forward_hooks and not m._forward_pre_hooks for m in maps)
    )


def _joint(maps: Sequence[nn.Linear]) -> tuple[torch.Tensor, torch.Tensor | None]:
    weight = torch.cat([m.weight for m in maps]) if len(maps) > 1 else maps[0].weight
    if all(m.bias is None for m in maps):
        return weight, None
    biases: list[torch.Tensor] = [m.weight.new_zeros(m.out_features) if m.bias is None else m.bias for m in maps]
    return weight, torch.cat(biases) if len(maps) > 1 else biases[0]
