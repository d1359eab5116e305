"""Contrast of two augmented views of each sentence: ConSERT (Yan et al. 2021), CLEAR (Wu et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn
from typing_extensions import TypeVar

from zoo.encoder import Corpus, Run, Traits
from zoo.engine.states import Pooling, pooled
from zoo.errors import UsageError
from zoo.methods.base import check_adam, check_positive
from zoo.methods.contrastive import Contrastive, ContrastiveRecipe, Rows
from zoo.modules.pooler import POOLINGS, Pooler, TrainedPooler
from zoo.modules.templates import first_position
from zoo.plugins import register_method
from zoo.recipes import added
from zoo.training.loop import Objective
from zoo.training.losses import nt_xent
from zoo.training.positives import augmented
from zoo.training.settings import TrainSettings


@dataclass(frozen=True, kw_only=True)
class TwoViewsRecipe(ContrastiveRecipe):
    # For both views, one drawn per sentence (zoo.training.augment).
    augment: tuple[str, ...] = ()
    shuffle: tuple[bool, ...] = (False, False)
    # The share of the embedding layer's features set to 0 (feature cutoff).
    cutoff: tuple[float, ...] = (0.0, 0.0)
    temperature: float = 0.1
    token_cutoff: tuple[float, ...] = added((0.0, 0.0))
    train_pooler: Pooler | None = added(None)  # noqa: RUF009  # None: `pooler`; ConSERT's code: "avg"
    # True as in the code: dev scores use train_pooler.
    select_like_training: bool = added(False)
    # Of NT-Xent; the code takes 0.15 of the sum of both directions' means.
    loss_weight: float = added(1.0)
    bias_correction: bool = added(True)
    adam_epsilon: float = added(1e-8)
    weight_decay: float = added(0.0)
    warmup: float = added(0.0)
    patience: int | None = added(None)
    # "target": trained on the texts of the run's tasks, of every split and without labels: transductive
    fit_on: Literal["corpus", "target"] = added("corpus")
    # Count eval_every within each epoch, and evaluate at its end too.
    eval_within_epochs: bool = added(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shuffle) != 2 or len(self.cutoff) != 2:
            raise ValueError("shuffle and cutoff have one value for each of the two views")
        if len(self.token_cutoff) != 2 or not all(0 <= share < 1 for share in (*self.cutoff, *self.token_cutoff)):
            raise ValueError(f"cutoff must be between 0 and 1, not {list(self.cutoff)}; so must token_cutoff")
        check_adam(self)
        if self.train_pooler not in (None, self.pooler) and not self.mlp_only_train:
            raise ValueError("mlp_only_train: false needs the pooler of training at test; leave train_pooler out")
        check_positive(self, "loss_weight", "adam_epsilon", "patience")


def shuffled_positions(attention_mask: torch.Tensor, first: int) -> torch.Tensor:
    """Position ids (n, length) from `first`, in random order over tokens with mask 1."""
    n, length = attention_mask.shape
    keys = torch.rand(n, length, device=attention_mask.device)
    order = keys.masked_fill(attention_mask == 0, 2.0).argsort(1).argsort(1)
    return first + order


def cut_features(embeddings: torch.Tensor, share: float) -> torch.Tensor:
    """(n, length, dim) with int(share * dim) features of each sentence set to 0 everywhere."""
    n, _, dim = embeddings.shape
    ranks = torch.rand(n, dim, device=embeddings.device).argsort(1).argsort(1)
    return embeddings * (ranks >= int(share * dim)).to(embeddings.dtype).unsqueeze(1)


def cut_tokens(embeddings: torch.Tensor, attention_mask: torch.Tensor, share: float) -> torch.Tensor:
    """(n, length, dim) with int(share * tokens) tokens of each row set to 0; mask (n, length)."""
    ranks = shuffled_positions(attention_mask, 0)
    kept = ranks >= (share * attention_mask.sum(1, keepdim=True)).long()
    return embeddings * kept.to(embeddings.dtype).unsqueeze(2)


class TwoViewsObjective(Objective):
    """NT-Xent over 2n vectors: the positive of a view is the sentence's other view, the other 2n - 2 are negatives."""

    def __init__(self, pooler: TrainedPooler, recipe: TwoViewsRecipe, first_position: int = 0) -> None:
        super().__init__()
        self.pooler, self.recipe, self.first_position = pooler, recipe, first_position

    def _view(self, number: int, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        model, features, tokens = self.pooler.model, self.recipe.cutoff[number], self.recipe.token_cutoff[number]
        extra: dict[str, object] = {}
        if self.recipe.shuffle[number]:
            extra["position_ids"] = shuffled_positions(mask, self.first_position)

        def cut(module: nn.Module, given: object, output: torch.Tensor) -> torch.Tensor:
            output = cut_features(output, features) if features else output
            return cut_tokens(output, mask, tokens) if tokens else output

        if not hasattr(model, "embeddings"):
            kind = model.config.model_type
            raise UsageError(f"a {kind} has no one module of embeddings to cut or shuffle; use a BERT or RoBERTa.")
        hook = model.get_submodule("embeddings").register_forward_hook(cut)
        try:
            states = pooled(model, ids, mask, self.pooler.how, **extra)
        finally:
            hook.remove()
        vectors: torch.Tensor = self.pooler.mlp(states)
        return vectors

    def embed(self, *collated: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, length) of the first view, then of the second -> two vectors (n, dim) per sentence."""
        ids, mask, other_ids, other_mask = collated
        return self._view(0, ids, mask), self._view(1, other_ids, other_mask)

    def contrast(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return self.recipe.loss_weight * nt_xent(first, second, self.recipe.temperature)


TwoViewsRecipeT = TypeVar("TwoViewsRecipeT", bound=TwoViewsRecipe, default=TwoViewsRecipe)


@register_method("twoviews")
class TwoViews(Contrastive[TwoViewsRecipeT]):
    """ConSERT and CLEAR, different only in recipes; at evaluation the sentence is unchanged.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = TwoViews(TwoViews.Recipe(batch_size=4, shuffle=(False, True), cutoff=(0.2, 0.0)), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    @property
    def views_by_dropout(self) -> bool:
        recipe = self.recipe
        return not (recipe.augment or any((*recipe.shuffle, *recipe.cutoff, *recipe.token_cutoff)))

    @property
    def pooling(self) -> Pooling:
        return super().pooling if not self.as_trained else POOLINGS[self.recipe.train_pooler or self.recipe.pooler]

    @classmethod
    def traits(cls, recipe: TwoViewsRecipeT) -> Traits:
        return replace(super().traits(recipe), reads_target=recipe.fit_on == "target")

    def settings(self) -> TrainSettings:
        patience, within = self.recipe.patience, self.recipe.eval_within_epochs
        return replace(super().settings(), patience=patience, eval_within_epochs=within)

    def objective(self) -> Objective:
        return TwoViewsObjective(*self.parts_of_objective())

    def parts_of_objective(self) -> tuple[TrainedPooler, TwoViewsRecipeT, int]:
        """Raises UsageError for shuffle on a backbone with relative positions."""
        recipe, first = self.recipe, 0
        if any(recipe.shuffle):
            first = first_position(self.backbone, "shuffle: [false, false]")
            if not getattr(self.backbone.model.config, "position_biased_input", True):
                raise UsageError(
                    f"backbone {self.backbone.source.name!r} has relative positions only, which shuffle cannot"
                    " exchange; use shuffle: [false, false]."
                )
        return TrainedPooler(self.backbone.model, recipe.train_pooler or recipe.pooler, self.mlp), recipe, first

    def training_rows(self, corpus: Corpus, run: Run) -> Rows:
        recipe, pad_id = self.recipe, self.backbone.pad_id
        table = self.training_table(corpus.sentences)
        if not recipe.augment:
            return lambda rows: (*table.padded(rows, pad_id), *table.padded(rows, pad_id)), len(table)
        return augmented(self.backbone, table, recipe.augment, run.seed, views=2), len(table)
