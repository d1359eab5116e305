"""Pooling of token states to one vector per text, in float32 (docs/methods.md gives the papers' names)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch

from zoo.errors import UsageError

Pooling = Literal["cls", "last", "first-last-h0", "first-last-h1", "top2", "mean", "max", "sif", "cls-mean"]

NEEDS_ALL_LAYERS = frozenset({"first-last-h0", "first-last-h1", "top2"})


def masked_mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean over positions, weighted by the mask (1 or 0, or any weights): (n, length, dim), (n, length) -> (n, dim)."""
    weights = mask.unsqueeze(-1).to(torch.float32)
    return (states.float() * weights).sum(1) / weights.sum(1).clamp(min=1e-12)


def pool(hidden: Sequence[torch.Tensor], mask: torch.Tensor, how: Pooling) -> torch.Tensor:
    """Pool the layer outputs, `hidden[0]` being the embedding layer and `hidden[-1]` the last, to (n, dim) float32.

    "last" (= "mean") is the mean of the last layer over the mask, [CLS] and [SEP] included; "first-last-h0" of the
    embedding layer and the last, as in published "first-last avg." numbers; "first-last-h1" of layer 1 and the last
    (SimCSE's code since 2022, BERT-whitening); "top2" of the last two layers. "cls" is the last layer's [CLS]; "max"
    its maximum over the mask; "sif" is the mean of the last layer over a mask of token weights; "cls-mean" is the mean
    of "cls" and "mean" (AnglE's `cls_avg`). Raises UsageError for another name, which a plugin may pass.
    """
    if how == "cls":
        return hidden[-1][:, 0].float()
    if how in ("last", "mean", "sif"):
        return masked_mean(hidden[-1], mask)
    if how == "cls-mean":
        return (hidden[-1][:, 0].float() + masked_mean(hidden[-1], mask)) / 2
    if how == "max":
        return hidden[-1].float().masked_fill(mask.unsqueeze(-1) == 0, float("-inf")).amax(1)
    if how == "top2":
        return masked_mean((hidden[-2].float() + hidden[-1].float()) / 2, mask)
    if how not in ("first-last-h0", "first-last-h1"):
        raise UsageError(f"pooling {how!r} is none of {', '.join(get_args(Pooling))}.")
    first = hidden[0 if how == "first-last-h0" else 1]
    return masked_mean((first.float() + hidden[-1].float()) / 2, mask)
