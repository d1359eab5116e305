"""AnglE (Li and Li 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F

from zoo.methods.base import check_positive
from zoo.methods.cosent import CoSENT, CoSENTObjective, CoSENTRecipe
from zoo.plugins import register_method
from zoo.training.losses import ranking_loss


@dataclass(frozen=True, kw_only=True)
class AnglERecipe(CoSENTRecipe):
    """Defaults of the authors' example on STS-B (the readme of SeanLee97/AnglE@5155458)."""

    cosine_weight: float = 1.0
    in_batch_weight: float = 1.0
    angle_weight: float = 0.02
    in_batch_temperature: float = 0.05
    angle_temperature: float = 0.05
    # None leaves neutral pairs out: the code trains on entailment, 1, and contradiction, 0.
    neutral: float | None = None
    train_max_length: int = 128
    schedule: Literal["linear", "constant"] = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "in_batch_temperature", "angle_temperature")
        weights = self.cosine_weight, self.in_batch_weight, self.angle_weight
        if min(weights) < 0 or not any(weights):
            raise ValueError("cosine_weight, in_batch_weight and angle_weight must not be below 0, nor all be 0")


def angle_similarity(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """|sum of the real and the imaginary parts of (z / w) / (|z| / |w|)|: vectors u, v (n, dim) -> (n,).

    z and w are complex: real parts are the first halves of u and v, imaginary parts the second. The division is by
    |w|^2, the sum over all parts. dim must be even.
    """
    (a, b), (c, d) = F.normalize(u, dim=-1).chunk(2, -1), F.normalize(v, dim=-1).chunk(2, -1)
    return ((a * c + b * d) + (b * c - a * d)).sum(-1).abs()


def in_batch_loss(u: torch.Tensor, v: torch.Tensor, grades: torch.Tensor, temperature: float) -> torch.Tensor:
    """Mean over all 2n texts of -log softmax of the pair's other text among the 2n - 1; 0 for a grade below 1."""
    texts = F.normalize(torch.cat([u, v]), dim=-1)
    logits = texts @ texts.T / temperature
    logits = logits.masked_fill(torch.eye(len(texts), dtype=torch.bool, device=u.device), float("-inf"))
    positives = torch.arange(len(texts), device=u.device).roll(len(u))
    return (F.cross_entropy(logits, positives, reduction="none") * (grades >= 1).repeat(2)).mean()


class AnglEObjective(CoSENTObjective):
    """w_1 CoSENT + w_2 in-batch negatives + w_3 CoSENT of the angles."""

    recipe: AnglERecipe

    def loss(self, u: torch.Tensor, v: torch.Tensor, grades: torch.Tensor) -> torch.Tensor:
        recipe = self.recipe
        total = u.new_zeros(())
        if recipe.cosine_weight:
            total = total + recipe.cosine_weight * super().loss(u, v, grades)
        if recipe.in_batch_weight:
            total = total + recipe.in_batch_weight * in_batch_loss(u, v, grades, recipe.in_batch_temperature)
        if recipe.angle_weight:
            ranked = ranking_loss(angle_similarity(u, v), grades, recipe.angle_temperature)
            total = total + recipe.angle_weight * ranked
        return total


@register_method("angle")
class AnglE(CoSENT[AnglERecipe]):
    """AnglE: pairs ranked by angles of complex vectors, by cosines, and contrasted within the batch.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = AnglE(AnglE.Recipe(batch_size=2, epochs=1), Runtime())
        >>> pairs = ["a dog runs", "a dog is running", "a dog runs", "it sleeps", "a cat", "a pet"]
        >>> encoder.fit(Corpus("toy", pairs, scores=[5.0, 1.0, 3.5]), run=Run(seed=1)).steps
        2
    """

    loss_of_batch = AnglEObjective
