"""Templates such as `This sentence : "[X]" means [MASK] .` (PromptBERT, sections 4.1 and 4.3).

The released codes tokenise a template's parts and the sentence separately in training, and the filled template at
evaluation, where signs of both may become one token.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zoo.engine.backbone import Backbone, positions_of
from zoo.engine.batching import constant, host_of, share_without_host, to_device
from zoo.engine.bert import transform_of
from zoo.engine.states import token_states
from zoo.engine.tokens import TokenTable, clean_text, tokenise
from zoo.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

Counts = TypeVar("Counts", torch.Tensor, NDArray[np.int64])

SENTENCE, MASK = "[X]", "[MASK]"
# A mask token before [MASK], whose state is not read.
STEP = "[STEP]"


def with_period(text: str) -> str:
    """Text as in PromptBERT's evaluation: with a period, unless it ends in . ? " or '."""
    return text if text.endswith((".", "?", '"', "'")) else f"{text}."


@dataclass(frozen=True)
class Template:
    """A prompt with one [X], the sentence's place, and one [MASK], for the tokenizer's mask token."""

    text: str

    def __post_init__(self) -> None:
        for place in (SENTENCE, MASK):
            if (count := self.text.count(place)) != 1:
                raise UsageError(f"template {self.text!r} has {count} times {place}; it must have it once.")
        if STEP in self.text.split(MASK)[1]:
            raise UsageError(f"template {self.text!r} has {STEP} after {MASK}; it must stand before it.")

    @classmethod
    def parse(cls, text: str) -> Template:
        """Raises UsageError unless there is exactly one [X] and one [MASK]."""
        return cls(text.strip())

    def bind(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        as_text: bool = False,
        blank: bool = True,
        ended: Callable[[str], str] | None = None,
    ) -> BoundTemplate:
        """The template in a tokenizer's tokens; raises UsageError without a mask token.

        `as_text`: the filled template is tokenised, as the released codes do at evaluation, not its parts. `blank`
        False drops the blank before [X], for tokenizers that encode blanks. `ended` adds an end mark to a sentence.
        """
        mask_token, mask_id = tokenizer.mask_token, tokenizer.mask_token_id
        if mask_token is None:
            raise UsageError(
                f"template {self.text!r}: this backbone's tokenizer has no mask token; use another backbone."
            )
        before, after = self.text.replace(MASK, mask_token).replace(STEP, mask_token).split(SENTENCE)
        around = list(tokenizer(mask_token)["input_ids"])
        at = around.index(mask_id)
        # Tokenizers with blanks join a blank to the word after it.
        lead = " " if before != before.rstrip() else ""
        head = [*around[:at], *_ids(tokenizer, before.rstrip())]
        tail = [*_ids(tokenizer, after), *around[at + 1 :]]
        alone = [*head, *tail]
        if alone.count(mask_id) != 1 + self.text.count(STEP):
            raise UsageError(f"template {self.text!r} has {alone.count(mask_id)} mask tokens; it must have one.")
        last = len(alone) - 1 - alone[::-1].index(mask_id)
        around_text = (before, after) if as_text else None
        return BoundTemplate(self, tokenizer, tuple(head), tuple(tail), last, lead if blank else "", around_text, ended)


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []


class AloneRows(NamedTuple):
    """Rows (m, length) of a template without a sentence, for each length among n rows."""

    ids: torch.Tensor
    mask: torch.Tensor
    positions: torch.Tensor | None
    at: torch.Tensor  # (m,): the position of [MASK]
    which: torch.Tensor  # (n,): the row among the m


@dataclass(frozen=True, eq=False)
class BoundTemplate:
    """A template in token ids: `head` before the sentence, `tail` after it, special tokens included."""

    template: Template
    tokenizer: PreTrainedTokenizerBase
    head: tuple[int, ...]
    tail: tuple[int, ...]
    mask: int
    lead: str
    # What stands before and after a sentence in a row that is tokenised whole.
    around_text: tuple[str, str] | None
    ended: Callable[[str], str] | None

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    @property
    def alone(self) -> tuple[int, ...]:
        return self.head + self.tail

    def sentences(self, texts: Sequence[str], max_tokens: int) -> TokenTable:
        texts = [self.lead + text for text in self._texts(texts)]
        return tokenise(self.tokenizer, texts, max_length=max_tokens, add_special_tokens=False)

    def _texts(self, texts: Sequence[str]) -> list[str]:
        texts = [clean_text(text, i) for i, text in enumerate(texts)]
        return texts if self.ended is None else [self.ended(text) if text else text for text in texts]

    def fill(self, sentences: TokenTable) -> TokenTable:
        offsets = sentences.offsets + len(self) * np.arange(len(sentences) + 1)
        ids = np.empty(int(offsets[-1]), np.int32)
        of_sentence = np.ones(len(ids), bool)
        for part, first in ((self.head, offsets[:-1]), (self.tail, offsets[1:] - len(self.tail))):
            places = first[:, None] + np.arange(len(part))
            ids[places] = np.array(part, np.int32)
            of_sentence[places] = False
        ids[of_sentence] = sentences.ids
        return TokenTable(ids, offsets, sentences.truncated)

    def room(self, max_length: int) -> int:
        """Tokens of a sentence in a row of `max_length`; raises UsageError if none fits."""
        if max_length <= len(self):
            raise UsageError(
                f"template {self.template.text!r} takes {len(self)} tokens, and a row has {max_length} (max_length, or"
                " the backbone's positions): no room for a sentence. Shorten the template or allow more."
            )
        return max_length - len(self)

    def table(self, texts: Sequence[str], max_length: int) -> TokenTable:
        """Prompted rows of at most `max_length` tokens; only the sentence is cut."""
        room = self.room(max_length)
        if self.around_text is None:
            return self.fill(self.sentences(texts, room))
        before, after = self.around_text
        filled = [before + text + after for text in self._texts(texts)]
        rows = tokenise(self.tokenizer, filled, max_length=None)
        return rows.with_cut(max_length, texts, lambda some: self.fill(self.sentences(some, room)))

    def mask_positions(self, row_lengths: Counts) -> Counts:
        after_sentence = self.mask >= len(self.head)
        return row_lengths - len(self) + self.mask if after_sentence else row_lengths * 0 + self.mask

    def mask_states(
        self, model: PreTrainedModel, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """h = the state at [MASK] (Eq. 2): prompted ids and mask (n, length) -> (n, dim) float32."""
        at = self.mask_positions(attention_mask.sum(1))
        return token_states(model, input_ids, attention_mask, at=at)[0][:, 0].float()

    def position_ids(self, sentence_lengths: torch.Tensor, first: int) -> torch.Tensor:
        """Position ids (n, template), from `first`, around sentences of these lengths (n,)."""
        positions = first + torch.arange(len(self), device=sentence_lengths.device)
        moved = torch.arange(len(self), device=sentence_lengths.device) >= len(self.head)
        return positions + moved * sentence_lengths[:, None]

    def bias(self, model: PreTrainedModel, attention_mask: torch.Tensor, first: int) -> torch.Tensor:
        """Template bias (section 4.3): [MASK] states (n, dim) of the template alone, at its positions in n rows.

        Sentences of equal length share a row of the pass, and in training its dropout mask, as in the released code.
        """
        device, rows = attention_mask.device, self.alone_rows(host_of(attention_mask), first)
        assert rows.positions is not None
        ids, positions = to_device(rows.ids, device), to_device(rows.positions, device)
        # Nothing is padded; whether a mask has only ones would have to be read from the device.
        states = model(input_ids=ids, position_ids=positions).last_hidden_state
        biases: torch.Tensor = states[:, self.mask].float()[to_device(rows.which, device)]
        return biases

    def alone_rows(self, attention_mask: torch.Tensor, first: int) -> AloneRows:
        sentences = attention_mask.sum(1) - len(self)
        if share_without_host() is None:
            lengths, which = sentences.unique(return_inverse=True)  # type: ignore[no-untyped-call]
            alone = torch.tensor(self.alone)
        else:
            lengths, which = torch.arange(attention_mask.shape[1] - len(self) + 1, device=sentences.device), sentences
            alone = constant(self.alone, sentences.device)
        ids = alone.expand(len(lengths), -1)
        at = torch.full_like(lengths, self.mask)
        return AloneRows(ids, torch.ones_like(ids), self.position_ids(lengths, first), at, which)


def first_position(backbone: Backbone, instead: str = "denoise: false") -> int:
    """Position id of a row's first token; raises UsageError for a backbone without, advising `instead`."""
    if "position_ids" not in inspect.signature(backbone.model.forward).parameters:
        raise UsageError(f"backbone {backbone.source.name!r} takes no position ids; use {instead}.")
    return row_start(backbone.model)


