"""Two augmented views of each sentence, contrasted both ways: ConSERT (Yan et al. 2021), CLEAR (Wu et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Corpus, Run
from zoo.engine.states import pooled
from zoo.engine.tokens import tokenise
from zoo.errors import UsageError
from zoo.methods.contrastive import Contrastive, ContrastiveRecipe, TrainedPooler
from zoo.modules.templates import first_position
from zoo.training.augment import generator, make_augmenter
from zoo.training.loop import Objective
from zoo.training.losses import nt_xent


@dataclass(frozen=True, kw_only=True)
class TwoViewsRecipe(ContrastiveRecipe):
    """How each of the two views is made: of the tokens before the encoder, or inside its embedding layer."""

    augment: tuple[str, ...] = ()  # of both views, one of them a sentence (zoo.training.augment)
    shuffle: tuple[bool, ...] = (False, False)  # exchange the sentence's position embeddings (ConSERT's token shuffle)
    cutoff: tuple[float, ...] = (0.0, 0.0)  # share of the embedding layer's features set to 0 (ConSERT's cutoff)
    temperature: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shuffle) != 2 or len(self.cutoff) != 2:
            raise ValueError("shuffle and cutoff have one value for each of the two views")
        if not all(0 <= share < 1 for share in self.cutoff):
            raise ValueError(f"cutoff must be between 0 and 1, not {list(self.cutoff)}")


def shuffled_positions(attention_mask: torch.Tensor, first: int) -> torch.Tensor:
    """Position ids (n, length), counted from `first`, exchanged at random among the tokens that are attended to."""
    n, length = attention_mask.shape
    keys = torch.rand(n, length, device=attention_mask.device)
    order = keys.masked_fill(attention_mask == 0, 2.0).argsort(1).argsort(1)
    return first + order


def cut_features(embeddings: torch.Tensor, share: float) -> torch.Tensor:
    """Embeddings (n, length, dim) with int(share * dim) features of each sentence set to 0 at every position."""
    n, _, dim = embeddings.shape
    ranks = torch.rand(n, dim, device=embeddings.device).argsort(1).argsort(1)
    return embeddings * (ranks >= int(share * dim)).to(embeddings.dtype).unsqueeze(1)


class TwoViewsObjective(Objective):
    """NT-Xent over 2n vectors: the positive of a view is the sentence's other view, the other 2n - 2 are negatives."""

    def __init__(self, pooler: TrainedPooler, recipe: TwoViewsRecipe, first_position: int = 0) -> None:
        super().__init__()
        self.pooler, self.recipe, self.first_position = pooler, recipe, first_position

    def _view(self, number: int, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        model, share = self.pooler.model, self.recipe.cutoff[number]
        extra: dict[str, Any] = {}
        if self.recipe.shuffle[number]:
            extra["position_ids"] = shuffled_positions(mask, self.first_position)
        hook = None
        if share:
            hook = model.embeddings.register_forward_hook(lambda module, given, output: cut_features(output, share))
        try:
            states = pooled(model, ids, mask, self.pooler.how, **extra)
        finally:
            if hook is not None:
                hook.remove()
        vectors: torch.Tensor = self.pooler.mlp(states)
        return vectors

    def embed(self, *collated: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, length) of the first view, then of the second -> two vectors (n, dim) a sentence."""
        ids, mask, other_ids, other_mask = collated
        return self._view(0, ids, mask), self._view(1, other_ids, other_mask)

    def contrast(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Vectors of both views (n, dim) -> scalar loss."""
        # Every process computes the loss of the whole batch: each vector is anchor and negative at once.
        return nt_xent(self.everyones(first)[0], self.everyones(second)[0], self.recipe.temperature)


class TwoViews(Contrastive[TwoViewsRecipe]):
    """ConSERT and CLEAR as recipes of the same parts; at test the sentence goes in as it is.

    Example:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = TwoViews(TwoViews.Recipe(batch_size=4, shuffle=(False, True), cutoff=(0.2, 0.0)), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    Recipe: ClassVar[type] = TwoViewsRecipe

    @property
    def views_by_dropout(self) -> bool:
        """True where neither view is changed."""
        return not (self.recipe.augment or any(self.recipe.shuffle) or any(self.recipe.cutoff))

    def objective(self) -> Objective:
        """Contrast of the two views within the batch; raises UsageError for a shuffle where positions are relative."""
        recipe, first = self.recipe, 0
        if any(recipe.shuffle):
            first = first_position(self.backbone, "shuffle: [false, false]")
            if not getattr(self.backbone.model.config, "position_biased_input", True):
                raise UsageError(
                    f"backbone {self.backbone.source.name!r} knows relative positions only, which shuffle cannot"
                    " exchange; use shuffle: [false, false]."
                )
        return TwoViewsObjective(TrainedPooler(self.backbone.model, recipe.pooler, self.mlp), recipe, first)

    def training_rows(self, corpus: Corpus, run: Run) -> tuple[Callable[[NDArray[np.int64]], tuple[Any, ...]], int]:
        """A batch is two views of its sentences."""
        recipe, pad_id = self.recipe, self.backbone.pad_id
        table = tokenise(self.backbone.tokenizer, corpus.sentences, max_length=recipe.train_max_length)
        if not recipe.augment:
            return lambda rows: (*table.padded(rows, pad_id), *table.padded(rows, pad_id)), len(table)
        augmenter = make_augmenter(self.backbone, recipe.augment, keeps=0)

        def batch(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            rng = generator(run.seed, int(rows[0]))  # a function of the batch: a resumed run draws the same
            sentences = [table.row(int(i)) for i in rows]
            return *augmenter.batch(sentences, rng), *augmenter.batch(sentences, rng)

        return batch, len(table)
