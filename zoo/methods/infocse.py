"""InfoCSE (Wu et al. 2022)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from zoo.encoder import Traits
from zoo.engine.batching import changed
from zoo.engine.dropout import set_dropout
from zoo.engine.needs import Need
from zoo.engine.states import added_mask, packable, pooled, token_states
from zoo.errors import UsageError
from zoo.methods.contrastive import ContrastiveRecipe
from zoo.methods.diffcse import Projector
from zoo.methods.dropoutviews import DropoutViews, DropoutViewsObjective
from zoo.modules.pooler import TrainedPooler
from zoo.plugins import register_method
from zoo.training.loop import Objective
from zoo.training.losses import MaskedLanguageModel

if TYPE_CHECKING:
    from zoo.engine.backbone import Backbone


@dataclass(frozen=True, kw_only=True)
class InfoCSERecipe(ContrastiveRecipe):
    """Defaults of the released Infocse-bert-base.sh."""

    masked: float = 0.4  # share of the tokens that are to be found
    mlm_weight: float = 1e-5  # lambda, of the loss of the masked words
    lower: int = 6  # of the backbone's layers, as they were, those that read the other words
    upper: int = 2  # new layers that read those words' states and the vector
    learning_rate: float = 7e-6
    epochs: int = 2
    eval_every: int = 125

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.masked < 1 or self.mlm_weight < 0 or min(self.lower, self.upper) < 1:
            raise ValueError("masked must be between 0 and 1, mlm_weight not below 0, lower and upper at least 1")
        if self.pooler != "cls" or not self.mlp_only_train:
            raise ValueError("the projector is for pooler: cls in training alone; leave pooler and mlp_only_train out")


class InfoCSEObjective(DropoutViewsObjective):
    """SimCSE's loss + lambda * cross-entropy of the masked words of both views.

    New layers read the trained encoder's [CLS] of the full sentence, and the masked sentence's states of the frozen
    lower layers: [CLS] has to supply their missing knowledge.
    """

    recipe: InfoCSERecipe

    def __init__(self, pooler: TrainedPooler, recipe: InfoCSERecipe, backbone: Backbone) -> None:
        super().__init__(pooler, recipe)
        model: Any = pooler.model
        self.mlm = MaskedLanguageModel(backbone, recipe.masked)
        self.lower = copy.deepcopy(model).requires_grad_(False)
        self.lower.encoder.layer = self.lower.encoder.layer[: recipe.lower]
        config = copy.deepcopy(model.config)
        config.num_hidden_layers = recipe.upper
        self.upper: nn.Module = type(model.encoder)(config)
        self.upper.apply(model._init_weights)
        set_dropout(self.upper, recipe.dropout)

    def embed(self, *collated: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, length) -> two views (n, dim), and sum and count of masked words' losses (n, 2)."""
        ids, mask = (changed(part, lambda rows: rows.repeat_interleave(2, 0)) for part in collated[:2])
        cls = pooled(self.pooler.model, ids, mask, "cls")

        def states(corrupted: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                (words,) = token_states(self.lower.eval(), corrupted, mask)
            both = torch.cat([cls.to(words.dtype).unsqueeze(1), words[:, 1:]], dim=1)
            read: torch.Tensor = self.upper(both, attention_mask=added_mask(mask, mask.shape[1])).last_hidden_state
            return read

        sums = self.mlm.losses(ids, states).view(-1, 2, 2).sum(1)
        return *self.pooler.mlp(cls).unflatten(0, (-1, 2)).unbind(1), sums

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        total, count = others[0].sum(0)
        loss: torch.Tensor = super().contrast(h, h_plus) + self.recipe.mlm_weight * total / count.clamp(min=1)
        return loss


@register_method("infocse")
class InfoCSE(DropoutViews[InfoCSERecipe]):
    """InfoCSE: SimCSE with a vector that also helps to predict masked words; at evaluation [CLS].

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = InfoCSE(InfoCSE.Recipe(batch_size=4, epochs=1), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    def new_head(self) -> nn.Module:
        return Projector(self.dim, self.backbone.model.config.initializer_range)

    def objective(self) -> Objective:
        """Both losses; raises UsageError for other layers than BERT's."""
        if not packable(self.backbone.model):
            raise UsageError(f"infocse: backbone {self.backbone.source.name!r} is no BERT or RoBERTa; use one.")
        pooler = TrainedPooler(self.backbone.model, self.recipe.pooler, self.new_head())
        return InfoCSEObjective(pooler, self.recipe, self.backbone)

    @classmethod
    def needs(cls, recipe: InfoCSERecipe) -> frozenset[Need]:
        return super().needs(recipe) | {"mask token", "MLM head"}

    @classmethod
    def traits(cls, recipe: InfoCSERecipe) -> Traits:
        """Passes: two views; for each, half of the layers without gradient and two new layers."""
        return replace(super().traits(recipe), training_passes=2.7 * recipe.epochs)
