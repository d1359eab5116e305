"""SimCSE++ (Xu et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from zoo.encoder import Traits
from zoo.methods.base import check_positive
from zoo.methods.contrastive import ContrastiveRecipe
from zoo.methods.dropoutviews import DropoutViews, DropoutViewsObjective
from zoo.plugins import register_method


@dataclass(frozen=True, kw_only=True)
class SimCSEPlusPlusRecipe(ContrastiveRecipe):
    """Defaults of the combined method; other settings are SimCSE's."""

    off_dropout: bool = True
    # Of the positive's similarity; the released run_re.sh has 0.9.
    positive_weight: float = 1.0
    dimension_weight: float = 0.1
    # With negatives without dropout; alone the help says 20, the code 10.
    dimension_temperature: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "positive_weight", "dimension_temperature")
        if self.dimension_weight < 0:
            raise ValueError(f"dimension_weight must not be below 0, not {self.dimension_weight}")


def dimension_contrast(h: torch.Tensor, h_plus: torch.Tensor, temperature: float) -> torch.Tensor:
    """Mean over dimensions d of -log softmax_e(C_de) at e = d; C = BN(h)' BN(h') / (n temperature), (dim, dim).

    h, h_plus (n, dim) -> scalar. BN subtracts each dimension's mean over the batch and divides by its deviation.
    """
    u, v = (F.batch_norm(part, None, None, training=True) for part in (h, h_plus))
    correlation = u.T @ v / (len(h) * temperature)
    return F.cross_entropy(correlation, torch.arange(h.shape[1], device=h.device))


class SimCSEPlusPlusObjective(DropoutViewsObjective):
    """-s(h_i, h_i') + log(exp(s(h_i, h_i')) + sum over j of exp(s(n_i, n_j))), plus the contrast of dimensions.

    s is the cosine over the temperature, and n_j is sentence j without dropout, with gradient; j is not i.
    """

    recipe: SimCSEPlusPlusRecipe

    ungraphed = None

    def embed(self, *collated: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, length) -> two views, and the vectors without dropout (n, dim)."""
        views = super().embed(*collated)
        if not self.recipe.off_dropout:
            return views
        training = self.pooler.training
        self.pooler.eval()
        without: torch.Tensor = self.pooler(*collated)
        self.pooler.train(training)
        return *views, without

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        h, h_plus, *rest = (part.float() for part in (h, h_plus, *others))
        with torch.autocast(h.device.type, enabled=False):
            loss = self._negatives(h, h_plus, *rest)
            if self.recipe.dimension_weight:
                dimensions = dimension_contrast(h, h_plus, self.recipe.dimension_temperature)
                loss = loss + self.recipe.dimension_weight * dimensions
        return loss

    def _negatives(self, h: torch.Tensor, h_plus: torch.Tensor, *off: torch.Tensor) -> torch.Tensor:
        positives = self.recipe.positive_weight * F.cosine_similarity(h, h_plus) / self.recipe.temperature
        u, v = (F.normalize(part, dim=-1) for part in ((off[0], off[0]) if off else (h, h_plus)))
        negatives = u @ v.T / self.recipe.temperature
        negatives = negatives.masked_fill(torch.eye(len(h), dtype=torch.bool, device=h.device), float("-inf"))
        return (torch.cat([positives.unsqueeze(1), negatives], dim=1).logsumexp(1) - positives).mean()


@register_method("simcse-plus-plus")
class SimCSEPlusPlus(DropoutViews[SimCSEPlusPlusRecipe]):
    """SimCSE++: SimCSE with negatives without dropout, and a contrast of dimensions; at evaluation [CLS].

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = SimCSEPlusPlus(SimCSEPlusPlus.Recipe(batch_size=4), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    loss_of_batch = SimCSEPlusPlusObjective

    @classmethod
    def traits(cls, recipe: SimCSEPlusPlusRecipe) -> Traits:
        return replace(super().traits(recipe), training_passes=(2.0 + recipe.off_dropout) * recipe.epochs)
