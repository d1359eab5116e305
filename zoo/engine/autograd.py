"""The type of what a `torch.autograd.Function` keeps between its two passes."""

from __future__ import annotations

import torch
from torch.autograd.function import FunctionCtx


class Saved(FunctionCtx):
    """What `forward` keeps for `backward`; each function sets those that it needs."""

    saved_tensors: tuple[torch.Tensor, ...]
    rows: int
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]
