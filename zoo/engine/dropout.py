"""Sets a model's dropout rate, and draws its masks faster on a CPU, where they take a sixth of a small step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import distributed, nn

_BITS = 16  # four elements of a mask from one draw of 64 bits


class Share:
    """This process's part of the batches that several processes train on, for the masks that one process would draw.

    Every process draws the masks of the whole batch from an equal generator, and takes those of its own rows.
    """

    def __init__(self, state: torch.Tensor) -> None:
        self.generator = torch.Generator()
        self.generator.set_state(state)
        self.spread = False  # True: each process has some rows of the batch, by rank; False: all have all rows
        self.sizes: list[list[int]] = []  # of a forward pass by rank: rows, length, tokens, packed tokens

    def measure(self, mask: torch.Tensor, packed: int) -> None:
        """Exchange the sizes of a forward pass on an attention mask (n, length); every process calls this."""
        if self.spread:
            own = torch.tensor([*mask.shape, int(mask.sum()), packed])
            found = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
            distributed.all_gather(found, own)
            self.sizes = [one.tolist() for one in found]

    def kept(self, shape: torch.Size, dropped: int) -> torch.Tensor:
        """Return which elements of a tensor of this process are kept, a mask of its shape."""
        if not self.spread or not self.sizes:
            return _kept(shape, dropped, self.generator)
        rank = distributed.get_rank()
        rows, length, tokens, packed = self.sizes[rank]
        all_rows, longest = sum(size[0] for size in self.sizes), max(size[1] for size in self.sizes)
        if shape[0] == packed and packed != rows:
            total, before = (sum(size[2] for size in sizes) for sizes in (self.sizes, self.sizes[:rank]))
            whole = _kept(torch.Size([packed_size(total, all_rows * longest), *shape[1:]]), dropped, self.generator)
            own = whole[before : before + tokens]
            return torch.cat([own, own.new_ones(packed - tokens, *shape[1:])])  # the rest is padding
        if shape[0] != rows:
            return _kept(shape, dropped, self.generator)
        of_tokens = {3: (1,), 4: (2, 3)}.get(
            len(shape), ()
        )  # of states and of attention weights; `at` may choose places
        wide = [longest if n in of_tokens and size == length else size for n, size in enumerate(shape[1:], 1)]
        before = sum(size[0] for size in self.sizes[:rank])
        whole = _kept(torch.Size([all_rows, *wide]), dropped, self.generator)
        return whole[(slice(before, before + rows), *(slice(size) for size in shape[1:]))]


_SIZES = 16  # different sizes of packed batches of one shape


def packed_size(tokens: int, places: int) -> int:
    """Return how many of a batch's places (n * length) are packed: its tokens, and padding up to one of a few sizes.

    If every batch had another size, freed memory would not fit the next batch.
    """
    return min(tokens + -tokens % max(places // _SIZES, 1), places)


_share: Share | None = None


@contextmanager
def sharing(share: Share | None, *, spread: bool) -> Iterator[None]:
    """Draw the masks inside the block as one process would; `spread`: each process has its rows of the batch."""
    global _share
    before, _share = _share, share
    if share is not None:
        share.spread, share.sizes = spread, []
    try:
        yield
    finally:
        _share = before


def measure(mask: torch.Tensor, packed: int) -> None:
    """Tell the other processes, where there are any, the sizes of a forward pass in training."""
    if _share is not None:
        _share.measure(mask, packed)


def dropout(x: torch.Tensor, rate: float) -> torch.Tensor:
    """Set elements to 0 with probability `rate` (rounded to 1/65,536); divide the others by 1 - rate."""
    dropped = round(rate * 2**_BITS)
    if x.device.type != "cpu" or not 0 < dropped < 2**_BITS:
        return F.dropout(x, rate)
    kept = _kept(x.shape, dropped) if _share is None else _share.kept(x.shape, dropped)
    result: torch.Tensor = x * kept.to(x.dtype).mul_(1 / (1 - dropped / 2**_BITS))
    return result


def _kept(shape: torch.Size, dropped: int, generator: torch.Generator | None = None) -> torch.Tensor:
    draws = torch.empty((shape.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    kept: torch.Tensor = draws.view(torch.int16)[: shape.numel()].view(shape) >= dropped - 2 ** (_BITS - 1)
    return kept


class Dropout(nn.Dropout):
    """PyTorch's Dropout with the masks of `dropout`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Apply dropout, in training mode only."""
        return dropout(input, self.p) if self.training else input


def cheapen_dropout(model: nn.Module) -> None:
    """Replace every nn.Dropout in a model by a Dropout with the faster masks."""
    for module in model.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                cheap = Dropout(child.p)
                setattr(module, name, cheap.train(child.training))


def set_dropout(model: nn.Module, rate: float | None) -> None:
    """Set the rate of every dropout layer of a model; None changes nothing."""
    for module in model.modules():
        if rate is not None and isinstance(module, nn.Dropout):
            module.p = rate


def has_dropout(model: nn.Module) -> bool:
    """Return whether the model has dropout, so that two passes in training mode may differ."""
    return any(isinstance(module, nn.Dropout) and module.p > 0 for module in model.modules())
