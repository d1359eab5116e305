"""CT (Carlsson et al., ICLR 2021): Contrastive Tension between two encoders with equal initial weights, both trained.

The paper and both known codes differ, so each is a recipe: `ct.yaml`, `ct-repo.yaml`, `ct-st.yaml`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime, Traits, score_of
from zoo.engine.batching import flat_rows
from zoo.files import read_json, write_json
from zoo.methods.base import check_positive
from zoo.methods.contrastive import Contrastive, Rows, TrainedRecipe
from zoo.modules.pooler import TrainedPooler
from zoo.plugins import register_method
from zoo.recipes import added
from zoo.training.loop import Objective
from zoo.training.positives import Groups
from zoo.training.settings import TrainSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from zoo.engine.backbone import Backbone


@dataclass(frozen=True, kw_only=True)
class CTRecipe(TrainedRecipe):
    """The defaults are the paper's; draw, reduction, max_grad_norm and "open" points are its released code's."""

    batch_size: int = 16
    negatives: int = 7
    # Negatives are (a, b1), (a, b2) ..., or, in both codes, (b1, c1) ...
    pairs: Literal["shared", "disjoint"] = "shared"
    draw: Literal["independent", "pass"] = "independent"
    # Open: 10 rounds of 500. None: all batches of the passes.
    steps: int | None = 5000
    # At most this many passes over the corpus; 5,000 updates are a sixth of a pass over wiki1m.
    epochs: int = 1
    min_chars: int = 0
    reduction: Literal["mean", "sum"] = "mean"
    # Open: off. None: the backbone's own, as sentence-transformers leaves it.
    dropout: float | None = 0.0
    learning_rate: float = 2e-6
    # Each until its step of `rate_steps`, then `learning_rate`; without rates that falls linearly to 0.
    rates: tuple[float, ...] = (1e-5, 8e-6, 6e-6, 4e-6)
    rate_steps: tuple[int, ...] = (500, 1000, 1500, 2000)
    max_grad_norm: float | None = None
    # Open: 0.9 and, in ct and ct-repo, 1e-7 are TensorFlow's defaults; 0.99 and 1e-8 are PyTorch's.
    smoothing: float = 0.9
    rmsprop_epsilon: float = added(1e-8)
    train_max_length: int = 75
    eval_every: int = 500
    # Open: the better of f1 and f2 by dev score, f2 without one.
    test_encoder: Literal["best", "f2"] = "best"

    def __post_init__(self) -> None:
        super().__post_init__()
        fields = (
            "batch_size negatives steps epochs learning_rate max_grad_norm train_max_length eval_every rmsprop_epsilon"
        )
        check_positive(self, *fields.split())
        if self.batch_size % (1 + self.negatives):
            raise ValueError(f"batch_size {self.batch_size} must be a multiple of 1 + negatives, {1 + self.negatives}")
        if len(self.rates) != len(self.rate_steps) or list(self.rate_steps) != sorted(set(self.rate_steps)):
            raise ValueError("rates needs one of rate_steps each, and rate_steps must rise")

    def most_steps(self, sentences: int) -> int:
        """Updates of the passes over so many sentences."""
        return sentences * self.epochs // (self.batch_size * (1 if self.pairs == "shared" else 2))

    def groups(self, sentences: int, seed: int) -> Groups:
        shared, once, of_batch = self.pairs == "shared", self.draw == "pass", self.batch_size // (1 + self.negatives)
        return Groups(sentences, seed, self.negatives, of_batch, self.steps, self.epochs, shared=shared, once=once)


class CTObjective(Objective):
    """-log s(z) for a positive pair, -log(1 - s(z)) for a negative; z = f1(a) . f2(b), s the logistic function."""

    chosen: torch.Tensor

    def __init__(self, model: PreTrainedModel, recipe: CTRecipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.f2 = TrainedPooler(model, recipe.pooler)
        self.f1 = copy.deepcopy(self.f2)
        self.register_buffer("chosen", torch.tensor(2))

    def embed(self, *collated: torch.Tensor, **_: object) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, 1 + K or 1, length) for f1, then (n, 1 + K, length) for f2 -> vectors (n, ., dim)."""
        sides = zip((self.f1, self.f2), collated[::2], collated[1::2], strict=True)
        return tuple(f(i.flatten(0, 1), flat_rows(m)).unflatten(0, i.shape[:2]) for f, i, m in sides)

    def contrast(self, u: torch.Tensor, v: torch.Tensor, **_: object) -> torch.Tensor:
        """Vectors (n, 1 + K or 1, dim) and (n, 1 + K, dim), the positive pair first -> scalar loss."""
        with torch.autocast(u.device.type, enabled=False):
            logits = (u.float() * v.float()).sum(-1)
            labels = torch.eye(logits.shape[1], device=u.device)[0].expand_as(logits)
            loss = F.binary_cross_entropy_with_logits(logits, labels)
        return loss * self.recipe.batch_size if self.recipe.reduction == "sum" else loss


