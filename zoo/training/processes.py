"""Several processes on one batch: this process's rank, and vectors gathered from all processes with gradients."""

from __future__ import annotations

import atexit
import functools
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
from accelerate import PartialState
from torch import distributed

from zoo.encoder import Runtime
from zoo.training.pulse import have_a_place_to_meet, watch_other_ranks

if TYPE_CHECKING:
    from zoo.engine.autograd import Saved

# Others wait while one process evaluates; `watch_other_ranks` notices a process that has stopped.
_LONGEST_WAIT = timedelta(days=7)


def own_process(runtime: Runtime) -> PartialState:
    """Return this process's state (rank, number of processes) as `accelerate launch` or `torchrun` started it."""
    if have_a_place_to_meet():
        watch_other_ranks()
    state = PartialState(cpu=torch.device(runtime.device).type == "cpu", timeout=_LONGEST_WAIT)
    if state.num_processes > 1:
        watch_other_ranks()
        _leave_at_exit()
    return state


@functools.cache  # registered once
def _leave_at_exit() -> None:
    atexit.register(_leave)


def _leave() -> None:
    # gloo's threads sometimes abort a process that exits as a member of a group, after all its work is done. With NCCL,
    # leaving the group could wait for other processes that have failed.
    if distributed.is_initialized() and distributed.get_backend() == "gloo":
        distributed.destroy_process_group()


def own_rank() -> int:
    """Return this process's rank; 0 when it is the only process."""
    return distributed.get_rank() if distributed.is_initialized() else 0


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Saved, own: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, own.contiguous())
        ctx.rows = len(own)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Saved, *grads: torch.Tensor) -> torch.Tensor:
        # A vector is a negative in every process's loss, so its gradient is the sum over all processes.
        total = grads[0].contiguous()
        distributed.all_reduce(total)
        start = distributed.get_rank() * ctx.rows
        return total[start : start + ctx.rows]


def gather(own: torch.Tensor) -> torch.Tensor:
    """Vectors (n, dim) of this process -> those of all (processes * n, dim), by rank; gradients flow back to them."""
    gathered: torch.Tensor = _Gather.apply(own)  # type: ignore[no-untyped-call]
    return gathered
