"""Decoder-only encoders: PromptEOL (Jiang et al. 2024), echo embeddings (Springer et al. 2025), plain means."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from typing_extensions import TypeVar

from zoo.encoder import Runtime, Traits
from zoo.engine.backbone import Backbone
from zoo.engine.needs import sees_later_tokens
from zoo.engine.states import token_states
from zoo.engine.tokens import TokenTable, clean_text, frame_of, tokenise
from zoo.errors import UsageError
from zoo.formats.export import StockModules
from zoo.methods.base import BackboneEncoder, BackboneRecipe
from zoo.plugins import register_method
from zoo.recipes import added

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SENTENCE = "[X]"
# Templates for chats: the text, and what `_ended` makes of it.
TEXT = "{% set text = messages[-1]['content'] %}"
ENDED = (
    """{% if text and text[-1] not in ".?\\"'" %}{% set text = text + "." %}{% endif %}"""
    """{% set text = text.replace('"', "'") %}"""
    """{% if text.endswith("?") %}{% set text = text[:-1] + "." %}{% endif %}"""
)


@dataclass(frozen=True, kw_only=True)
class TemplateRecipe(BackboneRecipe):
    template: str = 'This sentence : "[X]" means in one word:"'
    # A period ends each sentence, also in place of a question mark, as in the released code.
    period: bool = added(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.template.count(SENTENCE) <= 2:
            raise ValueError(f"template {self.template!r} must have {SENTENCE} once or twice")

    @property
    def pooling(self) -> Literal["last", "mean"]:
        return "last"

    @property
    def bidirectional(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class CausalRecipe(TemplateRecipe):
    pooling: Literal["last", "mean"] = "last"  # state of the row's last token; mean over the tokens of the last [X]
    # Each token sees the later ones too, as in LLM2Vec, without training.
    bidirectional: bool = added(False)


def check_decoder(backbone: Backbone, *, bidirectional: bool) -> None:
    """Raise UsageError unless a decoder; `bidirectional` sets the library's `is_causal`, kept in a saved folder."""
    config, name = backbone.model.config, backbone.source.name
    if sees_later_tokens(backbone) and not (bidirectional and getattr(config, "is_causal", None) is False):
        raise UsageError(
            f"the recipe needs a decoder-only backbone, but in {name!r} ({config.model_type}) a token's state depends"
            " on later tokens; give a causal model, such as --backbone FOLDER after `zoo-bench pretrain tiny-causal"
            " --out FOLDER`."
        )
    if bidirectional:
        config.is_causal = False
        if not sees_later_tokens(backbone):
            raise UsageError(
                f"{name!r}: the library has no bidirectional mask for a {config.model_type}; take a LLaMA."
            )


CausalRecipeT = TypeVar("CausalRecipeT", bound=TemplateRecipe, default=CausalRecipe)


def last_states(model: PreTrainedModel, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Ids and mask (n, length), padded on the right -> states of the last tokens (n, dim) float32.

    The model gets no mask: no token sees the padding behind it, and for a mask the host would wait.
    """
    states = model(input_ids=input_ids, return_dict=True).last_hidden_state
    rows, at = torch.arange(len(states), device=states.device), (attention_mask.sum(1) - 1).clamp(min=0)
    vectors: torch.Tensor = states[rows, at].float()
    return vectors


@register_method("causal")
class Causal(BackboneEncoder[CausalRecipeT]):
    """A decoder-only model with a template: the last token's state, or the mean over the (repeated) sentence.

    A token's state depends only on the tokens before it; behind the sentence, or in its repetition, states depend on
    all of it. The row begins with the tokenizer's first special tokens and has none at its end. For the last token's
    state the filled template is tokenised, as in PromptEOL's code; for a mean its parts are, as in echo embeddings'
    code, so the sentence has tokens of its own.

    Examples:
        >>> from zoo import Runtime
        >>> recipe = Causal.Recipe(backbone="FOLDER_OR_HUB_ID", pooling="mean", template="Rewrite: [X]. Again: [X]")
        >>> vectors = Causal(recipe, Runtime()).encode(["a small dog"])
    """

    def __init__(self, recipe: CausalRecipeT, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        check_decoder(self.backbone, bidirectional=recipe.bidirectional)
        tokenizer = self.tokenizer
        self.start_of_row, _ = frame_of(tokenizer)
        texts = self.template.split(SENTENCE)
        # A blank before the sentence goes with its first word, as tokenizers with blanks join them.
        self.lead = " " if texts[-2].endswith(" ") else ""
        stripped = [text.rstrip(" ") if i < len(texts) - 1 else text for i, text in enumerate(texts)]
        parts = [np.array(tokenizer(t, add_special_tokens=False)["input_ids"] if t else [], np.int32) for t in stripped]
        self.parts_of_row = [np.concatenate([self.start_of_row, parts[0]]), *parts[1:]]
        self.fixed = sum(map(len, self.parts_of_row))
        if self.room < 1:
            raise UsageError(
                f"template {self.template!r} takes {self.fixed} tokens of the {self.length_limit} that a row has"
                " (max_length, or the backbone's positions): no room for a sentence. Shorten it or allow more."
            )

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return self.backbone.tokenizer

    @property
    def template(self) -> str:
        return self.recipe.template

    @property
    def room(self) -> int:
        return (self.length_limit - self.fixed) // (len(self.parts_of_row) - 1)

    def _ended(self, text: str) -> str:
        """With `period`, the text as in the double quotes of PromptEOL's released code."""
        if not self.recipe.period or not text:
            return text
        ended = text if text.endswith(tuple(".?\"'")) else f"{text}."
        return ended.replace('"', "'").removesuffix("?") + ("." if ended.endswith("?") else "")

    def token_table(self, texts: list[str]) -> TokenTable:
        """The filled template, with the sentence cut to its room; an empty text leaves the template alone."""
        return self.rows_of([self._ended(clean_text(text, i)) for i, text in enumerate(texts)])

    def rows_of(self, clean: list[str]) -> TokenTable:
        if self.recipe.pooling == "mean":
            return self._rows_of_parts(clean)
        filled = [self.template.replace(SENTENCE, text) for text in clean]
        rows = tokenise(self.tokenizer, filled, max_length=None, add_special_tokens=False)
        none = np.empty(0, np.int32)
        return rows.framed(self.start_of_row, none).with_cut(self.length_limit, clean, self._rows_of_parts)

    def _rows_of_parts(self, clean: list[str]) -> TokenTable:
        texts = [self.lead + text for text in clean]
        table = tokenise(self.tokenizer, texts, max_length=self.room, add_special_tokens=False)
        first, *others = self.parts_of_row
        rows = [
            np.concatenate([first, *(piece for part in others for piece in (table.row(i), part))])
            for i in range(len(texts))
        ]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        ids = np.concatenate([np.empty(0, np.int32), *rows]).astype(np.int32)
        return TokenTable(ids, offsets, table.truncated)

    @classmethod
    def traits(cls, recipe: CausalRecipeT) -> Traits:
        return replace(super().traits(recipe), exports=recipe.pooling == "last")

    def stock_modules(self) -> StockModules:
        """Decoder and pooling; the template becomes the library's chat template."""
        texts = [json.dumps(part) for part in self.template.split(SENTENCE)]
        start = "".join(self.tokenizer.convert_ids_to_tokens(self.start_of_row.tolist()))
        filled = f"{TEXT}{ENDED if self.recipe.period else ''}{start}{{{{ {' + text + '.join(texts)} }}}}"
        return StockModules(self.backbone, "lasttoken", self.length_limit, template=filled)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        lengths = attention_mask.sum(1)
        if self.recipe.pooling == "last":
            return last_states(self.backbone.model, input_ids, attention_mask)
        (states,) = token_states(self.backbone.model, input_ids, attention_mask)
        end = lengths - len(self.parts_of_row[-1])
        size = (lengths - self.fixed) // (len(self.parts_of_row) - 1)
        places = torch.arange(states.shape[1], device=states.device)
        # An empty sentence has the state of the token before it.
        first = torch.where(size > 0, end - size, end - 1).clamp(min=0)
        chosen = ((places >= first[:, None]) & (places < end.clamp(min=1)[:, None])).float()
        return (states.float() * chosen.unsqueeze(-1)).sum(1) / chosen.sum(1, keepdim=True).clamp(min=1)
