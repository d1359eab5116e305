"""SBERT (Reimers and Gurevych 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from typing_extensions import TypeVar

from zoo.encoder import NLI_LABELS, Corpus, DevScore, FitReport, Run, Start, Traits
from zoo.engine.dropout import set_dropout
from zoo.engine.needs import Need
from zoo.engine.states import Pooling
from zoo.engine.tokens import tokenise
from zoo.formats.export import EXPORTED_POOLINGS
from zoo.methods.base import BackboneEncoder, BackboneRecipe, check_positive
from zoo.methods.pooled import pooled_start
from zoo.plugins import register_method
from zoo.recipes import added
from zoo.training.settings import TrainSettings
from zoo.training.siamese import (
    Concatenation,
    FastLinear,
    PairObjective,
    PairTask,
    PooledStates,
    labelled_task,
    train_in_turn,
    width_of,
)


@dataclass(frozen=True, kw_only=True)
class SBERTRecipe(BackboneRecipe):
    """The defaults are the paper's (section 3.1); warmup, Adam's settings and train_max_length are the code's."""

    # Of the last layer, [CLS] and [SEP] included, also in training.
    pooling: Literal["mean", "max", "cls"] = "mean"
    test_pooling: Pooling | None = added(None)  # noqa: RUF009  # None: the pooling of training
    concatenation: Concatenation = "u;v;|u-v|"
    # As in softmax(W_t (u, v, |u - v|)); the released code has a bias.
    head_bias: bool = False
    # The heads' rate / the encoder's: 1 in the papers, see FastLinear.
    head_rate: float = added(1.0)
    batch_size: int = 16
    learning_rate: float = 2e-5
    epochs: int = 1
    # Open; from the released code.
    warmup: float = 0.1
    adam_betas: tuple[float, float] = (0.9, 0.999)
    adam_epsilon: float = 1e-8
    # The paper: Adam. The released code: AdamW, 0.01.
    weight_decay: float = 0.0
    train_max_length: int = 128
    dropout: float | None = None
    # Steps between dev scores. None: no dev score, the last weights are used.
    eval_every: int | None = None
    looks: int | None = added(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "batch_size", "learning_rate", "head_rate", "epochs", "adam_epsilon", "train_max_length")
        check_positive(self, "eval_every", "looks")
        if not 0 <= self.warmup <= 1 or self.weight_decay < 0:
            raise ValueError("warmup must be between 0 and 1, and weight_decay not below 0")
        if len(self.adam_betas) != 2 or not all(0 <= beta < 1 for beta in self.adam_betas):
            raise ValueError("adam_betas must be two numbers from 0 to below 1")


SBERTRecipeT = TypeVar("SBERTRecipeT", bound=SBERTRecipe, default=SBERTRecipe)


@register_method("sbert")
class SBERT(BackboneEncoder[SBERTRecipeT]):
    """SBERT: at evaluation the pooled states; the classifier is only for training.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = SBERT(SBERT.Recipe(batch_size=2), Runtime())
        >>> pairs = ["a dog runs", "an animal moves", "a dog runs", "it sleeps", "a cat", "a pet"]
        >>> labels = ["entailment", "contradiction", "neutral"]
        >>> encoder.fit(Corpus("toy", pairs, labels), run=Run(seed=1)).steps
        2
    """

    @property
    def pooling(self) -> Pooling:
        how: Pooling = self.recipe.pooling if self.recipe.test_pooling is None else self.recipe.test_pooling
        return how

    @classmethod
    def needs(cls, recipe: SBERTRecipeT) -> frozenset[Need]:
        return frozenset({"first token"} if recipe.pooling == "cls" else ())

    @classmethod
    def traits(cls, recipe: SBERTRecipeT) -> Traits:
        return Traits(
            needs_pairs=True,
            stochastic=True,
            picks_checkpoint=(recipe.eval_every or recipe.looks) is not None,
            training_passes=1.0 * recipe.epochs,
            fine_tunes=True,
            exports=(recipe.test_pooling or recipe.pooling) in EXPORTED_POOLINGS,
        )

    @classmethod
    def start(cls, recipe: SBERTRecipeT) -> Start | None:
        return pooled_start(recipe, recipe.test_pooling or recipe.pooling)

    def tasks(self, corpus: Corpus | None, run: Run) -> list[PairTask]:
        return [labelled_task("NLI", corpus, NLI_LABELS, "--pairs nli")]

    def objective(self, tasks: list[PairTask]) -> PairObjective:
        recipe = self.recipe
        width = width_of(recipe.concatenation) * self.dim
        heads = [FastLinear(width, task.classes, bias=recipe.head_bias, rate=recipe.head_rate) for task in tasks]
        return PairObjective(PooledStates(self.backbone.model, recipe.pooling), heads, recipe.concatenation)

    def settings(self, tasks: list[PairTask]) -> TrainSettings:
        """Adam with a linear warm-up, then linearly to 0; an epoch is a pass over the first task's pairs."""
        recipe = self.recipe
        steps = math.ceil(len(tasks[0]) / recipe.batch_size) * recipe.epochs * (1 if len(tasks) == 1 else 2)
        return TrainSettings(
            batch_size=recipe.batch_size,
            learning_rate=recipe.learning_rate,
            epochs=recipe.epochs,
            steps=steps,
            eval_every=recipe.eval_every or steps,
            looks=recipe.looks,
            weight_decay=recipe.weight_decay,
            adam_betas=recipe.adam_betas,
            adam_epsilon=recipe.adam_epsilon,
            warmup_steps=math.ceil(steps * recipe.warmup),
            tokens=2 * recipe.batch_size * recipe.train_max_length,
            units_per_row=2,
        )

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Raises ContractError or TrainingError without labelled pairs."""
        torch.manual_seed(run.seed)
        tasks = self.tasks(corpus, run)
        assert corpus is not None
        self.trained = True
        set_dropout(self.backbone.model, self.recipe.dropout)
        report = train_in_turn(
            self.objective(tasks).to(self.runtime.device),
            tasks,
            tokenise(self.backbone.tokenizer, corpus.sentences, max_length=self.recipe.train_max_length),
            self.backbone.pad_id,
            self.settings(tasks),
            runtime=self.runtime,
            run=run,
            backbone=self.backbone.model,
            dev_score=None if dev_score is None else lambda: dev_score(self),
        )
        return replace(report, facts={"pairs": {task.name: len(task) for task in tasks}})
