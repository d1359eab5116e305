"""Initial weights with which small models learn sooner: PPMI token vectors, sinusoidal positions, log-frequency bias.

With the usual initialisation (std 0.02) a small BERT predicts only frequent words for millions of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zoo.modules.ppmi import ppmi_vectors

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class StartRecipe:
    """Initial weights; the defaults are zoo-mini's."""

    # Of all other weights; BERT's is 0.02.
    std: float = 0.06
    tokens: Literal["random", "ppmi"] = "ppmi"
    positions: Literal["random", "sinusoidal"] = "sinusoidal"
    output_bias: Literal["zero", "log-frequency"] = "log-frequency"
    row_norm: float = 0.8
    # Token types have no information in rows of one segment.
    type_scale: float = 0.1
    ppmi_window: int = 4
    ppmi_smoothing: float = 0.75
    ppmi_tokens: int = 20_000_000


def sinusoids(positions: int, dim: int, norm: float) -> NDArray[np.float32]:
    """Return sine and cosine position vectors (positions, dim) of norm `norm` (Vaswani et al. 2017, section 3.5)."""
    rates = 10_000.0 ** (-np.arange(0, dim, 2) / dim)
    angles = np.arange(positions)[:, None] * rates[None, :]
    vectors = np.zeros((positions, dim))
    vectors[:, 0::2], vectors[:, 1::2] = np.sin(angles), np.cos(angles)[:, : dim // 2]
    scaled: NDArray[np.float32] = (norm * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return scaled


@torch.no_grad()
def start_weights(model: PreTrainedModel, ids: NDArray[Any], recipe: StartRecipe, seed: int) -> None:
    """Set the weights of a language model before training, in place; `ids` is the token stream."""
    from transformers.pytorch_utils import Conv1D

    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding | Conv1D):
            module.weight.copy_(torch.randn(module.weight.shape, generator=generator) * recipe.std)
        if isinstance(module, nn.Linear | Conv1D) and module.bias is not None:
            module.bias.zero_()
    words, output = model.get_input_embeddings().get_parameter("weight"), model.get_output_embeddings()
    assert isinstance(output, nn.Linear)
    vocabulary, dim = words.shape
    if recipe.tokens == "ppmi":
        vectors = ppmi_vectors(
            ids[: recipe.ppmi_tokens],
            vocabulary,
            dim,
            seed=seed,
            row_norm=recipe.row_norm,
            window=recipe.ppmi_window,
            smoothing=recipe.ppmi_smoothing,
        )
        words.copy_(torch.from_numpy(vectors))
        output.weight.copy_(words)
    for name, weight in model.named_parameters():
        if name.endswith(("position_embeddings.weight", "wpe.weight")) and recipe.positions == "sinusoidal":
            first = model.config.pad_token_id + 1 if model.config.model_type == "roberta" else 0
            weight[first:].copy_(torch.from_numpy(sinusoids(len(weight) - first, dim, recipe.row_norm)))
        if name.endswith("token_type_embeddings.weight"):
            weight.mul_(recipe.type_scale)
    if recipe.output_bias == "log-frequency":
        counts = np.bincount(np.asarray(ids[: recipe.ppmi_tokens], dtype=np.int64), minlength=vocabulary) + 0.1
        log_frequency = np.log(counts / counts.sum())
        output.bias.copy_(torch.from_numpy(log_frequency - log_frequency.max()))
