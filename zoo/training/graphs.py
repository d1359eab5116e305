"""CUDA graphs: the kernels of a training step, captured once and launched together, faster than singly.

A graph repeats its kernels on the same memory: integers stay on the device (`without_host` of zoo.engine.batching),
each size class of padded batches has its graph, and the optimiser reads its rates from the device.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import nn

from zoo.check import own_line
from zoo.encoder import Runtime
from zoo.engine.backbone import positions_of
from zoo.engine.batching import changed, out_of_memory, to_device, without_host
from zoo.engine.states import packable
from zoo.errors import ContractError, TrainingError
from zoo.identity import file_of
from zoo.progress import Progress
from zoo.training.checkpoint import random_state, set_random_state
from zoo.training.settings import TrainSettings

Part = tuple[float, list[torch.Tensor]]
"""A part of a batch: its share of the rows, and its tensors."""


class Stepping(Protocol):
    objective: Any
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    settings: TrainSettings
    runtime: Runtime
    device: torch.device
    progress: Progress
    step: int

    def autocast(self) -> AbstractContextManager[None]: ...

    def wait_for_thread(self) -> None: ...


def gradients(training: Stepping, parts: list[Part]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Set the clipped gradients; return the parts' losses and the norm before clipping."""
    losses, device = [], training.device
    for share, collated in parts:
        tensors = [to_device(tensor, device) for tensor in collated]
        if training.settings.chunk_rows is not None:
            losses.append(_cached(training, tensors, share, training.settings.chunk_rows))
            continue
        with training.autocast():
            loss = _one_number(training.objective(*tensors), training.objective).float() * share
        losses.append(loss.detach())
        training.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    training.scaler.unscale_(training.optimizer)
    norm = nn.utils.clip_grad_norm_(training.objective.parameters(), training.settings.max_grad_norm)
    return losses, norm


