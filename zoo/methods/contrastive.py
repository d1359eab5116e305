"""Base class of the contrastive methods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import nn
from typing_extensions import TypeVar

from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime, Start, Traits
from zoo.engine.dropout import has_dropout, set_dropout
from zoo.engine.needs import Need
from zoo.engine.states import Pooling
from zoo.engine.tokens import TokenTable, tokenise
from zoo.errors import ContractError, UsageError
from zoo.formats.export import EXPORTED_POOLINGS, StockModules, dense
from zoo.methods.base import BackboneEncoder, BackboneRecipe, check_in_batch, check_positive
from zoo.methods.pooled import pooled_start
from zoo.modules.pooler import POOLINGS, Pooler, TanhHead, TokenWeights, TrainedPooler, untrained
from zoo.recipes import added
from zoo.training.loop import Collate, Objective, train
from zoo.training.settings import TrainSettings

if TYPE_CHECKING:
    from zoo.engine.backbone import Backbone


# Fields of Adam that some recipes have, and what the training calls them.
_ADAM = {"optimizer": "optimizer", "adam_epsilon": "adam_epsilon", "bias_correction": "adam_bias_correction"}


@dataclass(frozen=True, kw_only=True)
class TrainedRecipe(BackboneRecipe):
    """Recipe fields of `Contrastive`; the properties, fixed here, are fields of other recipes."""

    batch_size: int
    learning_rate: float
    epochs: int = 1
    train_max_length: int
    eval_every: int
    # None: the backbone's own, 0.1 for BERT.
    dropout: float | None = None
    # Dev scores in all, at equal parts of the training. None: by `eval_every`.
    looks: int | None = added(None)
    # Updates in all, whatever the epochs. None: those of the epochs.
    steps: int | None = added(None)

    @property
    def pooler(self) -> Pooler:
        return "avg"

    @property
    def mlp_only_train(self) -> bool:
        return True

    @property
    def accumulate(self) -> int:
        return 1

    @property
    def chunk_rows(self) -> int | None:
        return None

    @property
    def warmup(self) -> float:
        """Share of the steps, before a linear fall of the rate."""
        return 0.0

    @property
    def weight_decay(self) -> float:
        return 0.0

    @property
    def select_like_training(self) -> bool:
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = "batch_size learning_rate epochs train_max_length eval_every looks steps"
        check_positive(self, *numbers.split())
        if not 0 <= self.warmup <= 1 or self.weight_decay < 0:
            raise ValueError("warmup must be between 0 and 1, and weight_decay not below 0")


@dataclass(frozen=True, kw_only=True)
class ContrastiveRecipe(TrainedRecipe):
    """Unsupervised contrastive training; the defaults are SimCSE's for BERT-base (its table A.1)."""

    temperature: float = 0.05
    batch_size: int = 64
    # Batches per update; each is contrasted separately.
    accumulate: int = 1
    # Gradient cache: so many sentences are encoded at a time, and the loss is of the whole batch.
    chunk_rows: int | None = None
    learning_rate: float = 3e-5
    train_max_length: int = 32
    # Steps between dev scores; the scripts of SimCSE, PT-BERT and PromptBERT use 125.
    eval_every: int = 250
    pooler: Pooler = "cls"
    # The test vector is [CLS] without the MLP (SimCSE table 6: 82.5 against 81.7).
    mlp_only_train: bool = True
    # The latter as in released code of 2021.
    optimizer: Literal["adamw", "transformers-adamw"] = added("adamw")
    # Of the pooler "sif": a token weighs a / (a + p), p counted in the training text.
    sif_a: float = added(1e-3)

    def __post_init__(self) -> None:
        super().__post_init__()
        # A queue has negatives of earlier batches.
        if not hasattr(self, "queue_size"):
            check_in_batch(self, "batch_size")
        check_positive(self, "temperature", "accumulate", "chunk_rows", "sif_a")


Rows = tuple[Collate, int]
"""The function that makes a batch of the numbers of its rows, and the number of rows."""

TrainedRecipeT = TypeVar("TrainedRecipeT", bound=TrainedRecipe, default=Any)


