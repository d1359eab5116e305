"""CoSENT (Huang et al. 2024)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from typing_extensions import TypeVar

from zoo.encoder import Corpus, Run, Traits
from zoo.engine.batching import flat_rows
from zoo.errors import ContractError, TrainingError
from zoo.methods.contrastive import Contrastive, ContrastiveRecipe, Rows
from zoo.modules.pooler import Pooler, TrainedPooler
from zoo.plugins import register_method
from zoo.training.loop import Objective
from zoo.training.losses import ranking_loss
from zoo.training.settings import TrainSettings


@dataclass(frozen=True, kw_only=True)
class CoSENTRecipe(ContrastiveRecipe):
    """Defaults of the author's code (bojone/CoSENT@124c368), for Chinese pairs."""

    pooler: Pooler = "cls_before_pooler"
    temperature: float = 0.05
    # The grade of neutral pairs of NLI; contradiction is 0, entailment 1. None: left out.
    neutral: float | None = 0.5
    batch_size: int = 32
    learning_rate: float = 2e-5
    epochs: int = 5
    train_max_length: int = 64
    schedule: Literal["linear", "constant"] = "constant"
    warmup_steps: int = 0
    eval_every: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neutral is not None and not 0 <= self.neutral <= 1:
            raise ValueError(f"neutral must be between 0 (contradiction) and 1 (entailment), not {self.neutral}")
        if self.warmup_steps < 0:
            raise ValueError(f"warmup_steps must not be below 0, not {self.warmup_steps}")


CoSENTRecipeT = TypeVar("CoSENTRecipeT", bound=CoSENTRecipe, default=CoSENTRecipe)


class CoSENTObjective(Objective):
    """log(1 + sum over y_i < y_j of exp((cos_i - cos_j) / temperature)) over the pairs of a batch."""

    def __init__(self, pooler: TrainedPooler, recipe: CoSENTRecipe) -> None:
        super().__init__()
        self.pooler, self.recipe = pooler, recipe

    def embed(self, *collated: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, 2, length) of pairs, grades (n,) -> vectors of both sides (n, dim), and grades."""
        ids, mask, grades = collated
        vectors = self.pooler(ids.flatten(0, 1), flat_rows(mask)).float().unflatten(0, ids.shape[:2])
        return *vectors.unbind(1), grades

    def contrast(self, *vectors: torch.Tensor) -> torch.Tensor:
        u, v, grades = vectors
        with torch.autocast(u.device.type, enabled=False):
            return self.loss(u, v, grades)

    def loss(self, u: torch.Tensor, v: torch.Tensor, grades: torch.Tensor) -> torch.Tensor:
        """Vectors of both sides (n, dim) float32, grades (n,) from 0 to 1 -> scalar."""
        return ranking_loss(F.cosine_similarity(u, v), grades, self.recipe.temperature)


def graded_rows(corpus: Corpus, neutral: float | None) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Numbers and grades (n,), 0 to 1, of graded pairs; raises ContractError or TrainingError."""
    if corpus.scores is not None:
        grades = np.asarray(corpus.scores, dtype=np.float32)
        grades = grades / max(float(grades.max(initial=0)), 1.0)
        rows = np.arange(len(grades))
    elif corpus.labels is not None:
        grade_of = {"contradiction": 0.0, "neutral": neutral, "entailment": 1.0}
        known = [(i, grade) for i, label in enumerate(corpus.labels) if (grade := grade_of.get(label)) is not None]
        rows = np.array([i for i, _ in known], dtype=np.int64)
        grades = np.array([grade for _, grade in known], dtype=np.float32)
    else:
        raise ContractError("this method is trained on scored or labelled pairs; pass --pairs STSBenchmark or nli.")
    if len(np.unique(grades)) < 2:
        raise TrainingError(f"the pairs of {corpus.name} have fewer than two different scores or NLI labels.")
    return rows, grades


@register_method("cosent")
class CoSENT(Contrastive[CoSENTRecipeT]):
    """CoSENT: cosines of pairs rank as their scores; at evaluation the pooled states.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = CoSENT(CoSENT.Recipe(batch_size=2, epochs=1), Runtime())
        >>> pairs = ["a dog runs", "a dog is running", "a dog runs", "it sleeps", "a cat", "a pet"]
        >>> encoder.fit(Corpus("toy", pairs, scores=[5.0, 1.0, 3.5]), run=Run(seed=1)).steps
        2
    """

    loss_of_batch = CoSENTObjective

    @classmethod
    def traits(cls, recipe: CoSENTRecipeT) -> Traits:
        return replace(
            super().traits(recipe), needs_corpus=False, needs_pairs=True, training_passes=1.0 * recipe.epochs
        )

    def settings(self) -> TrainSettings:
        recipe, settings = self.recipe, super().settings()
        steps = recipe.steps or math.ceil(self.rows / settings.batch_size) * recipe.epochs
        warmup = min(recipe.warmup_steps, steps // 2)
        return replace(settings, units_per_row=2, schedule=recipe.schedule, warmup_steps=warmup)

    def training_rows(self, corpus: Corpus, run: Run) -> Rows:
        """A batch: ids and mask (n, 2, longest) of its pairs, and their grades (n,)."""
        rows, grades = graded_rows(corpus, self.recipe.neutral)
        table = self.training_table(corpus.sentences)
        pad_id = self.backbone.pad_id

        def batch(numbers: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            ids, mask = table.padded((2 * rows[numbers, None] + np.arange(2)).ravel(), pad_id)
            return ids.view(len(numbers), 2, -1), mask.view(len(numbers), 2, -1), torch.from_numpy(grades[numbers])

        return batch, len(rows)
