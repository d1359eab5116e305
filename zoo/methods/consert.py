"""ConSERT with labels (Yan et al. 2021, section 4.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from zoo.encoder import NLI_LABELS, Corpus, DevScore, Encoder, FitReport, Run, Runtime, Traits
from zoo.errors import ContractError, TrainingError, UsageError
from zoo.methods.contrastive import Rows
from zoo.methods.twoviews import TwoViews, TwoViewsObjective, TwoViewsRecipe
from zoo.modules.pooler import Pooler, TrainedPooler
from zoo.plugins import method_identity, register_method
from zoo.recipes import all_recipes, portable_recipe
from zoo.selection import parse_methods
from zoo.training.loop import Objective
from zoo.training.losses import nt_xent
from zoo.training.settings import TrainSettings
from zoo.training.siamese import Concatenation, concatenated, labelled_task, width_of


@dataclass(frozen=True, kw_only=True)
class ConSERTJointRecipe(TwoViewsRecipe):
    """Defaults of the released script sup-consert-joint-base, with dropout on."""

    concatenation: Concatenation = "u;v;|u-v|;max(u,v)^2"
    pooler: Pooler = "avg_top2"
    train_pooler: Pooler | None = "avg"
    select_like_training: bool = True
    token_cutoff: tuple[float, ...] = (0.0, 0.1)
    # The code: 0.15 of the sum of both directions, for each sentence of a pair.
    loss_weight: float = 0.3
    batch_size: int = 96
    learning_rate: float = 2e-5
    # 64, and 3 special tokens that the code adds.
    train_max_length: int = 67
    eval_every: int = 200
    weight_decay: float = 0.01
    warmup: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.augment or self.fit_on == "target":
            raise ValueError("augment and fit_on have no effect here: the pairs' sentences go in as they are")


class ConSERTJointObjective(TwoViewsObjective):
    """Cross-entropy of the classes of (u, v), plus NT-Xent between u and its second view, and between v and its."""

    def __init__(self, pooler: TrainedPooler, recipe: ConSERTJointRecipe, first_position: int, dim: int) -> None:
        super().__init__(pooler, recipe, first_position)
        self.how = recipe.concatenation
        self.classifier = nn.Linear(width_of(self.how) * dim, len(NLI_LABELS))

    def embed(self, *collated: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, length) of both sentences, classes (n,) -> both views of both (n, dim), and the classes."""
        ids, mask, other_ids, other_mask, classes = collated
        u, v = self._view(0, ids, mask), self._view(0, other_ids, other_mask)
        return u, v, self._view(1, ids, mask), self._view(1, other_ids, other_mask), classes

    def contrast(self, *vectors: torch.Tensor) -> torch.Tensor:
        u, v, second_u, second_v, classes = vectors
        with torch.autocast(u.device.type, enabled=False):
            logits = self.classifier(concatenated(u.float(), v.float(), self.how))
        t = self.recipe.temperature
        contrasts = nt_xent(u, second_u, t) + nt_xent(v, second_v, t)
        return F.cross_entropy(logits, classes) + self.recipe.loss_weight * contrasts


