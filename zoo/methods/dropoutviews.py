"""Two views of a sentence by dropout alone, as SimCSE's."""

from __future__ import annotations

import torch
from typing_extensions import TypeVar

from zoo.engine.batching import changed
from zoo.methods.contrastive import Contrastive, ContrastiveRecipe
from zoo.modules.pooler import TrainedPooler
from zoo.training.loop import Objective
from zoo.training.losses import info_nce

ViewsRecipeT = TypeVar("ViewsRecipeT", bound=ContrastiveRecipe, default=ContrastiveRecipe)


class DropoutViewsObjective(Objective):
    """SimCSE's loss (its Eq. 4), for subclasses to change: every sentence is encoded twice in one pass."""

    ungraphed = None

    def __init__(self, pooler: TrainedPooler, recipe: ContrastiveRecipe) -> None:
        super().__init__()
        self.pooler, self.recipe = pooler, recipe

    def embed(self, *collated: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, length) first -> two views (n, dim), alternating in the pass, as SimCSE's."""
        ids, mask = (changed(part, lambda rows: rows.repeat_interleave(2, 0)) for part in collated[:2])
        vectors: tuple[torch.Tensor, ...] = self.pooler(ids, mask).unflatten(0, (-1, 2)).unbind(1)
        return vectors

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return info_nce(h, h_plus, self.recipe.temperature)


class DropoutViews(Contrastive[ViewsRecipeT]):
    loss_of_batch = DropoutViewsObjective

    @property
    def views_by_dropout(self) -> bool:
        return True