def _one_number(loss: torch.Tensor, objective: nn.Module) -> torch.Tensor:
    """Raise ContractError with the objective's line unless the loss is a tensor of one number."""
    if isinstance(loss, torch.Tensor) and loss.numel() == 1:
        return loss.reshape(())
    shape = tuple(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
    names = {name for base in type(objective).__mro__ if file_of(base) for name in vars(base)}
    part = next((name for name in ("loss", "contrast", "forward") if name in names), "contrast")
    raise ContractError(
        f"the loss of {type(objective).__name__} is of shape {shape}; return one number, such as its mean"
        f"{own_line(type(objective), None, part)}"
    )


def _cached(training: Stepping, tensors: list[torch.Tensor], share: float, chunk_rows: int) -> torch.Tensor:
    """Gradient with the activations of one chunk at a time (Gao et al. 2021, section 3)."""
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
        loss = _one_number(objective.contrast(*vectors), objective) * share
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


_STATES = {"AdamW": 2, "TransformersAdamW": 2, "RMSprop": 1}


def needed(objective: nn.Module, optimizer: torch.optim.Optimizer, tokens: int, precision: str) -> tuple[float, float]:
    """GB of weights, gradients and optimiser; and GB that a batch keeps for the backward pass.

    A layer keeps 34 bytes for each token and dimension (Korthikanti et al. 2022, section 4.1), 66 in float32; fused
    attention keeps no scores.
    """
    weights = {id(part): part for part in (*objective.parameters(), *objective.buffers())}.values()
    trained = sum(part.numel() for part in weights if part.requires_grad)
    fixed = sum(part.nbytes for part in weights) + 4 * trained * (1 + _STATES.get(type(optimizer).__name__, 0))
    config: Any = next((part.config for part in objective.modules() if hasattr(part, "config")), None)
    size = config.num_hidden_layers * config.hidden_size if config is not None else 0
    kept: float = tokens * size * (66 if precision == "fp32" else 34)
    return fixed / 1e9, kept / 1e9


UNSTATED = "its loss is not stated to be made on the device alone"
_DEVICES = ("cuda",)
# Kernels and work spaces are loaded in ordinary steps before the first capture.
_WARM_UP = 3
# Shares of a batch's places that have tokens.
_SHARES = 16
_Result = tuple[torch.Tensor, torch.Tensor]


class _Graph(Protocol):
    def replay(self) -> None: ...


@dataclass(frozen=True)
class _Captured:
    graph: _Graph
    inputs: list[torch.Tensor]
    result: _Result


def graphs_for(training: Stepping) -> Graphs | None:
    """Return the graphs of a training; None, with a log line, if there can be none."""
    why = _obstacle(training)
    if why is None:
        return Graphs(training)
    training.progress.say(f"this training has no CUDA graphs: {why}")
    return None


def _obstacle(training: Stepping) -> str | None:
    settings, optimizer = training.settings, training.optimizer
    if training.device.type not in _DEVICES:
        return f"{training.device} is not a CUDA device"
    if training.runtime.precision == "fp16":
        return "the scale of a float16 loss is chosen by the host"
    if settings.accumulate > 1 or settings.chunk_rows is not None:
        return "its batches are trained in parts"
    if not optimizer.defaults.get("fused"):
        return f"its optimiser, {type(optimizer).__name__}, has its rate and steps on the host"
    if not all(packable(model) for model in _transformers(training.objective)):
        return "its backbone's layers are not BERT's, and the library's own forward reads the mask on the host"
    return _ungraphed(training.objective)


def _transformers(objective: nn.Module) -> list[Any]:
    return [part for part in objective.modules() if hasattr(part, "get_input_embeddings")]


def _ungraphed(objective: Any) -> str | None:
    """The objective's reason; it does not hold for a subclass with another loss."""
    kinds = type(objective).__mro__

    def depth(name: str) -> int:
        return next(i for i, kind in enumerate(kinds) if name in vars(kind))

    if depth("ungraphed") > min(map(depth, ("embed", "contrast", "forward", "after_step"))):
        return UNSTATED
    why: str | None = objective.ungraphed
    return why


class Graphs:
    """Captured steps; first batches of a size class are ordinary steps on the same stream."""

    def __init__(self, training: Stepping) -> None:
        self.training, self.device = training, training.device
        models = _transformers(training.objective)
        self.pad_id = next((model.config.pad_token_id or 0 for model in models), 0)
        self.positions = min((positions_of(model) or 512 for model in models), default=512)
        groups = training.optimizer.param_groups
        self.rates = [torch.zeros((), device=self.device) for _ in groups]
        # None: the class had an ordinary step.
        self.captured: dict[Hashable, _Captured | None] = {}
        self.ordinary, self.replayed = 0, 0
        cuda = self.device.type == "cuda"
        self.stream = torch.cuda.Stream(self.device) if cuda else None  # type: ignore[no-untyped-call]
        # Graphs share their memory: each computes all that it reads, and results are copied before another runs.
        self.pool = torch.cuda.graph_pool_handle() if cuda else None

    def widened(self, batch: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Pad to a quarter step between two powers of 2."""

        def wider(part: torch.Tensor, fill: int) -> torch.Tensor:
            length = part.shape[-1]
            unit = max(2 ** ((length - 1).bit_length() - 3), 4)
            most = max(min(length + -length % unit, self.positions), length)
            return F.pad(part, (0, most - length), value=fill)

        return tuple(wider(part, 0 if i % 2 else self.pad_id) for i, part in enumerate(batch))

    def step(self, batch: list[torch.Tensor]) -> tuple[list[torch.Tensor], torch.Tensor]:
        share = max(-(-_SHARES * int(mask.sum()) // mask.numel()) for mask in batch[1::2])
        size: Hashable = (share, *(part.shape for part in batch))
        with self._on_stream():
            for group, rate in zip(self.training.optimizer.param_groups, self.rates, strict=True):
                rate.fill_(group["lr"])
            if size in self.captured and self.ordinary >= _WARM_UP and self.training.objective.is_steady():
                loss, norm = self._replay(size, batch, share / _SHARES)
            else:
                if self.training.objective.is_steady():
                    self.captured.setdefault(size, None)
                    self.ordinary += 1
                loss, norm = self._update(batch, share / _SHARES, capturing=False)
        return [loss], norm

    def _replay(self, size: Hashable, batch: list[torch.Tensor], share: float) -> _Result:
        captured = self.captured[size]
        if captured is None:
            inputs = [part.to(self.device, copy=True) for part in batch]
            self.training.wait_for_thread()
            try:
                graph, result = self.capture(lambda: self._update(inputs, share, capturing=True))
            except RuntimeError as error:
                if out_of_memory(error):
                    raise
                raise TrainingError(
                    f"step {self.training.step} cannot be captured as a CUDA graph ({error}). Train without"
                    " --cuda-graphs."
                ) from error
            captured = self.captured[size] = _Captured(graph, inputs, result)
        for buffer, part in zip(captured.inputs, batch, strict=True):
            buffer.copy_(part, non_blocking=True)
        captured.graph.replay()
        self.replayed += 1
        loss, norm = captured.result
        return loss.clone(), norm.clone()

    def capture(self, update: Callable[[], _Result]) -> tuple[_Graph, _Result]:
        """Capture the kernels of `update`, none of them run; return graph and output buffers."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            result = update()
        return graph, result

    def _update(self, batch: list[torch.Tensor], share: float, *, capturing: bool) -> _Result:
        """A step on the device; gradients begin and end as None: each graph has its own."""
        training = self.training
        cached = torch.is_autocast_cache_enabled()
        # A cast outside of a graph would not be repeated in it.
        torch.set_autocast_cache_enabled(False)
        try:
            with without_host(share):
                losses, norm = gradients(training, [(1.0, batch)])
        finally:
            torch.set_autocast_cache_enabled(cached)
        with self._rates_on_device(capturing):
            training.optimizer.step()
        training.objective.after_step()
        training.optimizer.zero_grad(set_to_none=True)
        return losses[0], norm

    @contextmanager
    def _rates_on_device(self, capturing: bool) -> Iterator[None]:
        """Rates on the device inside the block; schedule and checkpoints keep numbers."""
        groups = self.training.optimizer.param_groups
        numbers = [group["lr"] for group in groups]
        for group, rate in zip(groups, self.rates, strict=True):
            group.update(lr=rate, capturable=capturing)
        try:
            yield
        finally:
            for group, number in zip(groups, numbers, strict=True):
                group.update(lr=number, capturable=False)

    @contextmanager
    def _on_stream(self) -> Iterator[None]:
        if self.stream is None:
            yield
            return
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            yield
        current.wait_stream(self.stream)
