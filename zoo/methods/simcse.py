"""SimCSE (Gao et al. 2021): the positive is the sentence under another dropout mask, or an entailed sentence."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import TypeVar

from zoo.encoder import Corpus, Run, Traits
from zoo.engine.batching import changed
from zoo.engine.needs import Need
from zoo.errors import ContractError, TrainingError
from zoo.methods.contrastive import Contrastive, ContrastiveRecipe, Rows
from zoo.modules.pooler import TrainedPooler
from zoo.plugins import register_method
from zoo.recipes import added
from zoo.training.loop import Collate, Objective
from zoo.training.losses import MaskedLanguageModel, info_nce
from zoo.training.positives import NEED_NEIGHBOURS, Positives, augmented, paired_rows, side_by_side


@dataclass(frozen=True, kw_only=True)
class SimCSERecipe(ContrastiveRecipe):
    """Defaults of unsupervised SimCSE."""

    # Triplets (premise, entailed, contradicted) from NLI.
    supervised: bool = False
    # ln alpha, added to the logit of a sentence's own hard negative (Eq. 8).
    hard_negative_weight: float = 0.0
    # Of the masked-language-model loss; in table 8, 0.1 raises transfer and lowers STS.
    mlm_weight: float = 0.0
    mlm_rate: float = 0.15
    # For the positive, one drawn per sentence (zoo.training.augment; table 1).
    augment: tuple[str, ...] = added(())
    positives: Literal["dropout", Positives] = added("dropout")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positives != "dropout" and (self.augment or self.supervised):
            raise ValueError("positives names another positive than augment or supervised does; set one of the three")
        if self.mlm_weight < 0 or not 0 < self.mlm_rate < 1:
            raise ValueError("mlm_weight must not be below 0, and mlm_rate must be between 0 and 1")
        if self.augment and self.supervised:
            raise ValueError("augment makes positives of single sentences; supervised training takes them from NLI")


class SimCSEObjective(Objective):
    """l_i = -log exp(cos(h_i, h_i+)/temperature) / sum_j exp(cos(h_i, h_j+)/temperature) (SimCSE Eq. 1 and 4).

    With hard negatives h_j- the sum runs over them too (Eq. 5). All views go through the encoder in one pass.
    """

    def __init__(self, pooler: TrainedPooler, recipe: SimCSERecipe, mlm: MaskedLanguageModel | None = None) -> None:
        super().__init__()
        self.pooler, self.recipe, self.mlm = pooler, recipe, mlm

    @property
    def ungraphed(self) -> str | None:
        return None if self.mlm is None else "the tokens of its MLM loss are chosen by the host"

    def embed(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids, mask (n, views, length) -> vectors (n, dim), a single view twice, then any MLM losses (n, 2)."""
        n, views, length = input_ids.shape
        if views == 1:
            input_ids, views = changed(input_ids, lambda ids: ids.repeat(1, 2, 1)), 2
            attention_mask = changed(attention_mask, lambda mask: mask.repeat(1, 2, 1))
        ids = changed(input_ids, lambda ids: ids.reshape(n * views, length))
        mask = changed(attention_mask, lambda mask: mask.reshape(n * views, length))
        vectors: tuple[torch.Tensor, ...] = self.pooler(ids, mask).view(n, views, -1).unbind(1)
        if self.mlm is None:
            return vectors
        return *vectors, self.mlm(self.pooler.model, ids, mask).view(n, views, 2).sum(1)

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        negatives = others if self.mlm is None else others[:-1]
        candidates, bias = h_plus, None
        if negatives:
            diagonal = torch.arange(len(h), device=h.device)
            bias = h.new_zeros(len(h), 2 * len(h), dtype=torch.float32)
            bias[diagonal, len(h) + diagonal] = self.recipe.hard_negative_weight
            candidates = torch.cat([h_plus, negatives[0]])
        loss = info_nce(h, candidates, self.recipe.temperature, bias=bias)
        if self.mlm is None:
            return loss
        sums, counts = others[-1].sum(0)
        total: torch.Tensor = loss + self.recipe.mlm_weight * sums / counts.clamp(min=1)
        return total


