"""MixCSE (Zhang et al. 2022): hard negatives by mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F

from zoo.methods.contrastive import ContrastiveRecipe
from zoo.methods.dropoutviews import DropoutViews, DropoutViewsObjective
from zoo.plugins import register_method


@dataclass(frozen=True, kw_only=True)
class MixCSERecipe(ContrastiveRecipe):
    """The share is the released script's; other settings are SimCSE's."""

    # lambda.
    mix: float = 0.2
    # Negatives of an anchor: its own mixture, or all of both views (the code).
    mixtures: Literal["own", "all"] = "own"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.mix < 1:
            raise ValueError(f"mix must be at least 0 and below 1, not {self.mix}")


def mixed(vectors: torch.Tensor, share: float) -> torch.Tensor:
    """share * v_i + (1 - share) * v_{i+1} (n, dim), without gradient; the last mixes with the first."""
    return (share * vectors + (1 - share) * vectors.roll(-1, 0)).detach()


class MixCSEObjective(DropoutViewsObjective):
    """SimCSE's loss with mixtures m_i = lambda h_i' + (1 - lambda) h_{i+1}' among the negatives.

    "own": of unit vectors, and the anchor h_i has the negative m_i. "all": of the vectors as they are. The anchor has
    every m_j but m_{i-1}, mostly its own positive, and the similarities of h_j' and the mixture of h_i and h_{i+1}, but
    not of h_{i+1}'. The code does not omit those two: their logits are 0.
    """

    recipe: MixCSERecipe

    ungraphed = None

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        h, h_plus = h.float(), h_plus.float()
        with torch.autocast(h.device.type, enabled=False):
            u, v = F.normalize(h, dim=-1), F.normalize(h_plus, dim=-1)
            cosines = [u @ v.T]
            if self.recipe.mixtures == "own":
                cosines.append((u * F.normalize(mixed(v, self.recipe.mix), dim=-1)).sum(-1, keepdim=True))
            else:
                near = torch.eye(len(h), device=h.device)
                of_plus = u @ F.normalize(mixed(h_plus, self.recipe.mix), dim=-1).T
                of_h = F.normalize(mixed(h, self.recipe.mix), dim=-1) @ v.T
                cosines += [of_plus * (1 - near.roll(1, 0)), of_h * (1 - near.roll(1, 1))]
            logits = torch.cat(cosines, dim=1) / self.recipe.temperature
            return F.cross_entropy(logits, torch.arange(len(h), device=h.device))


@register_method("mixcse")
class MixCSE(DropoutViews[MixCSERecipe]):
    """MixCSE: SimCSE with mixed hard negatives; at evaluation [CLS].

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = MixCSE(MixCSE.Recipe(batch_size=4), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    loss_of_batch = MixCSEObjective
