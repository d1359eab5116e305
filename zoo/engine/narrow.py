"""Linear maps in one product, optionally with GELU, cast and packed once; all in bfloat16 for a full pass.

Autocast casts weight by weight, forgets joined weights and casts gradients back singly: a quarter of the kernels of a
training step. The numbers are autocast's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn
from torch.autograd.function import FunctionCtx
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from zoo.encoding import weights_move, weights_written
from zoo.machine import bf16_in_float32, encodes_in_float32

Maps = tuple[nn.Linear, ...]
Joint = tuple[torch.Tensor, torch.Tensor | None]
# Rows of one product; a whole number of them is computed.
_BLOCK = 16


class Packs:
    """Weights cast to the precision of products, on a CPU in oneDNN's order, with the state that they were taken in."""

    def __init__(self) -> None:
        self._packs: WeakKeyDictionary[nn.Linear, dict[tuple[Any, ...], tuple[list[_Seen], Joint]]] = (
            WeakKeyDictionary()
        )
        self._writes = weights_written()

    def of(self, maps: Sequence[nn.Linear], dtype: torch.dtype) -> Joint:
        if self._writes != weights_written():
            self.__init__()  # type: ignore[misc]
        known = self._packs.setdefault(maps[0], {})
        key = (dtype, maps[0].weight.device, *map(id, maps[1:]))
        weights = [w for m in maps for w in (m.weight, m.bias) if w is not None]
        if key not in known or not all(map(_Seen.still, known[key][0], weights)):
            weight, bias = _cast(maps, dtype)
            if weight.device.type == "cpu":
                weight = torch.ops.mkldnn._reorder_linear_weight(weight, None)
            known[key] = [*map(_Seen, weights)], (weight, bias)
        return known[key][1]


class _Seen:
    """A weight as it was: what a write changes, and some values for one through `.data`, which torch does not count."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.place, self.version = weight.data_ptr(), weight._version
        some = weight.detach().view(-1)[:: weight.numel() // 8 + 1] if weight.is_contiguous() else None
        shared = some is not None and some.device.type == "cpu" and some.dtype == torch.float32
        self.read: Callable[[], bytes] = some.numpy().tobytes if some is not None and shared else bytes
        self.values = self.read()

    def still(self, weight: torch.Tensor) -> bool:
        same = self.place == weight.data_ptr() and self.version == weight._version
        return same and self.read() == self.values


_packed: ContextVar[Packs | None] = ContextVar("packed", default=None)
_joined: ContextVar[Callable[[Maps], Joint | None]] = ContextVar("joined", default=lambda maps: None)
_KEPT = Packs()


@contextmanager
def resting_weights(*, keep: bool = False) -> Iterator[None]:
    """Let `linear` pack weights inside the block; the caller must not change any.

    With `keep` the packs stay for the next block, unless weights are being written (in a fit).
    """
    token = _packed.set(_KEPT if keep and not weights_move() else Packs())
    try:
        yield
    finally:
        _packed.reset(token)


@contextmanager
def joined_by(join: Callable[[Maps], Joint | None]) -> Iterator[None]:
    """Let `linear` ask `join` for joined weights inside the block."""
    token = _joined.set(join)
    try:
        yield
    finally:
        _joined.reset(token)


def product_dtype(x: torch.Tensor) -> torch.dtype:
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def linear(maps: Sequence[nn.Linear], x: torch.Tensor, *, gelu: bool = False) -> torch.Tensor:
    """Apply all maps to x (..., in) in one product -> (..., sum of outs), then optionally GELU; x is cast once."""
    packed = _packed.get()
    device, dtype = x.device.type, product_dtype(x)
    if not _can_keep(maps, x, dtype) or (packed is None and device != "cpu"):
        with all_rows_alike(x.device):
            y: torch.Tensor = (
                maps[0](x) if len(maps) == 1 else F.linear(x, *(_joined.get()(tuple(maps)) or _joint(maps)))
            )
        return F.gelu(y) if gelu else y
    weight, bias = _cast(maps, dtype) if packed is None else packed.of(maps, dtype)
    if device != "cpu":
        y = F.linear(x, weight, bias)
        return F.gelu(y) if gelu else y
    return rows_alike(x, weight, bias, "gelu" if gelu else "none", dtype)


def rows_alike(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str = "none",
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """oneDNN's linear map on a CPU: a row's bits depend neither on the other rows nor on the number of threads.

    A row alone goes twice: oneDNN would take another kernel for it, with other last bits.
    """
    dtype = dtype or weight.dtype
    x = x.to(dtype).to(weight.dtype)
    alone = x.numel() == x.shape[-1]
    rows = x.reshape(1, -1).expand(2, -1) if alone else x
    algorithm = "" if activation == "none" else "none"
    with torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext():
        y: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows.contiguous(), weight, bias, activation, [], algorithm)
        y = y.to(dtype)
    return y[0].view(*x.shape[:-1], -1) if alone else y


def widened(dtype: torch.dtype, device: str) -> bool:
    """True where numbers of this type are multiplied in float32."""
    return dtype == torch.bfloat16 and bf16_in_float32(device)


def _rounded(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """In `dtype`, and from there in the precision of its products."""
    wide = widened(dtype, t.device.type) or (dtype == torch.bfloat16 and encodes_in_float32(t.device.type))
    return t.to(dtype).float() if wide else t.to(dtype)


class WideProducts(TorchFunctionMode):
    """Autocast's products in bfloat16, multiplied in float32; the numbers are rounded before and after."""

    _PRODUCTS = (
        *(F.linear, F.scaled_dot_product_attention, torch.matmul, torch.bmm),
        *(torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.bmm),
    )

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in self._PRODUCTS or not torch.is_autocast_enabled("cpu"):
            return func(*args, **kwargs)
        rounded = tree_map_only(
            torch.Tensor, lambda t: _rounded(t, torch.bfloat16) if t.is_floating_point() else t, (args, kwargs)
        )
        with torch.autocast("cpu", enabled=False):
            return func(*rounded[0], **rounded[1]).bfloat16()


