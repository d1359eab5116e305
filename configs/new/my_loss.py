"""A loss of your own over the two dropout views of each sentence; the rest of the training is SimCSE's."""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from zoo import register_method
from zoo.methods.simcse import SimCSE, SimCSEObjective, SimCSERecipe


@dataclass(frozen=True, kw_only=True)
class MyLossRecipe(SimCSERecipe):
    """SimCSE's settings (temperature, batch_size ...) and yours; a run changes one with my-loss:margin=0.2."""

    # A sentence's own view must be nearer than others by this cosine.
    margin: float = 0.1


class MyLossObjective(SimCSEObjective):
    """Put your idea here: one number for the vectors of a batch."""

    recipe: MyLossRecipe

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        """Vectors of the two views, each (n, dim) -> scalar loss; row i of both is the same sentence."""
        cosines = F.normalize(h, dim=1) @ F.normalize(h_plus, dim=1).T
        cosines = cosines - self.recipe.margin * torch.eye(len(h), device=h.device)
        return F.cross_entropy(cosines / self.recipe.temperature, torch.arange(len(h), device=h.device))


@register_method("my-loss", family="contrastive")
class MyLoss(SimCSE[MyLossRecipe]):
    """SimCSE with a margin between a sentence's own view and the others."""

    loss_of_batch = MyLossObjective
