"""The pooling baselines: [CLS], the maximum, and averages of one or two layers (PromptBERT tables 1 and 5, BURT 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime, Start, Traits
from zoo.engine.backbone import Backbone
from zoo.engine.needs import Need
from zoo.engine.states import Layers, Pooling
from zoo.errors import ContractError
from zoo.formats.export import EXPORTED_POOLINGS
from zoo.methods.base import BackboneEncoder, BackboneFields, BackboneRecipe, check_positive
from zoo.modules.pooler import TokenWeights
from zoo.plugins import register_method
from zoo.recipes import added


@register_method("cls")
class Cls(BackboneEncoder[BackboneRecipe]):
    """[CLS] of the last layer, without pooler or head ("cls_before_pooler" of SimCSE's code).

    Examples:
        >>> from zoo import Runtime
        >>> Cls(Cls.Recipe(), Runtime()).encode(["a small dog", "a large cat"]).shape
        (2, 384)
    """

    @property
    def pooling(self) -> Pooling:
        return "cls"

    @classmethod
    def needs(cls, recipe: BackboneRecipe) -> frozenset[Need]:
        return frozenset({"first token"})

    @classmethod
    def traits(cls, recipe: BackboneRecipe) -> Traits:
        return Traits(untrained=True, fine_tunes=True, exports=True)


@register_method("max")
class Maximum(BackboneEncoder[BackboneRecipe]):
    """The maximum of each dimension of the last layer over all tokens, with [CLS] and [SEP] (BURT's BERT_MAX).

    Examples:
        >>> from zoo import Runtime
        >>> Maximum(Maximum.Recipe(), Runtime()).encode(["a small dog"]).shape
        (1, 384)
    """

    @property
    def pooling(self) -> Pooling:
        return "max"

    @classmethod
    def traits(cls, recipe: BackboneRecipe) -> Traits:
        return Traits(untrained=True, fine_tunes=True, exports=True)


@dataclass(frozen=True, kw_only=True)
class AverageRecipe(BackboneRecipe):
    """Layers of the average over all tokens, [CLS] and [SEP] included."""

    layers: Layers = "last"
    # In the layers "sif", the last, a token weighs a / (a + p), p counted in the training text.
    sif_a: float = added(1e-3)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "sif_a")


@register_method("avg")
class Average(BackboneEncoder[AverageRecipe]):
    """Mean over tokens of the last layer (also by SIF), of the first and last (in two meanings), or of the last two.

    The published "first-last avg." 56.70 of BERT-base counts the embedding layer as the first (`first-last-h0`);
    SimCSE's code since 2022 and BERT-whitening count the first Transformer layer (`first-last-h1`).

    Examples:
        >>> from zoo import Runtime
        >>> Average(Average.Recipe(layers="top2"), Runtime()).encode(["a small dog"]).shape
        (1, 384)
    """

    def __init__(self, recipe: AverageRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        self.token_weights = TokenWeights(self.backbone.model) if recipe.layers == "sif" else None

    @property
    def pooling(self) -> Pooling:
        return self.recipe.layers

    @classmethod
    def traits(cls, recipe: AverageRecipe) -> Traits:
        counts = recipe.layers == "sif"
        exports = recipe.layers in EXPORTED_POOLINGS
        return Traits(needs_corpus=counts, untrained=not counts, fine_tunes=True, exports=exports)

    @classmethod
    def start(cls, recipe: AverageRecipe) -> Start | None:
        return pooled_start(recipe, "last") if recipe.layers == "sif" else None

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        if self.token_weights is None:
            return FitReport()
        if corpus is None:
            raise ContractError("avg with layers: sif counts tokens in a corpus; pass --corpus FILE.")
        self.token_weights.count(self.backbone.tokenizer, corpus.sentences, self.recipe.sif_a, self.runtime.progress)
        return FitReport(fitted=True, sentences=len(corpus.sentences))

    def parts(self) -> dict[str, nn.Module]:
        return {} if self.token_weights is None else {"token_weights": self.token_weights}


def pooled_start(recipe: BackboneFields, pooling: Pooling) -> Start:
    fields: dict[str, Any] = {name: getattr(recipe, name) for name in ("backbone", "revision", "max_length")}
    if pooling in ("cls", "max"):
        return Start(pooling, BackboneRecipe(**fields))
    return Start("avg", AverageRecipe(**fields | {"layers": "last" if pooling in ("mean", "sif") else pooling}))
