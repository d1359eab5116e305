"""Several processes on one batch: who this one is, and vectors gathered from all of them with their gradients."""

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

# For the others, while one of them evaluates; `watch_other_ranks` ends the wait for one that is stopped.
_LONGEST_WAIT = timedelta(days=7)


def own_process(runtime: Runtime) -> PartialState:
    """Return what this process is among those that `accelerate launch` or `torchrun` started; usually the only one."""
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
    # Now and then gloo's threads abort a process that ends as a member, though all its work is done. NCCL's end may
    # wait for the other processes, which may have failed.
    if distributed.is_initialized() and distributed.get_backend() == "gloo":
        distributed.destroy_process_group()


def own_rank() -> int:
    """Return this process's number, 0 when it is alone."""
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
        # A vector is a negative in every process's loss: its gradient is the sum of theirs.
        total = grads[0].contiguous()
        distributed.all_reduce(total)
        start = distributed.get_rank() * ctx.rows
        return total[start : start + ctx.rows]


def gather(own: torch.Tensor) -> torch.Tensor:
    """Vectors (n, dim) of this process -> (processes * n, dim) of all, by rank; gradients flow back to their owners."""
    gathered: torch.Tensor = _Gather.apply(own)  # type: ignore[no-untyped-call]
    return gathered
