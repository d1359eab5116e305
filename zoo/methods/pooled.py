"""The pooling baselines: [CLS], the maximum, and averages of one or two layers (PromptBERT tables 1 and 5, BURT 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from zoo.encoder import Start, Traits
from zoo.engine.pooling import Pooling
from zoo.formats.sentence_transformers import EXPORTED_POOLINGS
from zoo.methods.base import BackboneEncoder, BackboneFields, BackboneRecipe


class Cls(BackboneEncoder[BackboneRecipe]):
    """[CLS] of the last layer, without pooler or head ("cls_before_pooler" of SimCSE's code).

    Example:
        >>> from zoo import Runtime
        >>> Cls(Cls.Recipe(), Runtime()).encode(["a small dog", "a large cat"]).shape
        (2, 256)
    """

    Recipe = BackboneRecipe

    @property
    def pooling(self) -> Pooling:
        """Always [CLS]."""
        return "cls"

    @classmethod
    def traits(cls, recipe: BackboneRecipe) -> Traits:
        """Nothing is trained."""
        return Traits(untrained=True, fine_tunes=True, exports=True)


class Maximum(BackboneEncoder[BackboneRecipe]):
    """The maximum of each dimension of the last layer over all tokens, with [CLS] and [SEP] (BURT's BERT_MAX).

    Example:
        >>> from zoo import Runtime
        >>> Maximum(Maximum.Recipe(), Runtime()).encode(["a small dog"]).shape
        (1, 256)
    """

    Recipe = BackboneRecipe

    @property
    def pooling(self) -> Pooling:
        """The maximum."""
        return "max"

    @classmethod
    def traits(cls, recipe: BackboneRecipe) -> Traits:
        """Nothing is trained."""
        return Traits(untrained=True, fine_tunes=True, exports=True)


@dataclass(frozen=True, kw_only=True)
class AverageRecipe(BackboneRecipe):
    """Which layers are averaged, over all tokens with [CLS] and [SEP]."""

    layers: Literal["last", "first-last-h0", "first-last-h1", "top2"] = "last"


class Average(BackboneEncoder[AverageRecipe]):
    """Mean over tokens of the last layer, of the first and last (in two meanings), or of the last two layers.

    The published "first-last avg." 56.70 of BERT-base counts the embedding layer as the first (`first-last-h0`);
    SimCSE's code since 2022 and BERT-whitening count the first Transformer layer (`first-last-h1`).

    Example:
        >>> from zoo import Runtime
        >>> Average(Average.Recipe(layers="top2"), Runtime()).encode(["a small dog"]).shape
        (1, 256)
    """

    Recipe: ClassVar[type] = AverageRecipe

    @property
    def pooling(self) -> Pooling:
        """The recipe's layers."""
        return self.recipe.layers

    @classmethod
    def traits(cls, recipe: AverageRecipe) -> Traits:
        """Nothing is trained."""
        return Traits(untrained=True, fine_tunes=True, exports=recipe.layers in EXPORTED_POOLINGS)


def pooled_start(recipe: BackboneFields, pooling: Pooling) -> Start:
    """Return the untrained states of a recipe's backbone under this pooling."""
    own: dict[str, Any] = {name: getattr(recipe, name) for name in ("backbone", "revision", "max_length")}
    if pooling in ("cls", "max"):
        return Start(pooling, BackboneRecipe(**own))
    return Start("avg", AverageRecipe(**own | {"layers": "last" if pooling == "mean" else pooling}))
