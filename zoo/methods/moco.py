"""MoCo-BERT (Tan et al. 2022, section 4): a momentum encoder, a queue of past keys, and discrete augmentations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

import torch
from torch import nn

from zoo.encoder import Corpus, Run, Traits
from zoo.engine.states import pooled
from zoo.methods.base import check_positive
from zoo.methods.contrastive import Contrastive, ContrastiveRecipe, Rows
from zoo.modules.pooler import TrainedPooler
from zoo.plugins import register_method
from zoo.recipes import added
from zoo.training.loop import Objective
from zoo.training.losses import info_nce
from zoo.training.momentum import MomentumObjective, check_momentum, momentum_update
from zoo.training.positives import augmented

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class MoCoRecipe(ContrastiveRecipe):
    """Defaults of PT-BERT's MoCo-BERT (section 4.1) and, by its reference, of SimCSE."""

    # lambda of Eq. 5.
    momentum: float = 0.885
    # Including the batch: 1 positive + 255 negatives. The code has 320.
    queue_size: int = 256
    eval_every: int = 125
    augment: tuple[str, ...] = ()
    # "No augmentation" choices beside those of `augment`; the code has 2.
    keeps: int = 0
    # The key's view is the sentence's predicates with ARG0, PRED, ARGM-NEG, ARG1.
    srl: bool = False
    # "query" is ESimCSE, where the queue only adds negatives.
    positives: Literal["momentum", "query"] = "momentum"
    # ESimCSE's code makes keys without dropout and with the query's MLP.
    key_dropout: bool = added(True)
    key_mlp: Literal["momentum", "query"] = added("momentum")
    # "random": the code copies before the pretrained weights load.
    key_start: Literal["copy", "random"] = added("copy")
    queue_drops: Literal["last", "first"] = added("last")
    # h = V(V(y)), to which PT-BERT with one state reduces; its control.
    double_linear: bool = False
    linear_biases: bool = added(True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "queue_size")
        check_momentum(self, holds_batch=self.positives == "momentum")
        if self.double_linear and not self.mlp_only_train:
            raise ValueError(
                "double_linear has no part at test, where the MLP was trained behind it: mlp_only_train: true"
            )
        if not self.linear_biases and not self.double_linear:
            raise ValueError("linear_biases: false has no effect without double_linear: true")
        if self.key_mlp == "query" and self.pooler != "cls":
            raise ValueError(f"key_mlp: query has no effect, for the pooler {self.pooler!r} has no MLP")
        if self.queue_drops == "first" and self.positives == "momentum":
            raise ValueError("queue_drops: first is for positives: query, where the queue holds past keys alone")
        if self.key_start == "random" and self.pooler == "sif":
            raise ValueError("key_start: random makes a model without the token weights that the pooler sif reads")
        if self.keeps < 0:
            raise ValueError(f"keeps must not be below 0, not {self.keeps}")


class MoCoObjective(MomentumObjective):
    """l_i = -log exp(cos(h_i, h'_i)/tau) / sum_{j<=M} exp(cos(h_i, h'_j)/tau) (Eq. 4), M the queue size.

    With positives "query" (ESimCSE) h'_i comes from the encoder itself, with gradient; candidates are the batch's h'
    and the queue's past keys.
    """

    query_branch: TrainedPooler
    key_branch: TrainedPooler

    ungraphed = None

    def __init__(self, model: PreTrainedModel, recipe: MoCoRecipe, mlp: nn.Module | None = None) -> None:
        pooler = TrainedPooler(model, recipe.pooler, mlp)
        if recipe.double_linear:
            value = nn.Linear(model.config.hidden_size, model.config.hidden_size, bias=recipe.linear_biases)
            pooler.mlp = nn.Sequential(value, value, pooler.mlp)
        super().__init__(pooler, recipe)
        if recipe.key_start == "random":
            self.to(model.device)
            # ESimCSE's code updates it before making keys; here after_step() does, so the first update is made now.
            momentum_update(self.key_branch, self.query_branch, recipe.momentum)

    def embed(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, view_ids: torch.Tensor, view_mask: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Sentences and their views, ids and masks (n, length) -> h, h' (n, dim), and ESimCSE's keys to queue."""
        h = self.query_branch(input_ids, attention_mask)
        if self.recipe.positives == "momentum":
            return h, self.keys(view_ids, view_mask)
        h_plus = self.query_branch(view_ids, view_mask)
        return h, h_plus, self.keys(input_ids, attention_mask)

    @torch.no_grad()
    def keys(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Ids and mask (n, length) -> the momentum encoder's vectors (n, dim), without gradient."""
        key = self.key_branch
        head = self.query_branch.mlp if self.recipe.key_mlp == "query" else key.mlp
        vectors: torch.Tensor = head(pooled(key.model, input_ids, attention_mask, key.how))
        return vectors

    def train(self, mode: bool = True) -> Self:
        """With key_dropout: false the key encoder stays in eval mode."""
        super().train(mode)
        self.key_branch.train(mode and self.recipe.key_dropout)
        return self

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *keys: torch.Tensor) -> torch.Tensor:
        if not keys:
            candidates = self.queue.push(h_plus)
        else:
            candidates = torch.cat([h_plus.float(), self.queue.held().clone()])
            past = keys[0]
            # The last rows go first.
            self.queue.push(past if self.recipe.queue_drops == "last" else past.flip(0))
        return info_nce(h, candidates, self.recipe.temperature)


@register_method("moco")
class MoCo(Contrastive[MoCoRecipe]):
    """MoCo-BERT and ESimCSE: queue and momentum encoder in training, only the backbone's [CLS] at evaluation.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = MoCo(MoCo.Recipe(batch_size=4, queue_size=8, augment=("reorder:0.2",)), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    def objective(self) -> Objective:
        return MoCoObjective(self.backbone.model, self.recipe, self.mlp)

    @property
    def views_by_dropout(self) -> bool:
        return not self.recipe.augment and not self.recipe.srl

    @classmethod
    def traits(cls, recipe: MoCoRecipe) -> Traits:
        """Passes: a pass with gradient, and a third of it without; for ESimCSE two with gradient."""
        passes = 1.34 if recipe.positives == "momentum" else 2.34
        return replace(super().traits(recipe), training_passes=passes * recipe.epochs)

    def training_rows(self, corpus: Corpus, run: Run) -> Rows:
        recipe, pad_id = self.recipe, self.backbone.pad_id
        table = self.training_table(corpus.sentences)
        views = table
        if recipe.srl:
            from zoo.srl.views import srl_views

            sequences = srl_views(corpus.sentences, progress=self.runtime.progress)
            views = self.training_table(sequences)
        if not recipe.augment:
            return lambda rows: (*table.padded(rows, pad_id), *views.padded(rows, pad_id)), len(table)
        view = augmented(self.backbone, views, recipe.augment, run.seed, keeps=recipe.keeps)
        return lambda rows: (*table.padded(rows, pad_id), *view(rows)), len(table)
