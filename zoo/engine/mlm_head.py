"""The masked-language-model heads of the transformers library: states -> logits, whatever the model calls its parts."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from zoo.errors import UsageError


class ScoresByEmbeddings(nn.Module):
    """A head that is handed the token embeddings at each call (DeBERTa's newer one), with a copy of its own."""

    def __init__(self, head: Any, embeddings: Any) -> None:
        super().__init__()
        self.head = head
        self.words = copy.deepcopy(embeddings)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States (n, dim) -> logits (n, vocabulary)."""
        logits: torch.Tensor = self.head(states, self.words)
        return logits


def head_of(model: Any, name: str) -> Any:
    """Return the head of a masked language model: a module, states (n, dim) -> logits (n, vocabulary).

    Raises UsageError for an architecture whose head is not known here; `name` is the checkpoint's.
    """
    if hasattr(model, "cls"):  # BERT, DeBERTa in its older form
        return model.cls.predictions
    if hasattr(model, "lm_predictions"):  # DeBERTa in its newer form
        return ScoresByEmbeddings(model.lm_predictions.lm_head, model.get_input_embeddings())
    if hasattr(model, "lm_head"):  # RoBERTa, XLM-R, CamemBERT, MPNet
        return model.lm_head
    if hasattr(model, "predictions"):  # ALBERT
        return model.predictions
    if hasattr(model, "vocab_projector"):  # DistilBERT
        return nn.Sequential(model.vocab_transform, model.activation, model.vocab_layer_norm, model.vocab_projector)
    if hasattr(model, "generator_predictions"):  # ELECTRA
        return nn.Sequential(model.generator_predictions, model.generator_lm_head)
    if hasattr(model, "head") and hasattr(model, "decoder"):  # ModernBERT
        return nn.Sequential(model.head, model.decoder)
    raise UsageError(f"backbone {name!r}: where {type(model).__name__} has its MLM head is not known; use another one.")


def transform_of(head: Any) -> tuple[nn.Linear, nn.LayerNorm] | None:
    """Return the dense layer and the LayerNorm that a head applies before it scores the words; None if not found."""
    dense = [module for module in head.modules() if isinstance(module, nn.Linear)]
    norms = [module for module in head.modules() if isinstance(module, nn.LayerNorm)]
    inner = [layer for layer in dense if norms and layer.out_features == norms[0].normalized_shape[0]]
    return (inner[0], norms[0]) if inner else None