@register_method("consert-joint")
class ConSERTJoint(TwoViews[ConSERTJointRecipe]):
    """ConSERT's joint training on NLI pairs; at evaluation the pooled states, as in unsupervised ConSERT.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = ConSERTJoint(ConSERTJoint.Recipe(batch_size=2), Runtime())
        >>> pairs = ["a dog runs", "an animal moves", "a dog runs", "it sleeps", "a cat", "a pet"]
        >>> labels = ["entailment", "contradiction", "neutral"]
        >>> encoder.fit(Corpus("toy", pairs, labels), run=Run(seed=1)).steps
        2
    """

    @classmethod
    def traits(cls, recipe: ConSERTJointRecipe) -> Traits:
        return replace(super().traits(recipe), needs_corpus=False, needs_pairs=True)

    def objective(self) -> Objective:
        pooler, recipe, first = self.parts_of_objective()
        return ConSERTJointObjective(pooler, recipe, first, self.dim)

    def settings(self) -> TrainSettings:
        return replace(super().settings(), units_per_row=2)

    def training_rows(self, corpus: Corpus, run: Run) -> Rows:
        """A batch: both sentences of its pairs, and their classes."""
        task = labelled_task("NLI", corpus, NLI_LABELS, "--pairs nli")
        table = self.training_table(corpus.sentences)
        classes, pad_id = torch.from_numpy(task.labels), self.backbone.pad_id

        def batch(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            first, second = task.first[rows], task.second[rows]
            return *table.padded(first, pad_id), *table.padded(second, pad_id), classes[torch.from_numpy(rows)]

        return batch, len(task)


@dataclass(frozen=True, kw_only=True)
class ContinuedRecipe(TwoViewsRecipe):
    """Two views without labels, from weights that another recipe first trains on the same texts."""

    # The first recipe, or name:key=value; `backbone` and `revision` are passed to it.
    start: str = "consert-joint"

    def __post_init__(self) -> None:
        super().__post_init__()
        start_of(self)


def start_of(recipe: ContinuedRecipe) -> tuple[str, type[Encoder], Any]:
    """Name, class and recipe of the first training; raises UsageError for an unsuitable method."""
    specs = parse_methods(recipe.start, all_recipes())
    # A recipe must not start from itself.
    if len(specs) == 1 and specs[0].parameters.get("start") != recipe.start:
        cls, first_recipe = specs[0].resolve({"backbone": recipe.backbone, "revision": recipe.revision})
        if issubclass(cls, TwoViews):
            return specs[0].method, cls, first_recipe
    raise UsageError(f"start {recipe.start!r} must name one other recipe that trains a backbone on two views.")


@register_method("consert-continued")
class ConSERTContinued(TwoViews[ContinuedRecipe]):
    """A second training on the sentences of the same pairs without labels (sup-consert-joint-unsup).

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> recipe = ConSERTContinued.Recipe(start="consert-joint:batch_size=2", batch_size=4, shuffle=(False, True))
        >>> encoder = ConSERTContinued(recipe, Runtime())
        >>> pairs = ["a dog runs", "an animal moves", "a dog runs", "it sleeps", "a cat", "a pet"]
        >>> labels = ["entailment", "contradiction", "neutral"]
        >>> encoder.fit(Corpus("toy", pairs, labels), run=Run(seed=1)).facts["start_steps"]
        2
    """

    @classmethod
    def traits(cls, recipe: ContinuedRecipe) -> Traits:
        _, cls_of_first, recipe_of_first = start_of(recipe)
        first, traits = cls_of_first.traits(recipe_of_first), super().traits(recipe)
        return replace(
            traits,
            needs_corpus=first.needs_corpus,
            needs_pairs=first.needs_pairs,
            ignores_labels=first.ignores_labels,
            training_passes=first.training_passes + traits.training_passes,
        )

    @classmethod
    def sources(cls, recipe: ContinuedRecipe, runtime: Runtime) -> dict[str, Any]:
        method, first, first_recipe = start_of(recipe)
        sources = super().sources(recipe, runtime)
        start = {"method": method, "recipe": portable_recipe(first_recipe, sources), "code": method_identity(first)}
        return {**sources, "start": start}

    def training_rows(self, corpus: Corpus, run: Run) -> Rows:
        nli = corpus.labelled(NLI_LABELS)
        if not nli.sentences:
            raise TrainingError(f"no pair of {corpus.name} is labelled as NLI; pass --pairs nli.")
        return super().training_rows(nli, run)

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Train the first recipe in the folder "start" to its best checkpoint, then continue."""
        if corpus is None:
            raise ContractError(f"{self.recipe.start} is trained and needs a text; pass --pairs nli or --corpus FILE.")
        _, cls, first_recipe = start_of(self.recipe)
        first = cls(first_recipe, self.runtime, self.backbone)  # type: ignore[call-arg]
        folder = None if run.folder is None else run.folder / "start"
        # log_values reports one training: the second.
        start = first.fit(corpus, dev_score=dev_score, run=replace(run, folder=folder, log_values=None))
        report = super().fit(corpus, dev_score=dev_score, run=run)
        facts = {**report.facts, "start_steps": start.steps, "start_best_step": start.best_step}
        return replace(report, seconds=round(report.seconds + start.seconds, 3), facts=facts)
