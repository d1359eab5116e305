"""Matryoshka representations (Kusupati et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from zoo.encoder import Runtime, Traits
from zoo.engine.backbone import Backbone
from zoo.errors import UsageError
from zoo.methods.base import check_positive
from zoo.methods.cosent import CoSENT, CoSENTObjective, CoSENTRecipe
from zoo.plugins import register_method


@dataclass(frozen=True, kw_only=True)
class MatryoshkaRecipe(CoSENTRecipe):
    """CoSENT's loss at several widths; the paper trains classifiers of images, and states no loss for sentences."""

    # Shares of the dimensions; the code halves them too.
    nested: tuple[float, ...] = (1.0, 0.5, 0.25, 0.125, 0.0625)
    # Weights of the losses, in that order. (): 1 each, as in the code.
    weights: tuple[float, ...] = ()
    width: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "width")
        if not self.nested or not all(0 < share <= 1 for share in self.nested):
            raise ValueError(f"nested has shares of the dimensions, above 0 and at most 1, not {list(self.nested)}")
        if self.weights and len(self.weights) != len(self.nested):
            raise ValueError(f"weights has {len(self.weights)} numbers for the {len(self.nested)} of nested")
        if self.width is not None and not self.mlp_only_train:
            raise ValueError("width is for vectors without an MLP at test: mlp_only_train: true")


class MatryoshkaObjective(CoSENTObjective):
    """Sum over widths m of weight_m times CoSENT's loss of the first m dimensions."""

    recipe: MatryoshkaRecipe

    def loss(self, u: torch.Tensor, v: torch.Tensor, grades: torch.Tensor) -> torch.Tensor:
        weights = self.recipe.weights or (1.0,) * len(self.recipe.nested)
        widths = [max(round(share * u.shape[1]), 1) for share in self.recipe.nested]
        every = [super(MatryoshkaObjective, self).loss(u[:, :m], v[:, :m], grades) for m in widths]
        return sum((w * loss for w, loss in zip(weights, every, strict=True)), start=u.new_zeros(()))


@register_method("matryoshka")
class Matryoshka(CoSENT[MatryoshkaRecipe]):
    """Matryoshka: CoSENT's loss at nested widths, so that the first dimensions alone can be compared.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = Matryoshka(Matryoshka.Recipe(batch_size=2, epochs=1, width=16), Runtime())
        >>> pairs = ["a dog runs", "a dog is running", "a dog runs", "it sleeps", "a cat", "a pet"]
        >>> _ = encoder.fit(Corpus("toy", pairs, scores=[5.0, 1.0, 3.5]), run=Run(seed=1))
        >>> encoder.encode(["a small dog"]).shape
        (1, 16)
    """

    loss_of_batch = MatryoshkaObjective

    def __init__(self, recipe: MatryoshkaRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        if recipe.width is not None:
            if recipe.width > self.dim:
                raise UsageError(f"matryoshka: width {recipe.width} is more than the {self.dim} dimensions there are.")
            self.dim = recipe.width

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """First `width` dimensions of the pooled vectors (n, width), float32."""
        return super().forward(input_ids, attention_mask)[:, : self.dim]

    @classmethod
    def traits(cls, recipe: MatryoshkaRecipe) -> Traits:
        traits = super().traits(recipe)
        return traits if recipe.width is None else replace(traits, exports=False)