@register_method("ct")
class CT(Contrastive[CTRecipe]):
    """Contrastive Tension with mean pooling; at evaluation f2, or f1 if its dev score is higher.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = CT(CT.Recipe(), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(40)]), run=Run(seed=1)).steps
        2
        >>> encoder.facts()
        {'test_encoder': 'f2'}
    """

    tension: CTObjective

    def __init__(self, recipe: CTRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        self.tested: str | None = None

    def objective(self) -> Objective:
        """f2 is the backbone's model, f1 its copy."""
        self.tension = CTObjective(self.backbone.model, self.recipe)
        return self.tension

    def checkpointed(self) -> nn.Module:
        return self.tension if self.recipe.test_encoder == "best" else super().checkpointed()

    @classmethod
    def traits(cls, recipe: CTRecipe) -> Traits:
        """Only a positive's sentence is read by both encoders."""
        return replace(super().traits(recipe), training_passes=1.1 * recipe.epochs)

    def settings(self) -> TrainSettings:
        recipe, groups = self.recipe, self.recipe.groups(0, 0)
        return TrainSettings(
            batch_size=groups.of_batch,
            learning_rate=recipe.learning_rate,
            epochs=1,
            eval_every=recipe.eval_every,
            looks=recipe.looks,
            optimizer="rmsprop",
            rmsprop_smoothing=recipe.smoothing,
            rmsprop_epsilon=recipe.rmsprop_epsilon,
            rate_until=tuple((step + 1, rate) for step, rate in zip(recipe.rate_steps, recipe.rates, strict=True)),
            max_grad_norm=recipe.max_grad_norm or math.inf,
            units_per_row=groups.width,
        )

    def training_rows(self, corpus: Corpus, run: Run) -> Rows:
        """Rows are groups of pairs; raises TrainingError for a corpus smaller than a batch."""
        sentences = [text for text in corpus.sentences if len(text) >= self.recipe.min_chars]
        groups = self.recipe.groups(len(sentences), run.seed)
        table = self.training_table(sentences)

        def batch(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            sides = [(table.padded(side.ravel(), self.backbone.pad_id), side.shape) for side in groups.pairs(rows)]
            return tuple(tensor.view(*shape, -1) for tensors, shape in sides for tensor in tensors)

        return batch, groups.count

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        if dev_score is not None and self.recipe.test_encoder == "best":
            dev_score = self.better(dev_score)
        report = super().fit(corpus, dev_score=dev_score, run=run)
        if int(self.tension.chosen) == 1:
            self.backbone.model.load_state_dict(self.tension.f1.model.state_dict())
        self.tested = f"f{int(self.tension.chosen)}"
        del self.tension
        width, rate = self.recipe.groups(0, 0).width, report.sentences_per_second
        rate = rate and round(rate * width, 1)
        return replace(report, sentences=report.sentences * width, sentences_per_second=rate, facts=self.facts())

    def better(self, dev_score: DevScore) -> DevScore:
        """Dev score: the higher of f1's and f2's (f2's if equal); `chosen` stores the winner."""

        def both(_: object) -> float | Mapping[str, float]:
            f2, of_f2 = self.backbone.model, dev_score(self)
            try:
                self.backbone.model = self.tension.f1.model
                of_f1 = dev_score(self)
            finally:
                self.backbone.model = f2
            if math.isnan(score_of(of_f1)):
                return of_f1
            f1_better = score_of(of_f1) > score_of(of_f2)
            self.tension.chosen.fill_(1 if f1_better else 2)
            return of_f1 if f1_better else of_f2

        return both

    def facts(self) -> dict[str, Any]:
        return {"test_encoder": self.tested} if self.tested else {}

    def save(self, folder: Path) -> None:
        super().save(folder)
        write_json(folder / "ct.json", self.facts())

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        encoder = super().load(folder, runtime)
        encoder.tested = read_json(folder / "ct.json").get("test_encoder")
        return encoder
