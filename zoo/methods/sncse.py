"""SNCSE (Wang et al. 2022): a negated sentence is to be near, but not too near."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F

from zoo.encoder import Corpus, Runtime, Traits
from zoo.engine.backbone import Backbone
from zoo.methods.promptbert import PromptBERT, PromptBERTRecipe
from zoo.methods.simcse import SimCSEObjective
from zoo.plugins import register_method
from zoo.srl.spacy_labeller import soft_negatives
from zoo.training.loop import Objective
from zoo.training.losses import info_nce


@dataclass(frozen=True, kw_only=True)
class SNCSERecipe(PromptBERTRecipe):
    """Defaults of the released code for BERT-base."""

    template: str = 'This sentence : " [X] " means [MASK] .'
    second_template: str | None = 'This sentence of " [X] " means [MASK] .'
    denoise: bool = False
    period: bool = True
    # 32 with the template.
    train_max_length: int = 22
    # Rules need spaCy (extra srl); "not" writes "Not " before the sentence.
    negation: Literal["rules", "not"] = "not"
    # alpha and beta: the negation is less similar than the positive by at least `margin`, at most `most`.
    margin: float = 0.1
    most: float = 0.3
    margin_weight: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.second_template is None or self.supervised or self.denoise or self.mlm_weight:
            raise ValueError("the views are two templates: set second_template, and neither labels, denoise nor MLM")
        if not 0 <= self.margin <= self.most or self.margin_weight < 0:
            raise ValueError("margin must be between 0 and most, and margin_weight not below 0")


class SNCSEObjective(SimCSEObjective):
    """InfoNCE + lambda * mean(relu(delta + alpha) + relu(-delta - beta)), delta = cos(h, h_not) - cos(h, h')."""

    recipe: SNCSERecipe

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        """Vectors of the sentence, its other template and its negation (n, dim) -> scalar loss."""
        recipe, (negation,) = self.recipe, others
        loss = info_nce(h, h_plus, recipe.temperature)
        delta = F.cosine_similarity(h.float(), negation.float()) - F.cosine_similarity(h.float(), h_plus.float())
        return loss + recipe.margin_weight * (F.relu(delta + recipe.margin) + F.relu(-delta - recipe.most)).mean()


def ended(text: str) -> str:
    """Text with a final ASCII punctuation mark, else with " ." added, as in the released code."""
    return text if text.rstrip().endswith(tuple(string.punctuation)) else f"{text} ."


@register_method("sncse")
class SNCSE(PromptBERT[SNCSERecipe]):
    """SNCSE: two templates contrasted, with negated sentences as soft negatives; at evaluation the [MASK] state.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = SNCSE(SNCSE.Recipe(batch_size=4), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    version = 3
    ended = staticmethod(ended)

    def __init__(self, recipe: SNCSERecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        first, second = self.training_prompts
        self.training_prompts = first, second, second

    @classmethod
    def traits(cls, recipe: SNCSERecipe) -> Traits:
        return replace(super().traits(recipe), training_passes=3.0 * recipe.epochs)

    def objective(self) -> Objective:
        objective = super().objective()
        assert isinstance(objective, SimCSEObjective)
        return SNCSEObjective(objective.pooler, self.recipe)

    def views(self, corpus: Corpus, draw: random.Random) -> Sequence[tuple[str, ...]]:
        sentences = [ended(" ".join(sentence.split())) for sentence in corpus.sentences]
        negations = soft_negatives(sentences, rules=self.recipe.negation == "rules")
        return [(s, s, ended(n)) for s, n in zip(sentences, negations, strict=True)]
