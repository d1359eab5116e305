"""Consecutive-sentence crops (González-Márquez and Kobak 2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Corpus, Run, Traits
from zoo.engine.batching import flat_rows
from zoo.engine.tokens import TokenTable, frame_of, tokenise
from zoo.errors import TrainingError
from zoo.methods.base import check_positive
from zoo.methods.contrastive import ContrastiveRecipe, Rows
from zoo.methods.dropoutviews import DropoutViews, DropoutViewsObjective
from zoo.modules.pooler import Pooler
from zoo.plugins import register_method
from zoo.recipes import added
from zoo.training.augment import generator
from zoo.training.settings import TrainSettings


@dataclass(frozen=True, kw_only=True)
class SentenceCropsRecipe(ContrastiveRecipe):
    """Defaults of the released code (berenslab/text-embed-augm@09ac529)."""

    sentences: int = 2
    # True, as in the code: the blocks only have different first sentences.
    overlap: bool = False
    # Sentences: a longer document is divided, since the paper's are abstracts.
    window: int = 10
    pooler: Pooler = "avg"
    learning_rate: float = 2e-5
    warmup: float = 0.1
    train_max_length: int = 512
    eval_every: int = 125
    # None, as in the code: not clipped.
    max_grad_norm: float | None = added(1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "sentences", "max_grad_norm")
        if self.window < self.sentences + (1 if self.overlap else self.sentences):
            raise ValueError(f"a window of {self.window} sentences has no two blocks of {self.sentences}")


class SentenceCropsObjective(DropoutViewsObjective):
    """-log exp(cos(h_i, h_i')/t) / sum_j exp(cos(h_i, h_j')/t), h and h' two blocks of a document."""

    ungraphed = None

    def embed(self, *collated: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ids, mask = collated
        vectors: torch.Tensor = self.pooler(ids.flatten(0, 1), flat_rows(mask))
        return vectors.view(len(ids), 2, -1).unbind(1)


def windows(ends: NDArray[np.int64], most: int, least: int) -> NDArray[np.int64]:
    """First and last sentence + 1 (n, 2) of windows of `least` to `most` sentences, within documents.

    `ends` (sentences,): for each sentence the number after its document's last.
    """
    bounds, start = [], 0
    while start < len(ends):
        end = min(start + most, int(ends[start]))
        if end - start >= least:
            bounds.append((start, end))
        start = end
    return np.array(bounds, dtype=np.int64).reshape(-1, 2)


@register_method("sentence-crops")
class SentenceCrops(DropoutViews[SentenceCropsRecipe]):
    """Consecutive-sentence crops: blocks of a document contrasted with other documents'; at evaluation the mean.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = SentenceCrops(SentenceCrops.Recipe(batch_size=2), Runtime())
        >>> corpus = Corpus("toy", [f"sentence number {i}" for i in range(16)], documents=[0, 4, 8, 12])
        >>> encoder.fit(corpus, run=Run(seed=1)).steps
        2
    """

    loss_of_batch = SentenceCropsObjective

    @property
    def views_by_dropout(self) -> bool:
        return False

    @classmethod
    def traits(cls, recipe: SentenceCropsRecipe) -> Traits:
        passes = 2.0 * recipe.sentences / recipe.window * recipe.epochs
        return replace(super().traits(recipe), needs_neighbours=True, training_passes=passes)

    def settings(self) -> TrainSettings:
        recipe = self.recipe
        steps = recipe.steps or math.ceil(self.rows / (recipe.batch_size * recipe.accumulate))
        return replace(
            super().settings(),
            warmup_steps=int(steps * recipe.warmup),
            units_per_row=2 * recipe.sentences,
            max_grad_norm=recipe.max_grad_norm or math.inf,
        )

    def training_rows(self, corpus: Corpus, run: Run) -> Rows:
        """Ids and mask (n, 2, longest) of two blocks of each window; raises TrainingError if there is none."""
        recipe, tokenizer, pad_id = self.recipe, self.backbone.tokenizer, self.backbone.pad_id
        size, start_end = recipe.sentences, frame_of(tokenizer)
        inner = min(recipe.train_max_length, self.backbone.max_length) - sum(map(len, start_end))
        gap = 1 if recipe.overlap else size
        table = tokenise(tokenizer, corpus.sentences, max_length=None, add_special_tokens=False)
        within = windows(corpus.document_ends(), recipe.window, size + gap)
        self.rows = len(within)
        if not self.rows:
            raise TrainingError(f"no document of {corpus.name} has the {size + gap} sentences that two blocks need.")

        def batch(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            rng = generator(run.seed, int(rows[0]))
            pairs = []
            for first, end in within[rows]:
                earlier, later = np.sort(rng.choice(end - first - size - gap + 2, size=2, replace=False))
                pairs.append(first + rng.permutation([earlier, later + gap - 1]))
            starts = np.stack(pairs).T.ravel()
            lengths = table.offsets[starts + size] - table.offsets[starts]
            blocks = table.stretches(table.offsets[starts], np.minimum(lengths, inner)).framed(*start_end)
            ids, mask = TokenTable(blocks.ids, blocks.offsets).padded(np.arange(len(starts)), pad_id)
            return tuple(part.view(2, len(rows), -1).transpose(0, 1) for part in (ids, mask))

        return batch, self.rows
