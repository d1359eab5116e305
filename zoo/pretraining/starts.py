"""Initial weights with which small models learn sooner: PPMI token vectors, sinusoidal positions, log-frequency bias.

With the usual initialisation (std 0.02) a small BERT predicts only frequent words for millions of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class StartRecipe:
    """Initial weights; the defaults are zoo-mini's."""

    std: float = 0.06  # of all other weights; BERT's is 0.02
    tokens: Literal["random", "ppmi"] = "ppmi"
    positions: Literal["random", "sinusoidal"] = "sinusoidal"
    output_bias: Literal["zero", "log-frequency"] = "log-frequency"
    row_norm: float = 0.8  # length of token vectors and sinusoids
    type_scale: float = 0.1  # factor of token-type vectors, which have no information in rows of one segment
    ppmi_window: int = 4
    ppmi_smoothing: float = 0.75  # exponent of the context frequencies
    ppmi_tokens: int = 20_000_000  # number of tokens to count, from the start of the stream


def ppmi_vectors(ids: NDArray[Any], vocabulary: int, dim: int, recipe: StartRecipe, seed: int) -> NDArray[np.float32]:
    """Return U sqrt(S) of the positive PMI matrix (vocabulary, dim), centred, rows scaled to `row_norm`.

    Pairs within the window have weight 1/distance; tokens that do not occur have random vectors.
    """
    from sklearn.utils.extmath import randomized_svd

    ids = np.asarray(ids[: recipe.ppmi_tokens], dtype=np.int64)
    counts = sparse.csr_matrix((vocabulary, vocabulary), dtype=np.float64)
    for distance in range(1, recipe.ppmi_window + 1):
        weight = np.full(len(ids) - distance, 1.0 / distance)
        counts = counts + sparse.coo_matrix((weight, (ids[:-distance], ids[distance:])), shape=counts.shape).tocsr()
    counts = (counts + counts.T).tocoo()
    totals = np.bincount(counts.row, counts.data, vocabulary)
    contexts = totals**recipe.ppmi_smoothing
    with np.errstate(divide="ignore"):
        pmi = np.log(counts.data / totals[counts.row] / (contexts / contexts.sum())[counts.col])
    positive = pmi > 0
    shape = (vocabulary, vocabulary)
    matrix = sparse.csr_matrix((pmi[positive], (counts.row[positive], counts.col[positive])), shape=shape)
    u, s, _ = randomized_svd(matrix, dim, n_iter=4, random_state=seed)
    vectors = u * np.sqrt(s)
    seen = totals > 0
    vectors[seen] -= vectors[seen].mean(axis=0)
    vectors[~seen] = np.random.default_rng(seed).normal(size=(int((~seen).sum()), dim))
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (recipe.row_norm * vectors / np.maximum(norms, 1e-8)).astype(np.float32)
    return scaled


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
    from transformers.pytorch_utils import Conv1D  # GPT-2's linear maps

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
        words.copy_(torch.from_numpy(ppmi_vectors(ids, vocabulary, dim, recipe, seed)))
        output.weight.copy_(words)  # the same tensor when tied
    for name, weight in model.named_parameters():
        if name.endswith(("position_embeddings.weight", "wpe.weight")) and recipe.positions == "sinusoidal":
            first = model.config.pad_token_id + 1 if model.config.model_type == "roberta" else 0  # that is used
            weight[first:].copy_(torch.from_numpy(sinusoids(len(weight) - first, dim, recipe.row_norm)))
        if name.endswith("token_type_embeddings.weight"):
            weight.mul_(recipe.type_scale)
    if recipe.output_bias == "log-frequency":
        counts = np.bincount(np.asarray(ids[: recipe.ppmi_tokens], dtype=np.int64), minlength=vocabulary) + 0.1
        log_frequency = np.log(counts / counts.sum())
        output.bias.copy_(torch.from_numpy(log_frequency - log_frequency.max()))
