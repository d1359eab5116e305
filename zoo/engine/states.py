"""Token states, without padding and without unread states of the last layer.

A transformer's own forward computes every padded position. Sentences differ in length, and some poolers read one
position: a third of a small backbone's step would be wasted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, get_args

import torch
import torch.nn.functional as F

from zoo.engine.batching import host_of, share_without_host, to_device
from zoo.engine.dropout import dropout as drop
from zoo.engine.dropout import packed_size
from zoo.engine.narrow import all_rows_alike, linear, product_dtype, widened
from zoo.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.models.bert.modeling_bert import (
        BertIntermediate,
        BertModel,
        BertOutput,
        BertSelfOutput,
    )

    from zoo.engine.narrow import Saved


# The averages of the method `avg`.
Layers = Literal["last", "first-last-h0", "first-last-h1", "top2", "sif"]
Pooling = Literal[Layers, "cls", "mean", "max", "cls-mean"]

NEEDS_ALL_LAYERS = frozenset({"first-last-h0", "first-last-h1", "top2"})


def masked_mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean by a mask of weights: (n, length, dim), (n, length) -> (n, dim)."""
    weights = mask.unsqueeze(-1).to(torch.float32)
    return (states.float() * weights).sum(1) / weights.sum(1).clamp(min=1e-12)


def pool(hidden: Sequence[torch.Tensor], mask: torch.Tensor, how: Pooling) -> torch.Tensor:
    """Pool layer outputs, `hidden[0]` the embedding layer's and `hidden[-1]` the last, to (n, dim) float32.

    "last" (= "mean") is the mean of the last layer over the mask, [CLS] and [SEP] included; "first-last-h0" of the
    embedding layer and the last, as in published "first-last avg." numbers; "first-last-h1" of layer 1 and the last
    (SimCSE's code since 2022, BERT-whitening); "top2" of the last two layers. "cls" is the last layer's [CLS], "max"
    its maximum over the mask, "sif" its mean over token weights, "cls-mean" the mean of "cls" and "mean" (AnglE's
    `cls_avg`). Raises UsageError for another name, as from a plugin.
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


_PACKABLE = ("bert", "roberta", "xlm-roberta", "camembert")

# Up to so many tokens, three products are faster than fused attention (bfloat16 on a CPU).
_SHORT = 64
# Encoding packs a multiple of so many rows.
_ROWS = 8


def packable(model: PreTrainedModel) -> TypeGuard[BertModel]:
    """True for the layers of BERT's encoder; other models run their own forward."""
    return model.config.model_type in _PACKABLE and not model.config.is_decoder


def token_states(
    model: PreTrainedModel,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    *,
    every: bool = False,
    at: torch.Tensor | None = None,
    **embedding: object,
) -> tuple[torch.Tensor, ...]:
    """Token ids and mask (n, length), padded on the right -> states (n, length, dim) as in the model's own forward.

    Returns the last layer; with `every` the embedding layer and all layers. `at` (n,) or (n, k) limits the last layer
    to these positions, as (n, 1, dim) or (n, k, dim). States of padding are undefined. `embedding` goes to the
    embedding layer (position_ids, inputs_embeds).
    """
    if not packable(model):
        ids = None if "inputs_embeds" in embedding else input_ids
        with all_rows_alike(attention_mask.device):
            output = model(
                input_ids=ids, attention_mask=attention_mask, output_hidden_states=every, return_dict=True, **embedding
            )
        hidden = tuple(output.hidden_states) if every else (output.last_hidden_state,)
        if at is not None:
            places = at.view(len(at), -1, 1).expand(-1, -1, hidden[-1].shape[-1])
            hidden = (*hidden[:-1], hidden[-1].gather(1, places))
        return hidden
    embedded = model.embeddings(input_ids=input_ids, **embedding)
    rows = Rows.of(attention_mask, product_dtype(embedded))
    x = rows.take(embedded)
    hidden = (embedded,) if every else ()
    for layer in model.encoder.layer[:-1]:
        x = _layer(layer, x, rows)
        if every:
            hidden = (*hidden, rows.pad(x))
    if at is None:
        return *hidden, rows.pad(_layer(model.encoder.layer[-1], x, rows))
    return *hidden, _layer(model.encoder.layer[-1], x, rows, rows.starts[:, None] + at.view(len(at), -1))


