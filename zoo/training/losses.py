"""Losses: InfoNCE, NT-Xent and CoSENT's ranking, in float32 also under autocast."""

from __future__ import annotations

import torch
import torch.nn.functional as F


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
    # In bfloat16, similar candidates would get equal logits.
    with torch.autocast(queries.device.type, enabled=False):
        queries, candidates = queries.float(), candidates.float()
        logits = F.normalize(queries, dim=-1) @ F.normalize(candidates, dim=-1).T / temperature
        if bias is not None:
            logits = logits + bias
        return F.cross_entropy(logits, torch.arange(len(queries), device=queries.device))


def nt_xent(first: torch.Tensor, second: torch.Tensor, temperature: float) -> torch.Tensor:
    """NT-Xent (Chen et al. 2020, Eq. 1): first, second (n, dim) -> scalar mean; 2n anchors, 2n - 2 negatives each."""
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
    # A choice by the mask would have a size for which the host has to wait.
    chosen = wrong.masked_fill(grades.unsqueeze(1) >= grades.unsqueeze(0), float("-inf")).flatten()
    return torch.cat([chosen.new_zeros(1), chosen]).logsumexp(0)
