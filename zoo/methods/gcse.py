"""GCSE (Lai et al. 2025): SimCSE on written triplets."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from zoo.encoder import Traits
from zoo.engine.batching import changed
from zoo.methods.simcse import SimCSE, SimCSEObjective, SimCSERecipe
from zoo.modules.pooler import TrainedPooler
from zoo.plugins import register_method
from zoo.training.losses import info_nce


@dataclass(frozen=True, kw_only=True)
class GCSERecipe(SimCSERecipe):
    """Defaults of the released train.py, for its triplets (premise, positive, hard negative)."""

    sigma: float = 0.17  # of the decay, in logits: cosines divided by the temperature
    supervised: bool = True
    batch_size: int = 128
    learning_rate: float = 1e-5
    epochs: int = 2
    train_max_length: int = 64
    eval_every: int = 125

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sigma <= 0:
            raise ValueError(f"sigma must be above 0, not {self.sigma}")
        if not self.supervised or self.mlm_weight or self.hard_negative_weight:
            raise ValueError(
                "GCSE weights triplets by itself; leave supervised, mlm_weight and hard_negative_weight out"
            )


def gaussian_decay(logits: torch.Tensor, frozen: torch.Tensor, sigma: float) -> torch.Tensor:
    """Summand of the logits s (n,) of own hard negatives, r (n,) those of the frozen encoder.

    -s exp(-(s - r)^2 / 2 sigma^2) where s <= r, without gradient: a negative as near as before the training has the
    logit 0. For s > r it is 0, and the negative counts in full.
    """
    gap = (logits - frozen).detach()
    weight = -logits.detach() * torch.exp(-(gap**2) / (2 * sigma**2))
    return weight.masked_fill(gap > 0, 0.0)


class GCSEObjective(SimCSEObjective):
    """SimCSE's loss of triplets (its Eq. 5), the own hard negative's logit decayed."""

    recipe: GCSERecipe

    def __init__(self, pooler: TrainedPooler, recipe: GCSERecipe) -> None:
        super().__init__(pooler, recipe)
        self.frozen = SimCSEObjective(copy.deepcopy(pooler), recipe).requires_grad_(False)

    def embed(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, 3, length) -> three views (n, dim), and the hard negatives' frozen logits (n,)."""
        ends = [changed(part, lambda views: views[:, ::2]) for part in (input_ids, attention_mask)]
        with torch.no_grad():
            first, negative = self.frozen.eval().embed(*ends)
        return *super().embed(input_ids, attention_mask), self.logits(first, negative)

    def logits(self, h: torch.Tensor, h_minus: torch.Tensor) -> torch.Tensor:
        return F.cosine_similarity(h.float(), h_minus.float()) / self.recipe.temperature

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        h_minus, frozen = others
        added = gaussian_decay(self.logits(h, h_minus), frozen, self.recipe.sigma)
        bias = torch.cat([torch.zeros(len(h), len(h), device=h.device), torch.diag(added)], dim=1)
        return info_nce(h, torch.cat([h_plus, h_minus]), self.recipe.temperature, bias=bias)


@register_method("gcse")
class GCSE(SimCSE[GCSERecipe]):
    """GCSE: a language model's triplets, hard negatives decayed; at evaluation [CLS].

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = GCSE(GCSE.Recipe(batch_size=4, epochs=1), Runtime())
        >>> texts = [f"{word} number {i}" for i in range(8) for word in ("a", "one", "a", "no")]
        >>> encoder.fit(Corpus("toy", texts, ["entailment", "contradiction"] * 8), run=Run(seed=1)).steps
        2
    """

    loss_of_batch = GCSEObjective

    @classmethod
    def traits(cls, recipe: GCSERecipe) -> Traits:
        return replace(super().traits(recipe), training_passes=3.67 * recipe.epochs)
