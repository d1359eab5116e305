"""Access to the parts of a language model, which BERT, RoBERTa, ALBERT and GPT-2 name differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


def head_parts(model: PreTrainedModel) -> tuple[Callable[[torch.Tensor], torch.Tensor], nn.Linear]:
    """Return the head's transform of states (n, width), and the output layer, of a language model."""
    if model.config.model_type == "gpt2":  # the last layer norm is the encoder's
        return nn.Identity(), _linear(model, "lm_head")
    if hasattr(model, "cls"):  # BERT
        return model.get_submodule("cls.predictions.transform"), _linear(model, "cls.predictions.decoder")
    if hasattr(model, "lm_head"):  # RoBERTa
        head = model.get_submodule("lm_head")
        dense, norm = head.get_submodule("dense"), head.get_submodule("layer_norm")
        return lambda states: norm(nn.functional.gelu(dense(states))), _linear(head, "decoder")
    head = model.get_submodule("predictions")  # ALBERT
    dense, act, norm = (head.get_submodule(name) for name in ("dense", "activation", "LayerNorm"))
    return lambda states: norm(act(dense(states))), _linear(head, "decoder")


def layer_outputs(model: PreTrainedModel) -> list[nn.Module]:
    """Return the linear maps whose results are added to the residual stream: two of each layer."""
    # The first of BERT and RoBERTa, the next two of ALBERT, the last of GPT-2.
    names = (".output.dense", ".attention.dense", ".ffn_output", ".c_proj")
    return [module for name, module in model.base_model.named_modules() if name.endswith(names)]


def encoder_of(model: PreTrainedModel) -> PreTrainedModel:
    """Return the transformer without the head."""
    from transformers import PreTrainedModel

    encoder = model.base_model
    assert isinstance(encoder, PreTrainedModel)
    return encoder


def embedding_of(model: PreTrainedModel, of: Literal["word", "position", "token_type"]) -> nn.Embedding:
    """Return the embedding layer of words (tokens), positions or token types."""
    names = {"word": "wte", "position": "wpe"} if model.config.model_type == "gpt2" else {}
    layer = model.base_model.get_submodule(names.get(of, f"embeddings.{of}_embeddings"))
    assert isinstance(layer, nn.Embedding)
    return layer


def _linear(module: nn.Module, name: str) -> nn.Linear:
    layer = module.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    return layer


def positions_of(config: PreTrainedConfig) -> int:
    """Return the most tokens that a row may have (RoBERTa's positions start after padding's)."""
    before = int(config.pad_token_id) + 1 if config.model_type == "roberta" else 0
    return int(config.max_position_embeddings) - before
