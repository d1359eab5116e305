"""What the contrastive methods share: the recipe fields, the test-time [CLS], and the call of the training loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Corpus, DevScore, FitReport, Run, Traits
from zoo.errors import ContractError
from zoo.methods.base import BackboneEncoder, BackboneRecipe, positive
from zoo.pooling import Pooling
from zoo.tokens import tokenise
from zoo.training.loop import Objective, TrainSettings, train


@dataclass(frozen=True, kw_only=True)
class ContrastiveRecipe(BackboneRecipe):
    """Settings of unsupervised contrastive training; the defaults are SimCSE's for BERT-base (its table A.1)."""

    temperature: float = 0.05
    batch_size: int = 64
    learning_rate: float = 3e-5
    epochs: int = 1
    train_max_length: int = 32
    eval_every: int = 250  # steps between dev scores; the scripts of SimCSE, PT-BERT and PromptBERT use 125

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "temperature", "batch_size", "learning_rate", "epochs", "train_max_length", "eval_every")


class Contrastive(BackboneEncoder):
    """Trains the backbone on an objective over sentences; the test vector is the backbone's [CLS], no head."""

    def objective(self) -> Objective:
        """Return the loss module around `self.backbone.model`; it is built after the seed is set."""
        raise TypeError(f"{type(self).__name__} must define its objective")

    @property
    def pooling(self) -> Pooling:
        """[CLS] of the last layer ("cls_before_pooler")."""
        return "cls"

    @classmethod
    def traits(cls, recipe: Any) -> Traits:
        """Trained on a corpus, seeded, checkpoint picked by a dev score."""
        return Traits(needs_corpus=True, stochastic=True, picks_checkpoint=True, training_passes=2.0 * recipe.epochs)

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Train on the corpus's sentences and keep the weights of the best dev score (the last, without one)."""
        if corpus is None:
            raise ContractError(f"{type(self).__name__} is trained and needs a corpus; pass --corpus FILE.")
        recipe = self.recipe
        torch.manual_seed(run.seed)
        self.trained = True
        return train(
            self.objective().to(self.runtime.device),
            self.collate(corpus),
            len(corpus.sentences),
            TrainSettings(
                batch_size=recipe.batch_size,
                learning_rate=recipe.learning_rate,
                epochs=recipe.epochs,
                eval_every=recipe.eval_every,
            ),
            runtime=self.runtime,
            run=run,
            backbone=self.backbone.model,
            dev_score=None if dev_score is None else lambda: dev_score(self),
        )

    def collate(self, corpus: Corpus) -> Callable[[NDArray[np.int64]], tuple[torch.Tensor, ...]]:
        """Tokenise the corpus once; a batch is its input_ids and attention_mask (n, longest)."""
        table = tokenise(self.backbone.tokenizer, corpus.sentences, max_length=self.recipe.train_max_length)
        pad_id = self.backbone.pad_id
        return lambda rows: table.padded(rows, pad_id)