class Contrastive(BackboneEncoder[TrainedRecipeT]):
    # The loss, around a pooler and the recipe, for a class without an `objective` of its own.
    loss_of_batch: ClassVar[type[Any]]
    rows = 0
    # True gives vectors as in training, for dev scores of recipes with `select_like_training`.
    as_trained = False

    def __init__(self, recipe: TrainedRecipeT, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        if "t5" in self.backbone.model.config.model_type:
            name = self.backbone.source.name
            raise UsageError(f"backbone {name!r} is a T5, which is not trained here; use an encoder, such as a BERT.")
        poolers = recipe.pooler, getattr(recipe, "train_pooler", None)
        self.token_weights = TokenWeights(self.backbone.model) if "sif" in poolers else None
        self.drawn = untrained(self.new_parts).to(runtime.device)

    def new_parts(self) -> nn.ModuleDict:
        """New modules of the vector besides the backbone; training begins with new weights."""
        keeps_mlp = self.recipe.pooler == "cls" and not self.recipe.mlp_only_train
        return nn.ModuleDict({"mlp": self.new_head()} if keeps_mlp else {})

    @property
    def mlp(self) -> nn.Module | None:
        return dict(self.drawn.items()).get("mlp")

    def new_head(self) -> nn.Module:
        return TanhHead(self.dim, self.backbone.model.config.initializer_range)

    def objective(self) -> Objective:
        """The loss around `self.backbone.model`, built after the seed is set."""
        objective: Objective = self.loss_of_batch(
            TrainedPooler(self.backbone.model, self.recipe.pooler, self.mlp), self.recipe
        )
        return objective

    @property
    def views_by_dropout(self) -> bool:
        """True if two views of a sentence differ only in dropout masks."""
        return False

    def check_dropout(self) -> None:
        """Raise UsageError for equal views, unless the recipe states a rate of 0, as ablations of papers do."""
        if has_dropout(self.backbone.model):
            return
        if self.recipe.dropout == 0:
            self.runtime.progress.say("warning: the two views of a sentence are equal, since dropout is 0.")
            return
        raise UsageError(
            f"{type(self).__name__} has two views of a sentence that differ by dropout alone, and"
            f" {self.backbone.source.name!r} has none here: both would be equal. Set dropout=0.1."
        )

    @property
    def pooling(self) -> Pooling:
        """The recipe's; "cls" and "cls_before_pooler" are both [CLS] of the last layer."""
        return POOLINGS[self.recipe.pooler]

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        vectors = super().forward(input_ids, attention_mask)
        return vectors if self.mlp is None else self.mlp(vectors).float()

    @classmethod
    def needs(cls, recipe: TrainedRecipeT) -> frozenset[Need]:
        return frozenset({"first token"} if POOLINGS[recipe.pooler] == "cls" else ())

    @classmethod
    def traits(cls, recipe: TrainedRecipeT) -> Traits:
        return Traits(
            needs_corpus=True,
            stochastic=True,
            picks_checkpoint=True,
            training_passes=2.0 * recipe.epochs,
            fine_tunes=True,
            exports=POOLINGS[recipe.pooler] in EXPORTED_POOLINGS,
        )

    @classmethod
    def start(cls, recipe: TrainedRecipeT) -> Start | None:
        return pooled_start(recipe, POOLINGS[recipe.pooler])

    def stock_modules(self) -> StockModules:
        modules = super().stock_modules()
        if not isinstance(self.mlp, TanhHead):
            return modules
        linear = self.mlp.dense
        return replace(modules, after=[dense(linear.weight.detach(), linear.bias.detach(), "Tanh")])

    def settings(self) -> TrainSettings:
        recipe = self.recipe
        adam: dict[str, Any] = {of: getattr(recipe, name) for name, of in _ADAM.items() if hasattr(recipe, name)}
        rows, batch_size = recipe.chunk_rows or recipe.batch_size, recipe.batch_size * recipe.accumulate
        return TrainSettings(
            batch_size=batch_size,
            accumulate=recipe.accumulate,
            chunk_rows=recipe.chunk_rows,
            tokens=round(rows * recipe.train_max_length * self.traits(recipe).training_passes / recipe.epochs),
            learning_rate=recipe.learning_rate,
            epochs=recipe.epochs,
            steps=recipe.steps,
            eval_every=recipe.eval_every,
            looks=recipe.looks,
            weight_decay=recipe.weight_decay,
            warmup_steps=math.ceil((recipe.steps or self.rows * recipe.epochs / batch_size) * recipe.warmup),
            **adam,
        )

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Keep the weights of the best dev score, or the last; raises UsageError for two equal views."""
        if corpus is None:
            raise ContractError(f"{type(self).__name__} is trained and needs a corpus; pass --corpus FILE.")
        torch.manual_seed(run.seed)
        set_dropout(self.backbone.model, self.recipe.dropout)
        if self.views_by_dropout:
            self.check_dropout()
        self.trained = True
        if self.token_weights is not None:
            assert isinstance(self.recipe, ContrastiveRecipe)
            self.token_weights.count(
                self.backbone.tokenizer, corpus.sentences, self.recipe.sif_a, self.runtime.progress
            )
        self.drawn = self.new_parts().to(self.runtime.device)
        collate, self.rows = self.training_rows(corpus, run)

        def score() -> float | Mapping[str, float]:
            assert dev_score is not None
            self.as_trained = self.recipe.select_like_training
            try:
                return dev_score(self)
            finally:
                self.as_trained = False

        return train(
            self.objective().to(self.runtime.device),
            collate,
            self.rows,
            self.settings(),
            runtime=self.runtime,
            run=run,
            backbone=self.checkpointed(),
            dev_score=None if dev_score is None else score,
        )

    def checkpointed(self) -> nn.Module:
        return nn.ModuleList([self.backbone.model, *self.parts().values()])

    def parts(self) -> dict[str, nn.Module]:
        weights = {} if self.token_weights is None else {"token_weights": self.token_weights}
        return {**self.drawn, **weights}

    def training_rows(self, corpus: Corpus, run: Run) -> Rows:
        """Collate function, by default of ids and mask (n, longest), and the number of rows."""
        table, pad_id = self.training_table(corpus.sentences), self.backbone.pad_id
        return lambda rows: table.padded(rows, pad_id), len(table)

    def training_table(self, texts: Sequence[str]) -> TokenTable:
        most, progress = self.recipe.train_max_length, self.runtime.progress
        return tokenise(self.backbone.tokenizer, texts, max_length=most, progress=progress)
