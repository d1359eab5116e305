"""Sampled softmax: cross-entropy of masked tokens over frequent tokens and a sample of the others.

A small model spends a third of its training on products of masked states with the whole vocabulary. Here the normaliser
of the softmax is exact over the most frequent tokens; over all others it is estimated by importance sampling (Bengio &
Senecal 2008): tokens are drawn in proportion to a power of their frequency and weighted by 1 / their expected number of
draws. The true token's logit is included exactly once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

if TYPE_CHECKING:
    from zoo.engine.autograd import Saved

_SMOOTHING = 0.75  # exponent of the frequencies in the sampling distribution, as in word2vec


class SampledVocabulary(nn.Module):
    """Draws the tokens of each step's softmax, from the token counts (vocabulary,) of the text."""

    def __init__(self, counts: NDArray[np.int64], frequent: int, drawn: int) -> None:
        super().__init__()
        order = np.argsort(-counts, kind="stable")
        rare = order[frequent:]
        weights = (counts[rare] + 1.0) ** _SMOOTHING
        shares = weights / weights.sum()
        self.drawn = drawn
        self.register_buffer("frequent", torch.from_numpy(order[:frequent].copy()), persistent=False)
        self.register_buffer("rare", torch.from_numpy(rare.copy()), persistent=False)
        self.register_buffer("cumulated", torch.from_numpy(np.cumsum(shares).astype(np.float32)), persistent=False)
        self.register_buffer("offset", torch.from_numpy(-np.log(drawn * shares).astype(np.float32)), persistent=False)

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return token ids (m,), the frequent ones first, and the corrections of their logits (m,)."""
        frequent, rare, cumulated, offset = (self.get_buffer(n) for n in ("frequent", "rare", "cumulated", "offset"))
        at = torch.searchsorted(cumulated, torch.rand(self.drawn, device=cumulated.device)).clamp_(max=len(rare) - 1)
        return torch.cat([frequent, rare[at]]), torch.cat([offset.new_zeros(len(frequent)), offset[at]])

    def loss(self, states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of states (n, dim) against `truth` (n,) -> scalar; rows with -100 are ignored."""
        tokens, offset = self.draw()
        result: torch.Tensor = _SampledCrossEntropy.apply(  # type: ignore[no-untyped-call]
            states, weight, bias, truth, tokens, offset
        )
        return result


class _SampledCrossEntropy(torch.autograd.Function):
    # The logits become the gradient in place, as in zoo.training.losses.
    @staticmethod
    def forward(
        ctx: Saved,
        states: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        truth: torch.Tensor,
        tokens: torch.Tensor,
        offset: torch.Tensor,
    ) -> torch.Tensor:
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        with torch.autocast(device, enabled=False):
            counted = truth != -100
            share = counted / counted.sum().clamp(min=1)
            target = truth.clamp(min=0)
            x, w, own = states.to(dtype), weight[tokens].to(dtype), weight[target].to(dtype)
            logits = torch.addmm((bias[tokens] + offset).to(dtype), x, w.T)
            logits.masked_fill_(tokens == target[:, None], float("-inf"))  # the true token has its own column
            true = (x * own).sum(1).float() + bias[target].float()
            rest = logits.float().logsumexp(1)
            whole = torch.logaddexp(rest, true)
            losses = whole - true
            error = logits.sub_(whole.to(dtype)[:, None]).exp_().mul_(share.to(dtype)[:, None])
            of_true = ((true - whole).exp() - 1) * share
        ctx.save_for_backward(error, of_true.to(dtype), x, w, own, tokens, target)
        ctx.rows = len(weight)
        ctx.dtypes = states.dtype, weight.dtype, bias.dtype
        return losses @ share

    @staticmethod
    def backward(ctx: Saved, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        error, of_true, x, w, own, tokens, target = ctx.saved_tensors
        of_states, of_weight, of_bias = ctx.dtypes
        (scale,) = grads
        with torch.autocast(x.device.type, enabled=False):
            d_states = (error @ w).addcmul_(of_true[:, None], own).to(of_states) * scale
            d_weight = x.new_zeros(ctx.rows, x.shape[1], dtype=of_weight)
            d_weight.index_add_(0, tokens, (error.T @ x).to(of_weight) * scale)
            d_weight.index_add_(0, target, (of_true[:, None] * x).to(of_weight) * scale)
            d_bias = x.new_zeros(ctx.rows, dtype=of_bias)
            d_bias.index_add_(0, tokens, error.sum(0).to(of_bias) * scale)
            d_bias.index_add_(0, target, of_true.to(of_bias) * scale)
        return d_states, d_weight, d_bias, None, None, None
