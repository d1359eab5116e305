"""Losses, in float32 also under autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone
from zoo.engine.batching import host_of, to_device
from zoo.engine.heads import mlm_head
from zoo.engine.states import token_states
from zoo.training.loop import Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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

    similarities, grades (n,), for each pair of texts -> scalar; 0 if all grades are equal.
    """
    wrong = (similarities.unsqueeze(1) - similarities.unsqueeze(0)) / temperature
    # A choice by the mask would have a size for which the host has to wait.
    chosen = wrong.masked_fill(grades.unsqueeze(1) >= grades.unsqueeze(0), float("-inf")).flatten()
    return torch.cat([chosen.new_zeros(1), chosen]).logsumexp(0)


def mask_some(
    ids: torch.Tensor,
    rate: float,
    *,
    mask_id: int,
    special_ids: torch.Tensor,
    vocabulary: int,
    masked: float = 0.8,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose each non-special token with probability `rate`; return corrupted ids and chosen places (n, length).

    80 % (`masked`) of them become [MASK], half of the others a random token (BERT, section 3.1).
    """
    chosen = (torch.rand(ids.shape, device=ids.device) < rate) & ~torch.isin(ids, special_ids)
    fate = torch.rand(ids.shape, device=ids.device)
    random_ids = torch.randint(vocabulary, ids.shape, device=ids.device)
    corrupted = torch.where(chosen & (fate < masked), torch.full_like(ids, mask_id), ids)
    return torch.where(chosen & (fate >= masked) & (fate < (1 + masked) / 2), random_ids, corrupted), chosen


class MaskedLanguageModel(nn.Module):
    """MLM loss with the checkpoint's head, by a second pass on masked inputs."""

    def __init__(self, backbone: Backbone, rate: float) -> None:
        super().__init__()
        # The head's output embeddings are a copy: the released code does not tie them to the trained encoder.
        self.head = mlm_head(backbone.source, Runtime())
        self.rate, self.vocabulary = rate, int(backbone.model.config.vocab_size)
        self.mask_id = int(backbone.tokenizer.mask_token_id)
        self.special_ids = torch.tensor(sorted(set(backbone.tokenizer.all_special_ids)))

    def forward(self, model: PreTrainedModel, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Ids and mask (n, length) -> (n, 2): summed cross-entropy and masked tokens of each row."""
        return self.losses(input_ids, lambda corrupted: token_states(model, corrupted, attention_mask)[0])

    def losses(self, input_ids: torch.Tensor, states_of: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """As `forward`; `states_of`: corrupted ids -> states (n, length, dim)."""
        ids, device = host_of(input_ids), input_ids.device
        # Chosen on the host, who has to know how many they are.
        corrupted, chosen = mask_some(
            ids, self.rate, mask_id=self.mask_id, special_ids=self.special_ids, vocabulary=self.vocabulary
        )
        states = states_of(to_device(corrupted, device))
        rows, columns = (to_device(places, device) for places in chosen.nonzero(as_tuple=True))
        masked = states[rows, columns]
        losses = F.cross_entropy(self.head(masked).float(), to_device(ids[chosen], device), reduction="none")
        sums = torch.zeros(len(ids), device=device).index_add(0, rows, losses)
        return torch.stack([sums, to_device(chosen.sum(1).to(sums.dtype), device)], dim=1)


class MaskedNextTokens(Objective):
    """Cross-entropy of masked tokens, each from the state of the token before it (LLM2Vec, section 2.1)."""

    def __init__(
        self,
        model: PreTrainedModel,
        head: nn.Module,
        mask: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    ) -> None:
        super().__init__()
        self.model, self.head, self.mask = model, head, mask

    @property
    def ungraphed(self) -> str | None:
        return "its masked tokens are chosen by the host"

    def forward(self, *collated: torch.Tensor, **_: object) -> torch.Tensor:
        input_ids, attention_mask = collated
        corrupted, chosen = self.mask(host_of(input_ids))
        (states,) = token_states(self.model, to_device(corrupted, input_ids.device), attention_mask)
        rows, before = (to_device(places, input_ids.device) for places in chosen[:, 1:].nonzero(as_tuple=True))
        logits, wanted = self.head(states[rows, before]).float(), input_ids[rows, before + 1]
        return F.cross_entropy(logits, wanted, reduction="sum") / max(len(rows), 1)
