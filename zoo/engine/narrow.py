"""The weights of linear maps in bfloat16, made together for a whole pass.

Autocast casts weight by weight, does not remember weights that are joined, and casts the gradients back one by one: a
quarter of the kernels of a training step. The numbers are autocast's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.autograd.function import FunctionCtx
from torch.nn.modules.module import register_module_forward_pre_hook

from zoo.engine.linear import Maps, joined_by


class Saved(FunctionCtx):
    """What `forward` stores for `backward`; each function sets the attributes that it needs."""

    saved_tensors: tuple[torch.Tensor, ...]
    rows: int
    sizes: list[list[int]]
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]


class NarrowWeights:
    """Casts the maps, alone or joined, that the first step used under autocast."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.maps: dict[Maps, None] = {}
        self.known = False
        self._made: dict[Maps, dict[str, torch.Tensor]] = {}

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Give the maps their narrow weights inside the block, or note the maps."""
        hook = None if self.known else register_module_forward_pre_hook(lambda module, _: self._note((module,)))
        self._made = self._cast() if self.known else {}
        alone = [(maps[0], weights) for maps, weights in self._made.items() if len(maps) == 1]
        for module, weights in alone:
            # Attributes are looked up before parameters.
            vars(module).update(weights)
        try:
            with joined_by(self._joined):
                yield
        finally:
            for module, weights in alone:
                for name in weights:
                    del vars(module)[name]
            self._made = {}
            if hook is not None:
                hook.remove()

    def _note(self, maps: tuple[Any, ...]) -> None:
        if torch.is_autocast_enabled(self.device.type) and all(type(m) is nn.Linear for m in maps):
            self.maps[maps] = None

    def _joined(self, maps: Maps) -> tuple[torch.Tensor, torch.Tensor | None] | None:
        if not self.known:
            self._note(maps)
        weights = self._made.get(maps)
        return None if weights is None else (weights["weight"], weights.get("bias"))

    def _cast(self) -> dict[Maps, dict[str, torch.Tensor]]:
        weights: dict[Maps, dict[str, torch.Tensor]] = {maps: {} for maps in self.maps}
        parts = [
            (maps, name, weights)
            for maps in self.maps
            for name, weights in (("weight", [m.weight for m in maps]), ("bias", [m.bias for m in maps]))
            if all(weight is not None for weight in weights)
        ]
        for trained in (True, False):
            some = [part for part in parts if any(weight.requires_grad for weight in part[2]) == trained]
            sizes = [[len(weight) for weight in weights] for *_, weights in some]
            narrow = _Cast.apply(sizes, *(weight for *_, weights in some for weight in weights)) if some else ()  # type: ignore[no-untyped-call]
            for (maps, name, _), weight in zip(some, narrow, strict=True):
                weights[maps][name] = weight
        return weights


class _Cast(torch.autograd.Function):
    """Weights -> narrow ones, joined in groups; one kernel for all of them, and one for all their gradients."""

    @staticmethod
    def forward(ctx: Saved, sizes: list[list[int]], *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.sizes = sizes
        ctx.set_materialize_grads(False)
        rest, joined = iter(weights), []
        for group in sizes:
            first = next(rest)
            dtype = torch.get_autocast_dtype(first.device.type)
            joined.append(first.new_empty((sum(group), *first.shape[1:]), dtype=dtype))
            for _ in group[1:]:
                next(rest)
        pieces = [piece for joint, group in zip(joined, sizes, strict=True) for piece in torch.split(joint, group)]
        torch._foreach_copy_(pieces, weights)
        return tuple(joined)

    @staticmethod
    def backward(ctx: Saved, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        there = [gradient for gradient in gradients if gradient is not None]
        wide = [torch.empty_like(gradient, dtype=torch.float32) for gradient in there]
        if wide:
            torch._foreach_copy_(wide, there)
        done = iter(wide)
        pieces: list[torch.Tensor | None] = []
        for gradient, group in zip(gradients, ctx.sizes, strict=True):
            pieces.extend([None] * len(group) if gradient is None else torch.split(next(done), group))
        return None, *pieces
