"""A CUDA graph for machines without a GPU: it records the operations of a step and repeats them on the same tensors.

As with a real one, nothing of the host is repeated: what a step reads there, or makes there, stays as it was recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

Result = tuple[torch.Tensor, torch.Tensor]


class Recorder(TorchDispatchMode):
    """Keeps the operations on tensors of a device that run inside it, those of the backward pass too."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = op(*args, **(kwargs or {}))
        leaves = tree_leaves((args, kwargs, result))
        if any(isinstance(leaf, torch.Tensor) and leaf.device.type == self.device.type for leaf in leaves):
            self.calls.append((op, tree_map(lambda leaf: leaf, args), dict(kwargs or {}), result))
        return result


class PretendedGraph:
    """The recorded operations; `result` is where a replay writes loss and norm."""

    def __init__(self, graphs: Any, update: Callable[[], Result]) -> None:
        self.graphs, self.update = graphs, update
        self.calls, self.result = self.recorded()

    def recorded(self) -> tuple[list[tuple[Any, Any, Any, Any]], Result]:
        """The operations of a step on what the inputs hold now, and its result; afterwards none has happened."""
        state, random = _state(self.graphs.training), torch.get_rng_state()
        before = [tensor.detach().clone() for tensor in state]
        with Recorder(self.graphs.device) as recorder:
            result = self.update()
        with torch.no_grad():
            for tensor, value in zip(state, before, strict=True):
                tensor.copy_(value)
        torch.set_rng_state(random)
        return recorder.calls, result

    def replay(self) -> None:
        values: dict[int, torch.Tensor] = {}

        def now(leaf: Any) -> Any:
            return values.get(id(leaf), leaf) if isinstance(leaf, torch.Tensor) else leaf

        with torch.no_grad():
            for op, args, kwargs, before in self.calls:
                after = op(*tree_map(now, args), **tree_map(now, kwargs))
                pairs = zip(tree_leaves(before), tree_leaves(after), strict=True)
                values |= {id(old): new for old, new in pairs if isinstance(old, torch.Tensor)}
            for place in self.result:
                place.copy_(values[id(place)])


def operations(calls: list[tuple[Any, Any, Any, Any]]) -> list[tuple[str, list[Any]]]:
    """Name of each operation, and the shapes of its tensors."""
    return [
        (op.name(), [tuple(leaf.shape) for leaf in tree_leaves(parts) if isinstance(leaf, torch.Tensor)])
        for op, *parts in calls
    ]


def _state(training: Any) -> list[torch.Tensor]:
    """All that a step changes in place."""
    modules = [*training.objective.parameters(), *training.objective.buffers()]
    return modules + [leaf for leaf in tree_leaves(dict(training.optimizer.state)) if isinstance(leaf, torch.Tensor)]


def capture(graphs: Any, update: Callable[[], Result]) -> tuple[PretendedGraph, Result]:
    """Take the place of `Graphs.capture`."""
    graph = PretendedGraph(graphs, update)
    return graph, graph.result
