"""Losses: InfoNCE and NT-Xent, in float32 also under autocast, and cross-entropy over a vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from zoo.engine.autograd import Saved


def info_nce(
    queries: torch.Tensor,
    candidates: torch.Tensor,
    temperature: float,
    *,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """InfoNCE with cosine similarity: the positive of query i is candidate i; all others are negatives.

    queries (n, dim), candidates (m, dim) with m >= n, bias (n, m) added to the logits -> scalar mean of
    -log exp(cos(q_i, c_i)/temperature) / sum_j exp(cos(q_i, c_j)/temperature) (SimCSE Eq. 1; PT-BERT Eq. 4).
    """
    with torch.autocast(queries.device.type, enabled=False):  # in bfloat16, similar candidates would get equal logits
        queries, candidates = queries.float(), candidates.float()
        logits = F.normalize(queries, dim=-1) @ F.normalize(candidates, dim=-1).T / temperature
        if bias is not None:
            logits = logits + bias
        return F.cross_entropy(logits, torch.arange(len(queries), device=queries.device))


def nt_xent(first: torch.Tensor, second: torch.Tensor, temperature: float) -> torch.Tensor:
    """NT-Xent (Chen et al. 2020, Eq. 1): 2n anchors, each with its other view as positive and 2n - 2 negatives.

    first, second (n, dim), the two views of n sentences -> scalar mean.
    """
    with torch.autocast(first.device.type, enabled=False):
        views = F.normalize(torch.cat([first, second]).float(), dim=-1)
        logits = views @ views.T / temperature
        logits = logits.masked_fill(torch.eye(len(views), dtype=torch.bool, device=views.device), float("-inf"))
        return F.cross_entropy(logits, torch.arange(len(views), device=views.device).roll(len(first)))


def ranking_loss(similarities: torch.Tensor, grades: torch.Tensor, temperature: float) -> torch.Tensor:
    """CoSENT's loss: log(1 + sum over pairs i, j with grade_i < grade_j of exp((s_i - s_j) / temperature)).

    similarities, grades (n,), one of each pair of texts -> scalar; 0 if all grades are equal.
    """
    wrong = (similarities.unsqueeze(1) - similarities.unsqueeze(0)) / temperature
    chosen = wrong[grades.unsqueeze(1) < grades.unsqueeze(0)]
    return torch.cat([chosen.new_zeros(1), chosen]).logsumexp(0)


class _LinearCrossEntropy(torch.autograd.Function):
    # Needs one tensor of vocabulary width, in the precision of the products, and turns it into the gradient in place.
    # F.cross_entropy needs four, two of them float32, and on a CPU spends more time on memory than on the products.
    @staticmethod
    def forward(
        ctx: Saved, states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, truth: torch.Tensor
    ) -> torch.Tensor:
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        with torch.autocast(device, enabled=False):
            counted = truth != -100
            share = counted / counted.sum().clamp(min=1)
            target = truth.clamp(min=0).unsqueeze(1)
            x, w = states.to(dtype), weight.to(dtype)
            logits = torch.addmm(bias.to(dtype), x, w.T)
            probabilities = logits.softmax(-1)
            top, at = logits.max(-1, keepdim=True)  # log-sum-exp = largest logit - log of its probability
            losses = top.float() - probabilities.gather(1, at).float().log() - logits.gather(1, target).float()
            probabilities.scatter_add_(1, target, torch.full_like(top, -1))
            probabilities *= share.to(dtype).unsqueeze(1)
        ctx.save_for_backward(probabilities, x, w)
        ctx.dtypes = states.dtype, weight.dtype, bias.dtype
        return losses.squeeze(1) @ share

    @staticmethod
    def backward(ctx: Saved, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        error, x, w = ctx.saved_tensors
        of_states, of_weight, of_bias = ctx.dtypes
        (scale,) = grads
        with torch.autocast(x.device.type, enabled=False):
            return (
                (error @ w).to(of_states) * scale,
                (error.T @ x).to(of_weight) * scale,
                (error.new_ones(1, len(error)) @ error).squeeze(0).to(of_bias) * scale,  # .sum(0) is ten times slower
                None,
            )


def linear_cross_entropy(
    states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, truth: torch.Tensor
) -> torch.Tensor:
    """Mean cross-entropy of softmax(states @ weight.T + bias) against `truth`; rows with -100 are ignored.

    states (n, dim), weight (vocabulary, dim), bias (vocabulary,), truth (n,) -> scalar; 0 if all are ignored. Equals
    F.cross_entropy(F.linear(...)) up to rounding, but has no second derivative.
    """
    loss: torch.Tensor = _LinearCrossEntropy.apply(states, weight, bias, truth)  # type: ignore[no-untyped-call]
    return loss
