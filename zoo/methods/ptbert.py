"""PT-BERT (Tan et al., ACL 2022): contrast in a space of pseudo tokens, with a momentum encoder and a queue.

The paper and its released code differ; this file implements both (recipes `ptbert.yaml` and `ptbert-repo.yaml`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from zoo.encoder import Traits
from zoo.engine.states import token_states
from zoo.errors import UsageError
from zoo.methods.base import check_positive
from zoo.methods.contrastive import Contrastive, ContrastiveRecipe
from zoo.modules.pooler import TanhHead
from zoo.plugins import register_method
from zoo.recipes import added
from zoo.training.loop import Objective
from zoo.training.losses import info_nce
from zoo.training.momentum import MomentumObjective, check_momentum

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class PTBertRecipe(ContrastiveRecipe):
    """The defaults are the paper's (sections 3.2 and 4.2); "open" marks its gaps, filled as in the code."""

    pseudo_tokens: int = 128
    # lambda of Eq. 5.
    momentum: float = 0.885
    # Including the batch: 1 positive + 255 negatives. The code has 320.
    queue_size: int = 256
    eval_every: int = 125
    # Y: "the pooler-output of BERT" (figure 2), or all token states (open).
    states: Literal["tokens", "cls"] = "cls"
    # None: the backbone's number, "BERT attention" (figure 2). 1: d_k = model width (Eq. 2).
    heads: int | None = None
    # BERT's attention has them; Eq. 1 writes none.
    biases: bool = True
    # The factor of initial W_Q and W_K; at 1 both softmaxes are nearly uniform.
    attention_scale: float = added(1.0)
    # "The original dropout strategy of BERT with rate p = 0.1" (section 4.2).
    attention_dropout: float = 0.1
    # Of the n rows that Eq. 3 leaves where Y is all token states (open).
    pool: Literal["cls", "mean"] = "cls"
    # SimCSE's train-only MLP, as MoCo-BERT has it; section 4.1 follows SimCSE (open).
    mlp: bool = True
    # "random": the code copies before it loads pretrained weights.
    key_start: Literal["copy", "random"] = "copy"
    # Whose attention makes Eq. 3 of keys; the code: query.
    key_return_attention: Literal["momentum", "query"] = "momentum"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "pseudo_tokens", "heads", "attention_scale")
        if not self.mlp_only_train:
            raise ValueError(
                "mlp_only_train: false has no meaning here: h, which the MLP is put on, is not made at test"
            )
        check_momentum(self)


