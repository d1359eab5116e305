"""Views of the sentences of a batch: augmented ones, and several of a sentence side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from zoo.engine.backbone import Backbone
from zoo.engine.tokens import TokenTable
from zoo.training.augment import generator, make_augmenter


def augmented(
    backbone: Backbone, table: TokenTable, augment: tuple[str, ...], seed: int, *, keeps: int = 0, views: int = 1
) -> Callable[[NDArray[np.int64]], tuple[torch.Tensor, ...]]:
    """Return a function of row numbers (n,): ids and mask of each augmented view, drawn by seed and batch alone."""
    augmenter = make_augmenter(backbone, augment, keeps)

    def batch(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
        rng, sentences = generator(seed, int(rows[0])), [table.row(int(i)) for i in rows]
        return tuple(part for _ in range(views) for part in augmenter.batch(sentences, rng))

    return batch


def side_by_side(views: Sequence[tuple[torch.Tensor, torch.Tensor]], pad_id: int) -> tuple[torch.Tensor, ...]:
    """Return ids and mask (n, views, longest) of views that have ids and mask (n, length) each."""
    longest = max(ids.shape[1] for ids, _ in views)

    def stacked(parts: Sequence[torch.Tensor], fill: int) -> torch.Tensor:
        return torch.stack([F.pad(part, (0, longest - part.shape[1]), value=fill) for part in parts], dim=1)

    ids, masks = zip(*views, strict=True)
    return stacked(ids, pad_id), stacked(masks, 0)
