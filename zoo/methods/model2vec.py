"""model2vec: PCA of each token alone through the encoder, weighted by rank."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Runtime, Traits
from zoo.engine.backbone import Backbone, find_backbone
from zoo.engine.batching import EncodingStats, encode_table
from zoo.engine.states import pooled
from zoo.engine.tokens import TokenTable, frame_of
from zoo.methods.base import WIDEST, BackboneRecipe, check_at_most, check_positive
from zoo.methods.token_table import TokenTableEncoder, tokenizer_of
from zoo.plugins import register_method

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_REMOVED = re.compile(r"\[unused\d+\]")


@dataclass(frozen=True, kw_only=True)
class Model2VecRecipe:
    """The package's defaults (model2vec 0.10)."""

    backbone: str = BackboneRecipe.backbone
    revision: str | None = None
    dim: int = 256
    # Weights a / (a + p), p by Zipf's law from a token's rank in the vocabulary. None: 1.
    a: float | None = 1e-4

    def __post_init__(self) -> None:
        check_positive(self, "dim", "a")
        check_at_most(self, WIDEST, "dim")


def kept_tokens(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Ids with a vector, ascending: without unused tokens, and of special tokens only padding and unknown."""
    special = {id_: token.content for id_, token in tokenizer.get_added_tokens_decoder().items()}
    names = sorted((id_, token) for token, id_ in tokenizer.get_vocab().items())
    ids = [i for i, name in names if not _REMOVED.match(name) and (i not in special or re.search("(?i)pad|unk", name))]
    return np.array(ids)


def principal(vectors: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
    """First `dim` principal components (n, dim), each with a positive largest value."""
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred / (len(vectors) - 1))
    scores: NDArray[np.float32] = centred @ directions[:, ::-1][:, :dim]
    return scores * np.sign(scores[np.abs(scores).argmax(axis=0), range(scores.shape[1])])


@register_method("model2vec")
class Model2Vec(TokenTableEncoder[Model2VecRecipe]):
    """A static table distilled from an encoder without a text.

    Examples:
        >>> from zoo import Runtime
        >>> Model2Vec(Model2Vec.Recipe(backbone="zoo-small", dim=64), Runtime()).encode(["a small dog"]).shape
        (1, 64)
    """

    version = 2

    def __init__(self, recipe: Model2VecRecipe, runtime: Runtime) -> None:
        exact = replace(runtime, precision="fp32")
        backbone = Backbone.load(recipe.backbone, recipe.revision, exact)
        tokenizer = tokenizer_of(backbone.source)
        ids = kept_tokens(tokenizer)
        alone = TokenTable(ids.astype(np.int32), np.arange(len(ids) + 1))
        states = encode_table(
            alone.framed(*frame_of(backbone.tokenizer)),
            lambda ids, mask: pooled(backbone.model, ids, mask, "mean"),
            dim=backbone.dim,
            pad_id=backbone.pad_id,
            runtime=exact,
            stats=EncodingStats(),
            positions=backbone.max_length,
        )
        vectors = principal(states, recipe.dim)
        if recipe.a is not None:
            shares = 1 / np.arange(2, len(ids) + 2)
            vectors = vectors * (recipe.a / (recipe.a + shares / shares.sum()))[:, None]
        table = torch.zeros(tokenizer.get_vocab_size(), vectors.shape[1])
        table[ids] = torch.from_numpy(vectors).float()
        super().__init__(recipe, runtime, tokenizer, table)

    @classmethod
    def check_recipe(cls, recipe: Model2VecRecipe, runtime: Runtime) -> None:
        kept_tokens(tokenizer_of(Backbone.load(recipe.backbone, recipe.revision, runtime).source))

    @classmethod
    def traits(cls, recipe: Model2VecRecipe) -> Traits:
        return Traits(exports=True, precision="fp32")

    @classmethod
    def sources(cls, recipe: Model2VecRecipe, runtime: Runtime) -> dict[str, Any]:
        source = find_backbone(recipe.backbone, recipe.revision, allow_pickle=runtime.allow_pickle)
        return {"backbone": source.identity()}
