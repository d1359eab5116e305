"""SimCSE, unsupervised (Gao et al. 2021): the positive of a sentence is itself under another dropout mask."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from zoo.methods.contrastive import Contrastive, ContrastiveRecipe
from zoo.training.heads import TanhHead
from zoo.training.loop import Objective
from zoo.training.losses import info_nce


class SimCSEObjective(Objective):
    """l_i = -log exp(cos(h_i, h_i+)/temperature) / sum_j exp(cos(h_i, h_j+)/temperature) (SimCSE Eq. 4).

    Both views go through the encoder in one pass. The MLP exists in training only ("MLP (train)", table 6).
    """

    def __init__(self, model: Any, temperature: float) -> None:
        super().__init__()
        self.model = model
        self.mlp = TanhHead(model.config.hidden_size, model.config.initializer_range)
        self.temperature = temperature

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Token ids and mask (n, length) -> scalar loss."""
        states = self.model(input_ids=input_ids.repeat(2, 1), attention_mask=attention_mask.repeat(2, 1))
        h, h_plus = self.mlp(states.last_hidden_state[:, 0]).chunk(2)
        return info_nce(h, h_plus, self.temperature)


class SimCSE(Contrastive):
    """Unsupervised SimCSE: [CLS]+MLP in training, [CLS] at test.

    Example:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = SimCSE(SimCSE.Recipe(batch_size=4), Runtime())
        >>> report = encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1))
        >>> report.steps
        2
    """

    Recipe: ClassVar[type] = ContrastiveRecipe

    def objective(self) -> Objective:
        """Dropout contrast within the batch."""
        return SimCSEObjective(self.backbone.model, self.recipe.temperature)
