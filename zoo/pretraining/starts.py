"""Initial weights with which small models learn sooner: token vectors, sinusoidal positions, log-frequency bias.

With the usual initialisation (std 0.02) a small BERT predicts only frequent words for millions of tokens. Token vectors
are counted in the text (PPMI), or taken from a table that was trained before, such as static-contrastive's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import read_tensors
from zoo.formats.word_vectors import find_word_vectors, read_word_vectors
from zoo.paths import cache_folder, user_path
from zoo.pretraining.parts import embedding_of, head_parts, layer_outputs, positions_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, kw_only=True)
class StartRecipe:
    """Initial weights; the defaults are zoo-mini's."""

    std: float = 0.06  # of all other weights; BERT's is 0.02
    tokens: Literal["random", "ppmi", "table"] = "ppmi"
    table: str | None = None  # for tokens=table: a folder in model2vec's format, or word vectors (token_table)
    positions: Literal["random", "sinusoidal"] = "sinusoidal"
    output_bias: Literal["zero", "log-frequency"] = "log-frequency"
    row_norm: float = 0.8  # length of token vectors and sinusoids
    type_scale: float = 0.1  # factor of token-type vectors, which have no information in rows of one segment
    residual_scale: float = 1.0  # factor of what each layer adds to its input; near 0 the first states are the tokens'
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


def find_table(place: str) -> Path | None:
    """Return the folder of a token table, by path or by its name in the cache; None for word vectors.

    Raises MissingError, which says how to make one.
    """
    for folder in (user_path(place), cache_folder() / "models" / place):
        if (folder / "model.safetensors").is_file():
            return folder
    try:
        find_word_vectors(place, "table")
    except MissingError as error:
        raise MissingError(
            f"{error} A token table is the folder that `zoo-bench export static-contrastive-neighbours"
            f" {cache_folder() / 'models' / 'zoo-words'}` writes after a run of that method."
        ) from error
    return None


def table_rows(place: str, vocabulary: dict[str, int]) -> tuple[dict[str, int], NDArray[np.float32]]:
    """Return the row of each token in a table's vectors (rows, dim); of word vectors, of the words that are tokens.

    Raises UsageError for a table of another vocabulary.
    """
    folder = find_table(place)
    if folder is None:
        words, found = read_word_vectors(find_word_vectors(place, "table"))
        rows = {token: words[token] for token in vocabulary if token in words}
    else:
        from tokenizers import Tokenizer

        (found,) = (t.float().numpy() for t in read_tensors(folder / "model.safetensors")[0].values())
        rows = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
        if len(rows) != len(found):
            raise CorruptError(f"table {folder}: {len(found):,} rows for the {len(rows):,} tokens of its tokenizer.")
    if not rows or (folder is not None and rows != vocabulary):
        raise UsageError(
            f"table {place!r} has another vocabulary ({len(rows):,} tokens) than the tokenizer ({len(vocabulary):,}"
            " tokens), so its vectors would stand for other tokens; train it with vocabulary= this tokenizer's name."
        )
    return rows, found


def token_table(
    place: str, tokenizer: PreTrainedTokenizerBase, dim: int, row_norm: float, seed: int
) -> NDArray[np.float32]:
    """Return vectors (vocabulary, dim) of a table's tokens or of the words that are tokens, scaled to `row_norm`.

    Wider vectors give their first principal directions; narrower ones are turned into random ones of equal products.
    Tokens without a vector have random ones. Raises UsageError for a table of another vocabulary.
    """
    vocabulary, rng = tokenizer.get_vocab(), np.random.default_rng(seed)
    rows, found = table_rows(place, vocabulary)
    vectors = np.zeros((len(vocabulary), found.shape[1]))
    vectors[[vocabulary[token] for token in rows]] = found[list(rows.values())]
    if found.shape[1] > dim:
        vectors = vectors @ np.linalg.eigh(vectors.T @ vectors)[1][:, ::-1][:, :dim]
    elif found.shape[1] < dim:
        vectors = vectors @ np.linalg.qr(rng.normal(size=(dim, found.shape[1])))[0].T
    unseen = ~vectors.any(axis=1)
    vectors[unseen] = rng.normal(size=(int(unseen.sum()), dim))
    scaled: NDArray[np.float32] = (row_norm * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("f4")
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
def start_weights(
    model: PreTrainedModel, ids: NDArray[Any], tokenizer: PreTrainedTokenizerBase, recipe: StartRecipe, seed: int
) -> None:
    """Set the weights of a language model before training, in place; `ids` is the token stream."""
    from transformers.pytorch_utils import Conv1D  # GPT-2's linear maps

    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding | Conv1D):
            module.weight.copy_(torch.randn(module.weight.shape, generator=generator) * recipe.std)
        if isinstance(module, nn.Linear | Conv1D) and module.bias is not None:
            module.bias.zero_()
    for output in layer_outputs(model):
        output.get_parameter("weight").mul_(recipe.residual_scale)
    words, (_, decoder) = embedding_of(model, "word").weight, head_parts(model)
    vocabulary, dim = words.shape
    if recipe.tokens != "random":
        if recipe.tokens == "ppmi":
            vectors = ppmi_vectors(ids, vocabulary, dim, recipe, seed)
        else:
            assert recipe.table is not None  # the recipe's check
            vectors = token_table(recipe.table, tokenizer, dim, recipe.row_norm, seed)
        words[: len(vectors)] = torch.from_numpy(vectors)
        decoder.weight.copy_(words)  # the same tensor when tied
    if recipe.positions == "sinusoidal":
        places = embedding_of(model, "position").weight
        rows = places[len(places) - positions_of(model.config) :]
        rows.copy_(torch.from_numpy(sinusoids(len(rows), dim, recipe.row_norm)))
    if model.config.model_type != "gpt2":
        embedding_of(model, "token_type").weight.mul_(recipe.type_scale)
    if recipe.output_bias == "log-frequency":
        counts = np.bincount(np.asarray(ids[: recipe.ppmi_tokens], dtype=np.int64), minlength=vocabulary) + 0.1
        log_frequency = np.log(counts / counts.sum())
        decoder.bias.copy_(torch.from_numpy(log_frequency - log_frequency.max()))
