"""Contrastive losses, in float32 whatever the encoder ran in."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def info_nce(queries: torch.Tensor, candidates: torch.Tensor, temperature: float) -> torch.Tensor:
    """InfoNCE with cosine similarity: the positive of query i is candidate i; all other candidates are negatives.

    queries (n, dim), candidates (m, dim) with m >= n -> scalar mean of
    -log exp(cos(q_i, c_i)/temperature) / sum_j exp(cos(q_i, c_j)/temperature) (SimCSE Eq. 1; PT-BERT Eq. 4).
    """
    with torch.autocast(queries.device.type, enabled=False):  # a product in bfloat16 would tie near candidates
        queries, candidates = queries.float(), candidates.float()
        logits = F.normalize(queries, dim=-1) @ F.normalize(candidates, dim=-1).T / temperature
        return F.cross_entropy(logits, torch.arange(len(queries), device=queries.device))
