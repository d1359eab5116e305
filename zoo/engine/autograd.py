"""The type of the context of a `torch.autograd.Function`."""

from __future__ import annotations

import torch
from torch.autograd.function import FunctionCtx


class Saved(FunctionCtx):
    """What `forward` stores for `backward`; each function sets the attributes that it needs."""

    saved_tensors: tuple[torch.Tensor, ...]
    rows: int
    sizes: list[list[int]]
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]
