"""The memory that a training needs, by formula, before it starts."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_STATES = {"AdamW": 2, "TransformersAdamW": 2, "RMSprop": 1}


def needed(objective: nn.Module, optimizer: torch.optim.Optimizer, tokens: int, precision: str) -> tuple[float, float]:
    """Return the GB of weights, gradients and optimiser, and those that a batch of tokens keeps for the backward pass.

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
