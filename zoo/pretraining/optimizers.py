"""Muon for the hidden matrices and AdamW for all other weights, as one optimiser with one state_dict.

Muon (Jordan et al. 2024) updates a matrix by the orthogonal factor of its gradient's momentum, approximated with a few
products. `torch.optim.Muon` handles one matrix at a time, always in bfloat16, which costs a CPU without bfloat16
seconds per step and a GPU hundreds of launches. Here all matrices of one shape are one batched product, in the
training's precision.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable

import torch
from torch import nn

_COEFFICIENTS = 3.4445, -4.7750, 2.0315  # of the quintic iteration, as published
_ITERATIONS = 5


def orthogonal(matrices: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Matrices (n, rows, columns) -> approximately U V^T of each one's singular value decomposition.

    Newton-Schulz iteration of fifth order; singular values of the result are between 0.7 and 1.2.
    """
    a, b, c = _COEFFICIENTS
    x = matrices.to(dtype)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the weights of the linear layers that are neither token vectors nor the output layer."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    output = model.get_output_embeddings()  # type: ignore[operator]
    outside = embeddings | {id(output.weight)}
    linear = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)} - outside
    return [weight for weight in model.parameters() if id(weight) in linear and weight.requires_grad]


class MuonAdamW(torch.optim.Optimizer):
    """Two groups of parameters: matrices, updated by Muon at a rate matched to AdamW's, and others, by AdamW."""

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        others: Iterable[nn.Parameter],
        *,
        lr: float,
        betas: tuple[float, float],
        weight_decay: float,
        momentum: float,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        adamw = torch.optim.AdamW(list(others), lr=lr, betas=betas, weight_decay=weight_decay, fused=True)
        muon = {"params": list(matrices), "momentum": momentum}
        super().__init__([muon], {"lr": lr, "weight_decay": weight_decay})
        self.param_groups.append(adamw.param_groups[0])
        self.adamw, self.dtype = adamw, dtype
        self._share()

    def _share(self) -> None:
        # The inner AdamW uses this optimiser's groups and state, so that one state_dict has both.
        self.adamw.param_groups = self.param_groups[1:]
        self.adamw.state = self.state

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self._share()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        group = self.param_groups[0]
        by_shape: dict[torch.Size, list[torch.Tensor]] = defaultdict(list)
        for matrix in group["params"]:
            if matrix.grad is not None:
                by_shape[matrix.shape].append(matrix)
        for shape, matrices in by_shape.items():
            directions = []
            for matrix in matrices:
                state, gradient = self.state[matrix], matrix.grad
                assert gradient is not None
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(matrix)
                state["momentum_buffer"].lerp_(gradient, 1 - group["momentum"])
                directions.append(gradient.lerp(state["momentum_buffer"], group["momentum"]))  # Nesterov's
            updates = orthogonal(torch.stack(directions), self.dtype).to(matrices[0].dtype)
            rate = group["lr"] * 0.2 * math.sqrt(max(shape))  # gives updates the size of AdamW's
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(matrices, list(updates.unbind(0)), alpha=-rate)
        self.adamw.step()
