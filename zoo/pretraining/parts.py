"""Where the parts of a masked language model are: BERT, RoBERTa and ALBERT name them differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def head_of(model: Any) -> tuple[Callable[[torch.Tensor], torch.Tensor], Any]:
    """Return of a masked language model what makes output states of states (n, width), and its output layer."""
    if hasattr(model, "cls"):  # BERT
        return model.cls.predictions.transform, model.cls.predictions.decoder
    if hasattr(model, "lm_head"):  # RoBERTa
        head = model.lm_head
        return lambda states: head.layer_norm(torch.nn.functional.gelu(head.dense(states))), head.decoder
    head = model.predictions  # ALBERT
    return lambda states: head.LayerNorm(head.activation(head.dense(states))), head.decoder


def token_embeddings(model: Any) -> Any:
    """Return the embedding block: word, position and token-type embeddings."""
    return model.base_model.embeddings


def positions_of(config: Any) -> int:
    """Return the most tokens a row may have (RoBERTa's positions start after that of padding)."""
    before = int(config.pad_token_id) + 1 if config.model_type == "roberta" else 0
    return int(config.max_position_embeddings) - before
