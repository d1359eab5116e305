"""Projection heads, the poolers of SimCSE's code, SIF's weighted mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

import torch
from torch import nn

from zoo.engine.backbone import token_embeddings
from zoo.engine.narrow import all_rows_alike
from zoo.engine.states import Pooling, pooled
from zoo.engine.tokens import sif_weights, tokenise
from zoo.progress import Progress

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


Head = TypeVar("Head", bound=nn.Module)


def untrained(make: Callable[[], Head]) -> Head:
    """A head in eval mode with fixed weights, for an encoder before `fit`, which makes new weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().eval()


class TanhHead(nn.Module):
    """SimCSE's MLP: Linear(dim, dim) and tanh, weights N(0, 0.02^2), bias 0; unsupervised: in training only."""

    def __init__(self, dim: int, initializer_range: float = 0.02) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        nn.init.normal_(self.dense.weight, std=initializer_range)
        nn.init.zeros_(self.dense.bias)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        with all_rows_alike(vectors.device):
            output: torch.Tensor = torch.tanh(self.dense(vectors))
        return output


Pooler = Literal["cls", "cls_before_pooler", "avg", "avg_top2", "avg_first_last", "sif"]
"""The five poolers of SimCSE's code, of which only "cls" has an MLP, and SIF's mean of the last layer."""

POOLINGS: dict[str, Pooling] = {
    "cls": "cls",
    "cls_before_pooler": "cls",
    "avg": "last",
    "avg_top2": "top2",
    # As in the code since 2022; the published numbers used the embedding layer.
    "avg_first_last": "first-last-h1",
    "sif": "sif",
}


class TokenWeights(nn.Module):
    """SIF's weight a / (a + p) of each token, for the pooling "sif"; 1 before the count."""

    weights: torch.Tensor

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.register_buffer("weights", torch.ones(token_embeddings(model).num_embeddings, device=model.device))
        model.register_buffer("token_weights", self.weights, persistent=False)

    def count(self, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], a: float, progress: Progress) -> None:
        """Count the training text's tokens, special tokens too: they are states of every text."""
        ids = tokenise(tokenizer, sentences, max_length=None, progress=progress).ids
        self.weights.copy_(sif_weights(ids, len(self.weights), a))


class TrainedPooler(nn.Module):
    """Ids and mask (n, length) -> vectors (n, dim): transformer, pooler and, if any, its MLP."""

    def __init__(self, model: PreTrainedModel, pooler: Pooler, mlp: nn.Module | None = None) -> None:
        super().__init__()
        self.model = model
        self.how = POOLINGS[pooler]
        config = model.config
        self.dim: int = config.hidden_size
        has_mlp = pooler == "cls"
        self.mlp = (mlp or TanhHead(self.dim, config.initializer_range)) if has_mlp else nn.Identity()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.mlp(pooled(self.model, input_ids, attention_mask, self.how))
        return vectors