def triplets(corpus: Corpus) -> list[tuple[str, str, str]]:
    """Triplets (premise, entailed, contradicted), k-th with k-th; raises ContractError or TrainingError."""
    if corpus.labels is None:
        raise ContractError("supervised SimCSE is trained on labelled pairs (NLI); pass them with --pairs.")
    hypotheses: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"entailment": [], "contradiction": []})
    for i, label in enumerate(corpus.labels):
        if label in ("entailment", "contradiction"):
            hypotheses[corpus.sentences[2 * i]][label].append(corpus.sentences[2 * i + 1])
    result = [
        (premise, positive, negative)
        for premise, of in hypotheses.items()
        for positive, negative in zip(of["entailment"], of["contradiction"], strict=False)
    ]
    if not result:
        raise TrainingError(f"no premise of {corpus.name} has both an entailed and a contradicted sentence.")
    return result


SimCSERecipeT = TypeVar("SimCSERecipeT", bound=SimCSERecipe, default=SimCSERecipe)


@register_method("simcse")
class SimCSE(Contrastive[SimCSERecipeT]):
    """SimCSE: [CLS]+MLP in training; at evaluation without the MLP (unsupervised) or with it (supervised).

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = SimCSE(SimCSE.Recipe(batch_size=4), Runtime())
        >>> report = encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1))
        >>> report.steps
        2
    """

    loss_of_batch: ClassVar[type[Any]] = SimCSEObjective

    def objective(self) -> Objective:
        objective = super().objective()
        if self.recipe.mlm_weight:
            objective.mlm = MaskedLanguageModel(self.backbone, self.recipe.mlm_rate)
        return objective

    @property
    def has_views(self) -> bool:
        """True if a subclass makes its views."""
        return type(self).views is not SimCSE.views

    @property
    def views_by_dropout(self) -> bool:
        recipe = self.recipe
        return not self.has_views and not recipe.supervised and not recipe.augment and recipe.positives == "dropout"

    @classmethod
    def needs(cls, recipe: SimCSERecipeT) -> frozenset[Need]:
        of_loss: set[Need] = {"mask token", "MLM head"} if recipe.mlm_weight else set()
        return super().needs(recipe) | of_loss

    @classmethod
    def traits(cls, recipe: SimCSERecipeT) -> Traits:
        return replace(
            super().traits(recipe),
            needs_corpus=not recipe.supervised,
            needs_neighbours=recipe.positives in NEED_NEIGHBOURS,
            needs_pairs=recipe.supervised,
            training_passes=(3.0 if recipe.supervised else 2.0) * recipe.epochs * (2 if recipe.mlm_weight else 1),
        )

    def training_rows(self, corpus: Corpus, run: Run) -> Rows:
        if self.recipe.positives != "dropout":
            return paired_rows(self.backbone, corpus, self.recipe.positives, self.recipe.train_max_length, run.seed)
        if self.recipe.augment:
            return self.augmented(corpus, run), len(corpus.sentences)
        views = self.views(corpus, random.Random(run.seed))
        if self.has_views and views and len(views[0]) == 1:
            self.check_dropout()
        return self.stacked(views), len(views)

    def views(self, corpus: Corpus, draw: random.Random) -> Sequence[tuple[str, ...]]:
        """Each row's texts that belong together, a single one under two dropout masks; `draw` has the run's seed."""
        return triplets(corpus) if self.recipe.supervised else [(sentence,) for sentence in corpus.sentences]

    def augmented(self, corpus: Corpus, run: Run) -> Collate:
        """Collate function of ids and mask (n, 2, longest): sentence and augmented view."""
        table = self.training_table(corpus.sentences)
        view, pad_id = augmented(self.backbone, table, self.recipe.augment, run.seed), self.backbone.pad_id

        def batch(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            ids, mask = view(rows)
            return side_by_side([table.padded(rows, pad_id), (ids, mask)], pad_id)

        return batch

    def stacked(self, views: Sequence[tuple[str, ...]]) -> Collate:
        kinds: set[type[object]] = {type(row) for row in views}
        widths = {len(row) for row in views}
        if str in kinds or len(widths) > 1 or (self.has_views and not widths):
            raise ContractError("views() must return rows, each a tuple of its texts, of the same number in all.")
        width = max(widths, default=1)
        flat = [text for row in views for text in row]
        table = self.training_table(flat)
        pad_id = self.backbone.pad_id

        def batch(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            ids, mask = table.padded((rows[:, None] * width + np.arange(width)).ravel(), pad_id)
            return ids.view(len(rows), width, -1), mask.view(len(rows), width, -1)

        return batch
