"""Token embeddings restricted to the training texts' tokens.

An unused row has a zero gradient and, without weight decay, does not change. Still each step clears its gradient, adds
to its norm and updates its moments: a fifth of a step on few short texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

from zoo.engine.backbone import token_embeddings
from zoo.errors import ContractError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class SubsetEmbedding(nn.Module):
    """Trains some rows of an embedding layer; in eval mode it is the full layer."""

    def __init__(self, embedding: nn.Embedding, tokens: torch.Tensor) -> None:
        super().__init__()
        # A list, so that its weights are not parameters of this module.
        self.embedding = [embedding]
        self.tokens = tokens.to(embedding.weight.device)
        self.weight = nn.Parameter(embedding.weight.detach()[self.tokens], embedding.weight.requires_grad)
        self.place = torch.full((embedding.num_embeddings,), -1, device=self.tokens.device)
        self.place[self.tokens] = torch.arange(len(tokens), device=self.tokens.device)
        pad = embedding.padding_idx
        self.padding = int(self.place[pad]) if pad is not None else -1

    def train(self, mode: bool = True) -> SubsetEmbedding:
        """Set the mode; eval mode first copies the trained rows back."""
        if not mode:
            with torch.no_grad():
                self.embedding[0].weight.index_copy_(0, self.tokens, self.weight)
        return super().train(mode)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids (...) -> embeddings (..., dim); raises ContractError for another token in training."""
        if not self.training:
            return self.embedding[0](ids)  # type: ignore[no-any-return]
        places = self.place[ids]
        if bool((places < 0).any()):
            raise ContractError(f"token {int(ids[places < 0][0])} is in a batch, but not among those to be trained.")
        return F.embedding(places, self.weight, self.padding if self.padding >= 0 else None)


@contextmanager
def training_only(model: PreTrainedModel, tokens: torch.Tensor) -> Iterator[None]:
    """A `SubsetEmbedding` inside the block; its rows are copied back at the end."""
    embedding = token_embeddings(model)
    subset = SubsetEmbedding(embedding, tokens)
    model.set_input_embeddings(subset.train(model.training))
    try:
        yield
    finally:
        subset.eval()
        model.set_input_embeddings(embedding)
