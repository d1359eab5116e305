"""Encoders as modules of sentence-transformers, as `zoo.formats.export` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zoo.engine.backbone import Backbone
from zoo.engine.pooling import Pooling

if TYPE_CHECKING:
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense, Module
    from tokenizers import Tokenizer

EXPORTED_POOLINGS = {"cls": "cls", "mean": "mean", "last": "mean", "max": "max", "lasttoken": "lasttoken"}
"""Poolings of the last layer and their names in the library, which can pool no other layer."""


@dataclass(frozen=True)
class StockModules:
    """An encoder as a transformer, the pooling of its last layer, and the library's modules that follow."""

    backbone: Backbone
    pooling: Pooling | Literal["lasttoken"]  # one of EXPORTED_POOLINGS
    max_length: int
    after: Sequence[Module] = ()
    # of a text, in the language of templates for chats
    template: str | None = None


@dataclass(frozen=True)
class StaticModules:
    """An encoder as the mean of a text's rows in a table (vocabulary, dim), scaled to length 1."""

    tokenizer: Tokenizer
    table: torch.Tensor


def dense(weight: torch.Tensor, bias: torch.Tensor, activation: Literal["Tanh", "Identity"]) -> Dense:
    """Return the library's linear layer with a weight (out, in) and a bias (out,), float32, and its activation."""
    from sentence_transformers.sentence_transformer.modules import Dense
    from torch import nn

    outputs, inputs = weight.shape
    layer = Dense(inputs, outputs, activation_function=getattr(nn, activation)())
    layer.linear.load_state_dict({"weight": weight, "bias": bias})
    return layer.requires_grad_(False)
