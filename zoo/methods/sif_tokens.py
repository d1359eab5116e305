"""SIF and uSIF over a transformer's token embeddings: the static vectors of PromptBERT section 3, weighted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo.encoder import Runtime, Start
from zoo.engine.backbone import Backbone, find_backbone
from zoo.engine.tokens import TokenTable, tokenise
from zoo.methods.base import BackboneRecipe
from zoo.methods.sif import WeightedAverages, Weighting
from zoo.methods.static import static_start
from zoo.methods.wordvectors import Words
from zoo.plugins import register_method

_CHUNK = 20_000


@dataclass(frozen=True, kw_only=True)
class TokenSIFRecipe(Weighting, BackboneRecipe):
    def __post_init__(self) -> None:
        BackboneRecipe.__post_init__(self)
        self.check()


class TokenWords(Words):
    """Tokens and their rows of the embedding matrix, without [CLS] and [SEP]; every token has a vector."""

    def __init__(self, recipe: TokenSIFRecipe, runtime: Runtime) -> None:
        backbone = Backbone.load(recipe.backbone, recipe.revision, runtime)
        self.location, self.tokenizer, self.max_length = backbone.source.location, backbone.tokenizer, recipe.max_length
        self.vectors = backbone.token_vectors.float().cpu().numpy()
        self.names = self.tokenizer.convert_ids_to_tokens(list(range(len(self.vectors))))

    def table(self, texts: Sequence[str]) -> TokenTable:
        return tokenise(self.tokenizer, texts, max_length=self.max_length, add_special_tokens=False)

    def count(self, texts: Sequence[str]) -> dict[str, int]:
        counts = Counter[str]()
        for start in range(0, len(texts), _CHUNK):
            ids, numbers = np.unique(self.table(texts[start : start + _CHUNK]).ids, return_counts=True)
            counts.update({self.names[i]: int(n) for i, n in zip(ids, numbers, strict=True)})
        return counts


@register_method("sif-tokens")
class TokenSIF(WeightedAverages[TokenSIFRecipe]):
    """SIF or uSIF of static token embeddings.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = TokenSIF(TokenSIF.Recipe(fit_on="corpus"), Runtime())
        >>> _ = encoder.fit(Corpus("toy", ["the city by night", "the city by day"]), run=Run())
        >>> encoder.encode(["a city"]).shape
        (1, 384)
    """

    words: TokenWords

    def open_words(self) -> TokenWords:
        return TokenWords(self.recipe, self.runtime)

    @classmethod
    def start(cls, recipe: TokenSIFRecipe) -> Start | None:
        """Plain mean of the same embeddings; unlike SIF it counts [CLS] and [SEP]."""
        return static_start(recipe)

    @classmethod
    def sources(cls, recipe: TokenSIFRecipe, runtime: Runtime) -> dict[str, Any]:
        source = find_backbone(recipe.backbone, recipe.revision, allow_pickle=runtime.allow_pickle)
        return {"backbone": source.identity(), **super().sources(recipe, runtime)}

    def places(self) -> dict[str, Any]:
        return {"backbone": self.words.location, **super().places()}