class PseudoTokenAttention(nn.Module):
    """Z' = Att(P W_Q, Y W_K, Y W_V) (Eq. 1), h = Att(Y W_Q, Z' W_K, Z' W_V) (Eq. 3), one set of W for both.

    With a single state Y (the code's [CLS]) the softmax of the first pass runs over one key: every row of Z' is V(Y),
    and h = V(V(Y)) for any P. P then has no gradient and no effect.
    """

    def __init__(self, dim: int, heads: int, *, biases: bool, dropout: float) -> None:
        super().__init__()
        if dim % heads:
            raise UsageError(f"ptbert: {heads} heads do not divide the width {dim}; choose heads accordingly.")
        self.query = nn.Linear(dim, dim, bias=biases)
        self.key = nn.Linear(dim, dim, bias=biases)
        self.value = nn.Linear(dim, dim, bias=biases)
        self.heads = heads
        self.dropout = dropout

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(len(x), -1, self.heads, x.shape[-1] // self.heads).transpose(1, 2)

    def scores(self, queries: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """queries (n, q, dim), states (n, k, dim) -> logits of the softmax in Eq. 2 (n, heads, q, k)."""
        query, key = self._split(self.query(queries)), self._split(self.key(states))
        return query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])

    def forward(self, queries: torch.Tensor, states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """queries (n, q, dim), states (n, k, dim), mask (n, k) or None -> (n, q, dim) (Eq. 2)."""
        logits = self.scores(queries, states)
        if mask is not None:
            logits = logits.masked_fill(mask[:, None, None, :] == 0, torch.finfo(logits.dtype).min)
        weights = nn.functional.dropout(logits.softmax(-1), self.dropout, self.training)
        return (weights @ self._split(self.value(states))).transpose(1, 2).reshape(queries.shape)


class PTBertBranch(nn.Module):
    """An encoder with its pseudo tokens P, attention and MLP: sentences -> h."""

    def __init__(self, model: PreTrainedModel, recipe: PTBertRecipe) -> None:
        super().__init__()
        config = model.config
        self.model = model
        self.pseudo_tokens = nn.Embedding(recipe.pseudo_tokens, config.hidden_size)
        self.attention = PseudoTokenAttention(
            config.hidden_size,
            recipe.heads or config.num_attention_heads,
            biases=recipe.biases,
            dropout=recipe.attention_dropout,
        )
        with torch.no_grad():
            self.attention.query.weight.mul_(recipe.attention_scale)
            self.attention.key.weight.mul_(recipe.attention_scale)
        self.mlp = TanhHead(config.hidden_size, config.initializer_range) if recipe.mlp else nn.Identity()
        self.states, self.pool = recipe.states, recipe.pool

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, return_attention: PseudoTokenAttention
    ) -> torch.Tensor:
        """Ids and mask (n, length) -> h (n, dim); `return_attention` computes Eq. 3."""
        mask: torch.Tensor | None = attention_mask
        first = None
        if self.states == "cls":
            first, mask = input_ids.new_zeros(len(input_ids)), None
        (y,) = token_states(self.model, input_ids, attention_mask, at=first)
        p = self.pseudo_tokens.weight.expand(len(y), -1, -1)
        z = self.attention(p, y, mask)
        if self.pool == "cls":
            # Eq. 3, the [CLS] row only.
            h = return_attention(y[:, :1], z, None)[:, 0]
        else:
            weights = attention_mask[:, : y.shape[1], None].to(y.dtype)
            h = (return_attention(y, z, None) * weights).sum(1) / weights.sum(1)
        output: torch.Tensor = self.mlp(h)
        return output


class PTBertObjective(MomentumObjective):
    """l_i = -log exp(cos(h_i, h'_i)/tau) / sum_{j<=M} exp(cos(h_i, h'_j)/tau) (Eq. 4), M the queue size."""

    query_branch: PTBertBranch
    key_branch: PTBertBranch

    ungraphed = None

    def embed(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, length) -> h and its key (n, dim), from the momentum encoder with dropout on."""
        query, key = self.query_branch, self.key_branch
        h = query(input_ids, attention_mask, query.attention)
        with torch.no_grad():
            return_attention = key.attention if self.recipe.key_return_attention == "momentum" else query.attention
            keys = key(input_ids, attention_mask, return_attention)
        return h, keys

    def contrast(self, h: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """h and keys (n, dim) -> scalar loss against the queue, with these keys added first."""
        return info_nce(h, self.queue.push(keys), self.recipe.temperature)


@register_method("ptbert")
class PTBert(Contrastive[PTBertRecipe]):
    """PT-BERT: pseudo-token attention and queue in training, only the backbone's [CLS] at evaluation.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = PTBert(PTBert.Recipe(batch_size=4, pseudo_tokens=8, queue_size=8), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    def objective(self) -> Objective:
        return PTBertObjective(PTBertBranch(self.backbone.model, self.recipe), self.recipe)

    @property
    def views_by_dropout(self) -> bool:
        return not self.recipe.attention_dropout

    @classmethod
    def traits(cls, recipe: PTBertRecipe) -> Traits:
        """Passes: a pass with gradient, and a third of it for the pass without."""
        return replace(super().traits(recipe), training_passes=1.34 * recipe.epochs)