def pooled(
    model: PreTrainedModel, input_ids: torch.Tensor, attention_mask: torch.Tensor, how: Pooling, **embedding: object
) -> torch.Tensor:
    """Ids and mask (n, length), padded on the right -> (n, dim) float32."""
    first = input_ids.new_zeros(len(input_ids)) if how == "cls" else None
    states = token_states(model, input_ids, attention_mask, every=how in NEEDS_ALL_LAYERS, at=first, **embedding)
    weights = model.get_buffer("token_weights")[input_ids] * attention_mask if how == "sif" else attention_mask
    return pool(states, weights, how)


def added_mask(mask: torch.Tensor, queries: int) -> torch.Tensor:
    """Mask (n, keys) -> BERT's summand of scores (n, 1, queries, keys), without the library's wait for the host."""
    wide = (1.0 - mask[:, None, None].float()) * torch.finfo(torch.float32).min
    return wide.expand(-1, 1, queries, -1)


@dataclass(frozen=True)
class Rows:
    """The packing of n padded rows into one sequence, row after row."""

    mask: torch.Tensor  # (n, length), 1 for tokens
    # (total,): places of the tokens in the flattened batch, then of a few padding positions; None: all, in their order
    tokens: torch.Tensor | None
    starts: torch.Tensor  # (n,): where each row begins in the packed sequence
    bias: torch.Tensor | None  # (n, 1, 1, length), added to attention scores; None where nothing is padded

    @classmethod
    def of(cls, mask: torch.Tensor, dtype: torch.dtype) -> Rows:
        if (share := share_without_host()) is not None:
            return cls._by_device(mask, dtype, math.ceil(mask.numel() * share))
        known, device = host_of(mask), mask.device
        lengths = known.sum(1)
        padded = known == 0
        bias = None
        if bool(padded.any()):
            added = torch.zeros(padded.shape, dtype=dtype).masked_fill_(padded, float("-inf"))
            bias = to_device(added, device)[:, None, None, :]
        tokens, padding = known.flatten().nonzero()[:, 0], padded.flatten().nonzero()[:, 0]
        size, encoding = packed_size(len(tokens), mask.numel()), torch.is_inference_mode_enabled()
        # For each number of rows oneDNN makes its kernels anew, and it keeps few. A key encoder's dropout is by shape.
        if encoding:
            size = min(size + -size % _ROWS, mask.numel())
        if bias is None or (encoding and size == mask.numel()):
            return cls(mask, None, torch.arange(0, size, mask.shape[1], device=device), bias)
        tokens = torch.cat([tokens, padding[: size - len(tokens)]])
        return cls(mask, to_device(tokens, device), to_device(lengths.cumsum(0) - lengths, device), bias)

    @classmethod
    def _by_device(cls, mask: torch.Tensor, dtype: torch.dtype, size: int) -> Rows:
        """Packing into `size` places, an upper bound, without a question to the device."""
        lengths = mask.sum(1)
        torch._assert_async(lengths.sum() <= size, "more tokens than the size class of a CUDA graph holds")
        bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(mask == 0, float("-inf"))
        tokens = mask.flatten().byte().argsort(descending=True, stable=True)[:size]
        return cls(mask, tokens, lengths.cumsum(0) - lengths, bias[:, None, None, :])

    def take(self, states: torch.Tensor) -> torch.Tensor:
        """(n, length, dim) -> packed (total, dim)."""
        flat = states.flatten(0, 1)
        taken: torch.Tensor = flat if self.tokens is None else _Take.apply(flat, self.tokens)  # type: ignore[no-untyped-call]
        return taken

    def pad(self, states: torch.Tensor) -> torch.Tensor:
        """Packed (total, dim) -> (n, length, dim)."""
        if self.tokens is not None:
            states = _Pad.apply(states, self.tokens, self.mask.numel())  # type: ignore[no-untyped-call]
        return states.view(*self.mask.shape, -1)


