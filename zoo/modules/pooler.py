"""The poolers of SimCSE's code, and a module of a transformer with one of them, for training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from zoo.engine.pooling import Pooling
from zoo.engine.states import pooled
from zoo.modules.heads import TanhHead

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Pooler = Literal["cls", "cls_before_pooler", "avg", "avg_top2", "avg_first_last"]
"""The five poolers of SimCSE's code; only "cls" has an MLP."""

POOLINGS: dict[str, Pooling] = {
    "cls": "cls",
    "cls_before_pooler": "cls",
    "avg": "last",
    "avg_top2": "top2",
    "avg_first_last": "first-last-h1",  # as in the code since 2022; the published numbers used the embedding layer
}


class TrainedPooler(nn.Module):
    """Token ids and mask (n, length) -> vectors (n, dim): a transformer, one of the five poolers, and its MLP."""

    def __init__(self, model: PreTrainedModel, pooler: Pooler, mlp: nn.Module | None = None) -> None:
        super().__init__()
        self.model = model
        self.how = POOLINGS[pooler]
        config = model.config
        has_mlp = pooler == "cls"
        self.mlp = (mlp or TanhHead(config.hidden_size, config.initializer_range)) if has_mlp else nn.Identity()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Encode, pool, and apply the MLP if the pooler has one."""
        vectors: torch.Tensor = self.mlp(pooled(self.model, input_ids, attention_mask, self.how))
        return vectors
