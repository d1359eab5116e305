"""The gradients of a batch: of its parts in turn, or of all its rows by a gradient cache."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import nn

from zoo.encoder import Runtime
from zoo.engine.host import changed, to_device
from zoo.progress import Progress
from zoo.training.checkpoint import random_state, set_random_state
from zoo.training.settings import TrainSettings

Part = tuple[float, list[torch.Tensor]]
"""A part of a batch: its share of the rows, and its tensors."""


class Stepping(Protocol):
    """What a step reads of a training (zoo.training.loop)."""

    objective: Any
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    settings: TrainSettings
    runtime: Runtime
    device: torch.device
    progress: Progress
    step: int

    def autocast(self) -> AbstractContextManager[None]:
        """Let products inside the block have the precision of the run."""

    def wait_for_thread(self) -> None:
        """Wait until no batch is being made."""


def gradients(training: Stepping, parts: list[Part]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Give the weights the clipped gradients of a batch; return its parts' losses and the norm before clipping."""
    losses, device = [], training.device
    for share, collated in parts:
        tensors = [to_device(tensor, device) for tensor in collated]
        if training.settings.chunk_rows is not None:
            losses.append(_cached(training, tensors, share, training.settings.chunk_rows))
            continue
        with training.autocast():
            loss = training.objective(*tensors).float() * share
        losses.append(loss.detach())
        training.scaler.scale(loss).backward()
    training.scaler.unscale_(training.optimizer)
    norm = nn.utils.clip_grad_norm_(training.objective.parameters(), training.settings.max_grad_norm)
    return losses, norm


def _cached(training: Stepping, tensors: list[torch.Tensor], share: float, chunk_rows: int) -> torch.Tensor:
    """Add the gradient of the whole batch with activations of one chunk at a time (Gao et al. 2021, section 3)."""
    objective = training.objective
    parts = [slice(start, start + chunk_rows) for start in range(0, len(tensors[0]), chunk_rows)]
    chunks = [[changed(t, lambda x, part=part: x[part]) for t in tensors] for part in parts]  # type: ignore[misc]
    states, embedded = [], []
    with torch.no_grad(), training.autocast():
        for chunk in chunks:
            states.append(random_state())
            embedded.append(objective.embed(*chunk))
    vectors = [torch.cat(column).requires_grad_() for column in zip(*embedded, strict=True)]
    with training.autocast():
        loss: torch.Tensor = objective.contrast(*vectors) * share
    training.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    of_vectors = [torch.zeros_like(v) if v.grad is None else v.grad for v in vectors]
    wanted = zip(*(torch.split(gradient, chunk_rows) for gradient in of_vectors), strict=True)
    for chunk, state, grads in zip(chunks, states, wanted, strict=True):
        # The same dropout as in the first pass.
        set_random_state(state)
        with training.autocast():
            again = objective.embed(*chunk)
        pairs = [(a, g) for a, g in zip(again, grads, strict=True) if a.requires_grad]
        torch.autograd.backward([a for a, _ in pairs], [g.to(a.dtype) for a, g in pairs])
    return loss.detach()