class _Take(torch.autograd.Function):
    """x[tokens] of distinct tokens: its gradient is a copy; plain indexing adds row by row."""

    @staticmethod
    def forward(ctx: Saved, x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(tokens)
        ctx.rows = len(x)
        return x.index_select(0, tokens)

    @staticmethod
    def backward(ctx: Saved, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (tokens,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.rows, gradient.shape[1]).index_copy_(0, tokens, gradient), None


class _Pad(torch.autograd.Function):
    """Inverse of `_Take`; padding is 0."""

    @staticmethod
    def forward(ctx: Saved, x: torch.Tensor, tokens: torch.Tensor, size: int) -> torch.Tensor:
        ctx.save_for_backward(tokens)
        return x.new_zeros(size, x.shape[1]).index_copy_(0, tokens, x)

    @staticmethod
    def backward(ctx: Saved, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (tokens,) = ctx.saved_tensors
        return gradient.index_select(0, tokens), None, None


def _layer(layer: Any, x: torch.Tensor, rows: Rows, only: torch.Tensor | None = None) -> torch.Tensor:
    """A layer on packed states (total, dim); with `only` (n, k) just these states (n, k, dim)."""
    attention = layer.attention.self
    maps = [attention.query, attention.key, attention.value]
    if only is None:
        q, k, v = _heads(rows.pad(linear(maps, x)), attention.num_attention_heads, 3)
    else:
        k, v = _heads(rows.pad(linear(maps[1:], x)), attention.num_attention_heads, 2)
        x = x.index_select(0, only.flatten()).view(*only.shape, -1)
        (q,) = _heads(linear(maps[:1], x), attention.num_attention_heads, 1)
    context = _attend(q, k, v, rows.bias, attention.dropout.p if attention.training else 0.0)
    context = context.transpose(1, 2).flatten(2)  # (n, length or k, dim)
    x = _added(layer.attention.output, context if only is not None else rows.take(context), x)
    return _added(layer.output, _activated(layer.intermediate, x), x)


def _added(part: BertOutput | BertSelfOutput, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = part.LayerNorm(part.dropout(linear([part.dense], y)) + x)
    return out


def _activated(part: BertIntermediate, x: torch.Tensor) -> torch.Tensor:
    """BERT's intermediate block; GELU by the error function is fused into the linear map."""
    act = part.intermediate_act_fn
    if F.gelu in (act, getattr(act, "act", None)):
        return linear([part.dense], x, gelu=True)
    out: torch.Tensor = act(linear([part.dense], x))
    return out


def _heads(x: torch.Tensor, heads: int, parts: int) -> tuple[torch.Tensor, ...]:
    """(n, length, parts * dim) -> `parts` tensors (n, heads, length, dim / heads)."""
    if torch.is_grad_enabled():
        split: tuple[torch.Tensor, ...] = _Heads.apply(x, heads, parts)  # type: ignore[no-untyped-call]
        return split
    return _Heads.split(x, heads, parts)


class _Heads(torch.autograd.Function):
    """A view with its gradient joined in one copy, in the layout of the product."""

    @staticmethod
    def split(x: torch.Tensor, heads: int, parts: int) -> tuple[torch.Tensor, ...]:
        n, length, width = x.shape
        return x.view(n, length, parts, heads, width // (parts * heads)).permute(2, 0, 3, 1, 4).unbind(0)

    @staticmethod
    def forward(ctx: Saved, x: torch.Tensor, heads: int, parts: int) -> tuple[torch.Tensor, ...]:
        return _Heads.split(x, heads, parts)

    @staticmethod
    def backward(ctx: Saved, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return torch.stack([g.transpose(1, 2) for g in gradients], 2).flatten(2), None, None


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, dropout: float
) -> torch.Tensor:
    short = q.dtype == torch.bfloat16 and k.shape[2] <= _SHORT and not widened(q.dtype, q.device.type)
    if q.device.type == "cpu" and q.shape[2] == 1 and not (dropout or short or torch.is_grad_enabled()):
        # Of a single query PyTorch splits the keys by threads, which changes last bits: it goes twice.
        return F.scaled_dot_product_attention(q.expand(-1, -1, 2, -1), k, v, attn_mask=bias)[:, :, :1]
    if q.device.type != "cpu" or not (dropout or short):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)
    # PyTorch's fused attention on a CPU has no dropout (it falls back to float32) and is slow for short rows.
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(2, 3)
    if bias is not None:
        scores = scores + bias
    # Of a softmax in bfloat16 the gradient is slow on a CPU.
    weights = scores.softmax(-1, dtype=torch.float32 if scores.requires_grad else None).to(v.dtype)
    return (drop(weights, dropout) if dropout else weights) @ v
