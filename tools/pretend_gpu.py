"""A GPU for machines without one: tensors of the device "gpu" hold CPU data; mixing them with the CPU's is an error.

Most of what goes wrong on a GPU and not on a CPU is a tensor made on the wrong side, or numpy asked for one that is not
there; next come precisions that autocast mixes in another way. Here all of it fails as with CUDA, and the numbers are
the CPU's. Speed, memory and kernels are not shown. A `narrow` device has no float64 and no foreach kernels, as mps.
`pretend` changes torch for good: it belongs into a process of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves, tree_map

NAME = "gpu"
_CPU = torch.device("cpu")
# These take tensors of both sides on CUDA too: copies, CPU indices, the step of an optimiser, lengths of packed rows.
_BOTH = {"_to_copy", "copy_", "index", "index_put_", "_index_put_impl_", "_fused_adam_", "_fused_adamw_"}


# What autocast does on CUDA (torch's autocast reference): products in bfloat16, and in float32 what needs its range.
_NARROW = "addmm addmv baddbmm bmm conv1d conv2d einsum linear matmul mm mv scaled_dot_product_attention".split()
_WIDE = """binary_cross_entropy_with_logits cdist cosine_similarity cumsum exp expm1 kl_div l1_loss layer_norm
linalg_vector_norm log log1p log2 log_softmax.int logsumexp mse_loss native_layer_norm nll_loss nll_loss_nd norm.Scalar
norm.ScalarOpt_dim pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor prod reciprocal rsqrt smooth_l1_loss softmax.int
softplus sum sum.dim_IntList""".split()


class _Module:
    """What torch asks of the module of a device."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        pass

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


class Pretended(torch.Tensor):
    """A tensor of the device, around the CPU tensor `raw`."""

    raw: torch.Tensor

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> Pretended:
        if pretend.narrow and raw.dtype == torch.float64:  # type: ignore[attr-defined]
            raise TypeError("the device has no float64")
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=f"{NAME}:0",
        )
        tensor.raw = raw.detach()
        return tensor

    def __repr__(self, **_: Any) -> str:
        return f"Pretended({self.raw})"

    def __format__(self, spec: str) -> str:
        return format(self.raw, spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        copied: torch.Tensor = Pretended(self.raw.clone()).requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, self.requires_grad)
        return memo.setdefault(id(self), copied)

    def __getitem__(self, index: Any) -> torch.Tensor:
        return super().__getitem__(_known(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_known(index), value)

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a tensor on a GPU cannot become a numpy array; call .cpu() first")

    __array__ = numpy

    def tolist(self) -> Any:
        return self.raw.tolist()

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(op, args, kwargs or {})


def _known(index: Any) -> Any:
    """Lists of an index as tensors, which torch makes of them itself for its own devices."""
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(torch.tensor(part) if isinstance(part, list) else part for part in parts)


def _run(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Do on the CPU what an operation asks for, after a look at where its tensors are."""
    name = op._schema.name.removeprefix("aten::")
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    here = [tensor for tensor in tensors if isinstance(tensor, Pretended)]
    elsewhere = [tensor for tensor in tensors if not isinstance(tensor, Pretended) and tensor.dim() > 0]
    if here and elsewhere and name not in _BOTH:
        shapes = [tuple(tensor.shape) for tensor in elsewhere]
        raise RuntimeError(f"{name}: expected all tensors on the same device, found {shapes} on the CPU")
    device = kwargs.get("device")
    wrapped = {id(tensor.raw): tensor for tensor in here}
    given = tree_map(lambda leaf: leaf.raw if isinstance(leaf, Pretended) else leaf, (args, dict(kwargs)))
    if device is not None:
        given[1]["device"] = _CPU
    result = op(*given[0], **given[1])
    to_cpu = device is not None and torch.device(device).type == "cpu"
    if to_cpu or (name == "copy_" and not isinstance(args[0], Pretended)):
        return result

    def wrap(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or isinstance(leaf, Pretended):
            return leaf
        return wrapped.get(id(leaf)) if id(leaf) in wrapped else Pretended(leaf)

    return tree_map(wrap, result)


def _moved(make: Any) -> Any:
    """A constructor that makes its tensor on the CPU and moves it: its own way resizes, which no wrapper can."""

    def create(*args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
        if device is None or torch.device(device).type != NAME:
            result: torch.Tensor = make(*args, **kwargs, **({} if device is None else {"device": device}))
            return result
        return make(*args, **kwargs).to(NAME)  # type: ignore[no-any-return]

    return create


def _autocast(library: torch.library.Library, name: str, wide: bool) -> None:
    """Let an operation take its floating-point tensors under autocast in float32, or in the narrow precision."""
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    key = torch._C.DispatchKey.AutocastPrivateUse1
    dtype = torch.float32

    def cast(leaf: Any) -> Any:
        narrow = isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.dtype != torch.float64
        return leaf.to(dtype) if narrow and leaf.device.type == NAME else leaf

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal dtype
        dtype = torch.float32 if wide else torch.get_autocast_dtype(NAME)
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return op(*tree_map(cast, args), **tree_map(cast, kwargs))

    library.impl(name, run, "AutocastPrivateUse1")


def pretend(narrow: bool = False) -> str:
    """Give torch the device and return its name."""
    pretend.narrow = narrow  # type: ignore[attr-defined]
    foreach = torch.utils._foreach_utils
    foreach._foreach_supported_types.append(Pretended)
    if narrow:
        foreach._get_foreach_kernels_supported_devices = lambda: ["cuda"]
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda op, *args, **kwargs: _run(op, args, kwargs), "PrivateUse1")
    library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    operations = torch.library.Library("aten", "IMPL")
    for names, wide in ((_NARROW, False), (_WIDE, True)):
        for name in names:
            _autocast(operations, name, wide)
    pretend.libraries = library, operations  # type: ignore[attr-defined]  # gone with them would be the registrations
    # Remembered as they are now: `with torch.device("meta")` looks them up.
    _device_constructors()
    for name in ("tensor", "as_tensor", "eye", "arange", "linspace", "randperm"):
        setattr(torch, name, _moved(getattr(torch, name)))
    torch.inference_mode = torch.no_grad  # type: ignore[misc, assignment]  # wrappers cannot be made in it
    return NAME