def all_rows_alike(device: torch.device) -> AbstractContextManager[Any]:
    """Give every linear map inside the block, of whatever module, the bits of `rows_alike`, on a CPU outside autograd.

    It costs a few microseconds for each call of torch, so that the engine's own layers do without.
    """
    return nullcontext() if device.type != "cpu" or torch.is_grad_enabled() else _AllRowsAlike()


class _AllRowsAlike(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.addmm and len(args) == 3 and not kwargs:
            # GPT-2's linear map: bias, rows, and the weights with inputs first.
            return _rows_alike_or_not(args[1], args[2].t().contiguous(), args[0])
        if func is not F.linear:
            return func(*args, **kwargs)
        return _rows_alike_or_not(*args, **kwargs)


def _rows_alike_or_not(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    dtype = product_dtype(input)
    if input.device.type != "cpu" or not _by_onednn(dtype) or not input.numel():
        return F.linear(input, weight, bias)
    return rows_alike(input, _rounded(weight, dtype), None if bias is None else _rounded(bias, dtype), dtype=dtype)


def row_products(vectors: NDArray[Any], matrix: NDArray[Any]) -> NDArray[Any]:
    """Product (n, k) of vectors (n, d) and a matrix (d, k), in blocks of equal size: a row's bits are its own."""
    blocks = np.zeros((-(-len(vectors) // _BLOCK), _BLOCK, vectors.shape[1]), vectors.dtype)
    blocks.reshape(-1, vectors.shape[1])[: len(vectors)] = vectors
    products: NDArray[Any] = (blocks @ matrix).reshape(-1, matrix.shape[1])
    return products[: len(vectors)]


def _can_keep(maps: Sequence[nn.Linear], x: torch.Tensor, dtype: torch.dtype) -> bool:
    """True outside autograd, for nn.Linear layers without hooks; on a CPU by oneDNN."""
    if torch.is_grad_enabled() or any(
        type(m) is not nn.Linear or m._forward_hooks or m._forward_pre_hooks or m.weight.is_inference() for m in maps
    ):
        return False
    return x.device.type != "cpu" or (_by_onednn(dtype) and x.numel() > 0)


@functools.cache
def _by_onednn(dtype: torch.dtype) -> bool:
    return (
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and dtype in (torch.float32, torch.bfloat16)
    )


def _cast(maps: Sequence[nn.Linear], dtype: torch.dtype) -> Joint:
    weight, bias = _joint(maps)
    return _rounded(weight.detach(), dtype), None if bias is None else _rounded(bias.detach(), dtype)


def _joint(maps: Sequence[nn.Linear]) -> Joint:
    weight = torch.cat([m.weight for m in maps]) if len(maps) > 1 else maps[0].weight
    if all(m.bias is None for m in maps):
        return weight, None
    biases: list[torch.Tensor] = [m.weight.new_zeros(m.out_features) if m.bias is None else m.bias for m in maps]
    return weight, torch.cat(biases) if len(maps) > 1 else biases[0]


class Saved(FunctionCtx):
    saved_tensors: tuple[torch.Tensor, ...]
    rows: int
    sizes: list[list[int]]
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]


class NarrowWeights:
    """Casts the maps, alone or joined, of the first step under autocast."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.maps: dict[Maps, None] = {}
        self.known = False
        self._made: dict[Maps, dict[str, torch.Tensor]] = {}

    @contextmanager
    def __call__(self) -> Iterator[None]:
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
    """Weights -> narrow weights, joined in groups; one kernel for all, and one kernel for all gradients."""

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
