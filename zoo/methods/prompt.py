"""Prompts without training (PromptBERT, section 4.1): the [MASK] state, or an average of the words predicted there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn
from typing_extensions import TypeVar

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone
from zoo.engine.heads import mlm_head
from zoo.engine.needs import Need
from zoo.engine.tokens import TokenTable
from zoo.errors import UsageError
from zoo.methods.base import BackboneEncoder, BackboneFields, BackboneRecipe, check_positive
from zoo.modules.templates import BoundTemplate, Template, first_position, with_period
from zoo.plugins import register_method


class PromptFields(BackboneFields, Protocol):
    @property
    def template(self) -> str: ...
    @property
    def period(self) -> bool: ...
    @property
    def denoise_from_zero(self) -> bool: ...


PromptT = TypeVar("PromptT", bound=PromptFields, default=Any)


class Prompted(BackboneEncoder[PromptT]):
    ended = staticmethod(with_period)
    # At test the filled template is tokenised whole, as in the released codes.
    whole_rows = True

    def __init__(self, recipe: PromptT, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        self.put_in(recipe.template)

    def put_in(self, template: str) -> None:
        """Set the template; raises UsageError if it leaves no room for a sentence."""
        ended = self.ended if self.recipe.period else None
        self.test_prompt = Template.parse(template).bind(self.backbone.tokenizer, as_text=self.whole_rows, ended=ended)
        self.test_prompt.room(self.length_limit)

    @classmethod
    def needs(cls, recipe: PromptT) -> frozenset[Need]:
        return frozenset({"mask token"})

    @property
    def prompt(self) -> BoundTemplate:
        return self.test_prompt

    @property
    def first_position(self) -> int:
        return 0 if self.recipe.denoise_from_zero else first_position(self.backbone)

    def token_table(self, texts: list[str]) -> TokenTable:
        return self.prompt.table(texts, self.length_limit)


@dataclass(frozen=True, kw_only=True)
class PromptRecipe(BackboneRecipe):
    """The defaults are the manual template's row of table 5."""

    template: str = 'This sentence : "[X]" means [MASK] .'
    # Averaged words (Eq. 3), 200 in table 9. None: the [MASK] state itself (Eq. 2).
    top_k: int | None = None
    # Subtract the template's bias; it helps Eq. 3, not Eq. 2 (table 9).
    denoise: bool = False
    # True as in the code, where RoBERTa's template starts at position 0 and its rows at 2.
    denoise_from_zero: bool = False
    # True as in the code's evaluation: each sentence ends in a period.
    period: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "top_k")
        Template.parse(self.template)


@register_method("prompt")
class Prompt(Prompted[PromptRecipe]):
    """A manual template on any pretrained masked language model.

    Examples:
        >>> from zoo import Runtime
        >>> Prompt(Prompt.Recipe(top_k=200, denoise=True), Runtime()).encode(["a small dog"]).shape
        (1, 384)
    """

    def __init__(self, recipe: PromptRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        self.head: nn.Module | None = None
        if recipe.top_k is None:
            return
        self.words = self.backbone.token_vectors.float()
        if recipe.top_k > len(self.words):
            raise UsageError(f"prompt: top_k {recipe.top_k} is more than the vocabulary's {len(self.words)} words.")
        self.head = mlm_head(self.backbone.source, runtime)
        self.dim = self.words.shape[1]

    @classmethod
    def needs(cls, recipe: PromptRecipe) -> frozenset[Need]:
        return super().needs(recipe) | (set() if recipe.top_k is None else {"MLM head"})

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        model = self.backbone.model
        h = self.prompt.mask_states(model, input_ids, attention_mask)
        if self.recipe.denoise:
            h = h - self.prompt.bias(model, attention_mask, self.first_position)
        return h if self.head is None else self.top_words(h)

    def top_words(self, h: torch.Tensor) -> torch.Tensor:
        """Mean of the k likeliest words' static embeddings W_v, weighted by P(v | h) (Eq. 3).

        h (n, dim) -> (n, width of the embeddings). With `denoise`, h has lost the template's bias before.
        """
        assert self.head is not None
        best = self.head(h).float().topk(self.recipe.top_k)
        # P(v) / sum of P over the k: the softmax over all words cancels.
        weights = best.values.softmax(-1)
        return torch.nn.functional.embedding_bag(best.indices, self.words, per_sample_weights=weights, mode="sum")
