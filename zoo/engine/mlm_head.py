"""The masked-language-model heads (states -> logits) of the architectures in the transformers library."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import nn

from zoo.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class ScoresByEmbeddings(nn.Module):
    """A head that takes the token embeddings as an argument (newer DeBERTa); it holds a copy of them."""

    def __init__(self, head: nn.Module, embeddings: nn.Module) -> None:
        super().__init__()
        self.head = head
        self.words = copy.deepcopy(embeddings)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States (n, dim) -> logits (n, vocabulary)."""
        logits: torch.Tensor = self.head(states, self.words)
        return logits


def mlm_head_of(model: PreTrainedModel, name: str) -> nn.Module:
    """Return a model's MLM head, states (n, dim) -> logits (n, vocabulary); raises UsageError if it is not known."""
    # The heads in turn: BERT, newer DeBERTa, RoBERTa, ALBERT, DistilBERT, ELECTRA, ModernBERT.
    if hasattr(model, "cls"):
        return model.get_submodule("cls.predictions")
    if hasattr(model, "lm_predictions"):
        return ScoresByEmbeddings(model.get_submodule("lm_predictions.lm_head"), model.get_input_embeddings())
    if hasattr(model, "lm_head"):
        return model.get_submodule("lm_head")
    if hasattr(model, "predictions"):
        return model.get_submodule("predictions")
    if hasattr(model, "vocab_projector"):
        return _sequence(model, "vocab_transform", "activation", "vocab_layer_norm", "vocab_projector")
    if hasattr(model, "generator_predictions"):
        return _sequence(model, "generator_predictions", "generator_lm_head")
    if hasattr(model, "head") and hasattr(model, "decoder"):
        return _sequence(model, "head", "decoder")
    raise UsageError(f"backbone {name!r}: where {type(model).__name__} has its MLM head is not known; use another one.")


def _sequence(model: PreTrainedModel, *names: str) -> nn.Sequential:
    return nn.Sequential(*(model.get_submodule(name) for name in names))


def transform_of(head: nn.Module) -> tuple[nn.Linear, nn.LayerNorm] | None:
    """Return the dense layer and the LayerNorm that a head applies before it scores the words; None if not found."""
    dense = [module for module in head.modules() if isinstance(module, nn.Linear)]
    norms = [module for module in head.modules() if isinstance(module, nn.LayerNorm)]
    inner = [layer for layer in dense if norms and layer.out_features == norms[0].normalized_shape[0]]
    return (inner[0], norms[0]) if inner else None
