"""Decoders asked for one word, without training: Token Prepending (Fu et al. 2025), MetaEOL and GenEOL."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from zoo.encoder import Runtime, Traits, Vectors
from zoo.engine.backbone import Backbone, find_backbone
from zoo.engine.states import token_states
from zoo.errors import UsageError
from zoo.files import sha256_json
from zoo.methods.base import check_positive
from zoo.methods.causal import SENTENCE, Causal, TemplateRecipe
from zoo.modules.rewrites import Rewriter
from zoo.plugins import register_method

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PLACE = "<PST>"
END = ':"'


@dataclass(frozen=True, kw_only=True)
class EOLRecipe(TemplateRecipe):
    """The defaults are Token Prepending's."""

    # A sentence's vector is the mean over all templates.
    further: tuple[str, ...] = ()
    period: bool = True
    # 0 reads the states of the embedding layer, -1 those of the last, which are normalised.
    layer: int = -2
    # <PST> takes the last token's state before each layer from this up to `prepend_until`. 0: no <PST>.
    prepend_from: int = 1
    prepend_until: int = 7
    # The mean over the tokens of the template's last colon and quotation mark.
    mean_of_end: bool = False
    # A decoder for chats, folder or hub id, which rewrites each sentence.
    generator: str | None = None
    rewrites: int = 8
    summarise: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "rewrites")
        for template in self.further:
            replace(self, template=template, further=())
        if self.prepend_until and not 0 <= self.prepend_from < self.prepend_until:
            raise ValueError(f"prepend_from {self.prepend_from} must be below prepend_until {self.prepend_until}")
        if self.mean_of_end and not self.template.endswith(END):
            raise ValueError(f"mean_of_end is of the signs {END} with which a template ends, unlike {self.template!r}")


@register_method("eol")
class EOL(Causal[EOLRecipe]):
    """A decoder-only model asked for one word: states prepended between layers, several templates, rewrites.

    Before the sentence stands the token <PST>. Its state, before each of some layers, is that of the row's last token
    (Fu et al. 2025): the sentence sees the model's reading of its end. With `further` templates (MetaEOL) and with
    rewrites (GenEOL) a sentence's vector is the mean over all of them.

    Examples:
        >>> from zoo import Runtime
        >>> vectors = EOL(EOL.Recipe(backbone="FOLDER_OR_HUB_ID", layer=27), Runtime()).encode(["a small dog"])
    """

    def __init__(self, recipe: EOLRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        self.layers = layers_of(self.backbone.model)
        if not -len(self.layers) - 1 <= recipe.layer <= len(self.layers):
            raise UsageError(
                f"layer {recipe.layer}: {self.backbone.source.name!r} has states 0 to {len(self.layers)}, that of the"
                " embedding layer among them; give one of these, or -1 for the last."
            )
        longer, shorter = (self.tokenizer(recipe.template.removesuffix(end))["input_ids"] for end in ("", END))
        self.end = max(len(longer) - len(shorter), 1) if recipe.mean_of_end else 1
        self.place: Any = self.tokenizer.convert_tokens_to_ids(PLACE)
        draws = torch.Generator().manual_seed(0)
        self.placeholder = torch.randn(self.dim, generator=draws)
        shared = replace(recipe, further=(), generator=None)
        self.others = [EOL(replace(shared, template=text), runtime, self.backbone) for text in recipe.further]
        self.rewriter = None if recipe.generator is None else Rewriter(recipe.generator, runtime)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The backbone's, with the token <PST> added as in the released code."""
        if not self.recipe.prepend_until:
            return self.backbone.tokenizer
        longer = copy.deepcopy(self.backbone.tokenizer)
        longer.add_tokens([PLACE])
        return longer

    @property
    def template(self) -> str:
        if not self.recipe.prepend_until:
            return self.recipe.template
        before, quote, behind = self.recipe.template.rpartition(f'"{SENTENCE}')
        if not quote:
            before, quote, behind = self.recipe.template.rpartition(SENTENCE)
        return f"{before}{PLACE} {quote}{behind}"

    @classmethod
    def traits(cls, recipe: Any) -> Traits:
        return Traits(fine_tunes=not recipe.further and recipe.generator is None)

    @classmethod
    def sources(cls, recipe: Any, runtime: Runtime) -> dict[str, Any]:
        if recipe.generator is None:
            return super().sources(recipe, runtime)
        generator = find_backbone(recipe.generator, allow_pickle=runtime.allow_pickle)
        return {**super().sources(recipe, runtime), "generator": generator.identity()}

    def fingerprint(self) -> str:
        base = super().fingerprint()
        return base if self.rewriter is None else sha256_json([base, self.rewriter.source.sha256])

    def _encode_unique(self, texts: list[str]) -> Vectors:
        groups = [[text, *self._rewrites(text)] for text in texts]
        row = {text: i for i, text in enumerate(dict.fromkeys(chain.from_iterable(groups)))}
        views = [super()._encode_unique(list(row)), *(other._encode_unique(list(row)) for other in self.others)]
        vectors = np.mean(views, axis=0)
        means = [vectors[[row[text] for text in group]].mean(axis=0) for group in groups]
        return np.array(means, np.float32).reshape(-1, self.dim)

    def _rewrites(self, text: str) -> list[str]:
        if self.rewriter is None:
            return []
        return self.rewriter(text, self.recipe.rewrites, summarise=self.recipe.summarise)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        model, last = self.backbone.model, (attention_mask.sum(1) - 1).clamp(min=0)
        if self.recipe.prepend_until:
            at = input_ids == self.place
            known = model.get_input_embeddings()(input_ids.masked_fill(at, 0))
            embedded = torch.where(at.unsqueeze(-1), self.placeholder.to(known), known)
            chosen = self.layers[self.recipe.prepend_from : self.recipe.prepend_until]
            with prepending(chosen, at.int().argmax(1), last):
                states = token_states(model, input_ids, attention_mask, every=True, inputs_embeds=embedded)
        else:
            states = token_states(model, input_ids, attention_mask, every=True)
        places = (last[:, None] - torch.arange(self.end, device=last.device)).clamp(min=0)
        return states[self.recipe.layer][torch.arange(len(last), device=last.device)[:, None], places].float().mean(1)


def layers_of(model: nn.Module) -> Sequence[nn.Module]:
    """Layers of a transformer in order; raises UsageError for a model without a list."""
    count = model.config.num_hidden_layers  # type: ignore[union-attr]
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return list(module)
    raise UsageError(f"{type(model).__name__} has no list of its {count} layers; use another backbone.")


@contextmanager
def prepending(layers: Sequence[nn.Module], at: torch.Tensor, last: torch.Tensor) -> Iterator[None]:
    """Copy the state at places `last` (n,) to `at` (n,) before each of these layers."""

    def put(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        states, *others = inputs
        rows = torch.arange(len(at), device=at.device)
        return states.index_put((rows, at), states[rows, last]), *others

    hooks = [layer.register_forward_pre_hook(put) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
