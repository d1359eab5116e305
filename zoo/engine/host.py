"""Batches on a device whose integers the host still has, so that reading a length or a mask makes nobody wait."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_share: ContextVar[float | None] = ContextVar("share", default=None)


@contextmanager
def without_host(share: float) -> Iterator[None]:
    """Let integers stay on the device inside the block, and shapes follow from the batch's: a CUDA graph needs both.

    At most `share` of the places of a batch, rows x length, have a token.
    """
    token = _share.set(share)
    try:
        yield
    finally:
        _share.reset(token)


def share_without_host() -> float | None:
    """Return the share inside a block of `without_host`, else None."""
    return _share.get()


@functools.cache
def constant(values: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Return integers (n,) on a device, made once; never change them: a CUDA graph may read them, and copies none."""
    return torch.tensor(values, device=device)


def pinned(batch: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the tensor in memory from which the device copies without the host's help."""
    return batch.contiguous().pin_memory() if device.type == "cuda" else batch


def to_device(batch: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the tensor on the device; the CPU's own one stays with it for `host_of`."""
    if device.type == batch.device.type:
        return batch
    # Apple's GPU may read memory that is not pinned only later, when it holds something else.
    moved = pinned(batch, device).to(device, non_blocking=device.type != "mps")
    moved.host = batch  # type: ignore[attr-defined]
    return moved


def host_of(batch: torch.Tensor) -> torch.Tensor:
    """Return the tensor's values on the CPU, which waits for a device's; without a host the tensor itself."""
    if batch.device.type == "cpu" or share_without_host() is not None:
        return batch
    known: torch.Tensor | None = getattr(batch, "host", None)
    return batch.cpu() if known is None else known


def changed(batch: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return change(batch), a view or a repetition, whose values the host has if it had those of the batch."""
    result = change(batch)
    if (known := getattr(batch, "host", None)) is not None:
        result.host = change(known)  # type: ignore[attr-defined]
    return result


def flat_rows(batch: torch.Tensor) -> torch.Tensor:
    """Return a batch (n, k, ...) as (n * k, ...), whose values the host has if it had those of the batch."""
    return changed(batch, lambda rows: rows.flatten(0, 1))