def row_start(model: PreTrainedModel) -> int:
    """Position id of a row's first token: 0, or padding_idx + 1 for RoBERTa."""
    most = positions_of(model) or 512
    return int(getattr(model.config, "max_position_embeddings", most)) - most


class MlmTransform(nn.Module):
    """An MLM head's transform before the output layer: dense, activation, LayerNorm; (n, dim) -> (n, dim)."""

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        from transformers.activations import ACT2FN

        named = "hidden_act", "activation", "classifier_activation"
        activation = next((getattr(config, name) for name in reversed(named) if hasattr(config, name)), None)
        if activation is None:
            raise UsageError(f"a {config.model_type} has no MLM head whose transform could be trained; use a BERT.")
        epsilon = getattr(config, "layer_norm_eps", getattr(config, "norm_eps", 1e-12))
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACT2FN[activation]
        self.norm = nn.LayerNorm(config.hidden_size, eps=epsilon)
        nn.init.normal_(self.dense.weight, std=config.initializer_range)
        nn.init.zeros_(self.dense.bias)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        transformed: torch.Tensor = self.norm(self.activation(self.dense(states)))
        return transformed

    def take(self, head: nn.Module, name: str) -> None:
        """Copy a checkpoint's weights; raises UsageError for another width."""
        layers = transform_of(head)
        if layers is None or layers[0].weight.shape != self.dense.weight.shape:
            raise UsageError(
                f"head: mlm needs an MLM head with one dense layer as wide as the states; {name!r} has none such. Use"
                " head: mlp."
            )
        for layer, taken in zip((self.dense, self.norm), layers, strict=True):
            # ModernBERT has no biases; ours start at 0.
            layer.load_state_dict(taken.state_dict(), strict=False)
