"""CoT-BERT (Zhang et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F

from zoo.encoder import Runtime, Traits
from zoo.engine.backbone import Backbone
from zoo.engine.batching import host_of, to_device
from zoo.engine.needs import Need
from zoo.engine.tokens import TokenTable
from zoo.methods.promptbert import PromptBERT, PromptBERTRecipe
from zoo.methods.simcse import SimCSEObjective
from zoo.modules.templates import AloneRows, BoundTemplate, Template
from zoo.plugins import register_method
from zoo.training.loop import Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class CoTBERTRecipe(PromptBERTRecipe):
    """Defaults of the paper for BERT-base (table 1); [STEP] is a mask token with an unread state."""

    template: str = 'The sentence of "[X]" means [STEP] , so it can be summarized as [MASK] .'
    second_template: str | None = 'The sentence : "[X]" means [STEP] , so it can be summarized as [MASK] .'
    negative_template: str = 'The sentence : "[X]" does not mean [STEP] , so it cannot be summarized as [MASK] .'

    def __post_init__(self) -> None:
        super().__post_init__()
        Template.parse(self.negative_template)
        if self.second_template is None or self.supervised or self.mlm_weight or self.head == "mlm":
            raise ValueError(
                "the views are three templates: set second_template, head: mlp, and neither labels nor MLM"
            )


class PaddedTemplate(BoundTemplate):
    """Its bias is the [MASK] state around as many padding tokens as the sentence has tokens."""

    def bias(self, model: PreTrainedModel, attention_mask: torch.Tensor, first: int) -> torch.Tensor:
        """Mask of prompted rows (n, length) -> biases (n, dim); sentences of equal length share a row."""
        device, rows = attention_mask.device, self.alone_rows(host_of(attention_mask), first)
        ids, mask = to_device(rows.ids, device), to_device(rows.mask, device)
        return self.mask_states(model, ids, mask)[to_device(rows.which, device)]

    def alone_rows(self, attention_mask: torch.Tensor, first: int) -> AloneRows:
        # Of an empty sentence, quotes may be one token.
        lengths = (attention_mask.sum(1) - len(self)).clamp(min=0)
        sizes, which = lengths.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        offsets = np.concatenate([[0], sizes.cumsum(0).numpy()])
        padding = np.full(offsets[-1], self.tokenizer.pad_token_id, np.int32)
        ids, mask = self.fill(TokenTable(padding, offsets, 0)).padded(np.arange(len(sizes)), 0)
        return AloneRows(ids, mask, None, self.mask_positions(mask.sum(1)), which)


class CoTBERTObjective(SimCSEObjective):
    """-log exp(s(h, h+)) / sum_j [exp(s(h, h_j+)) + exp(s(h, h_j-)) + exp(s(h+, h_j-))], s = cosine / temperature."""

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        """Vectors of the three templates (n, dim) -> scalar loss (Eq. 3)."""
        with torch.autocast(h.device.type, enabled=False):
            a, b, d = (F.normalize(x.float(), dim=-1) for x in (h, h_plus, others[0]))
            logits = torch.cat([a @ b.T, a @ d.T, b @ d.T], dim=1) / self.recipe.temperature
            return F.cross_entropy(logits, torch.arange(len(h), device=h.device))


@register_method("cot-bert")
class CoTBERT(PromptBERT[CoTBERTRecipe]):
    """CoT-BERT: the second [MASK] of a template in two steps, contrasted with a negated template.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = CoTBERT(CoTBERT.Recipe(batch_size=4), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    def __init__(self, recipe: CoTBERTRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        third = Template.parse(recipe.negative_template).bind(self.backbone.tokenizer, blank=recipe.blank_in_training)
        self.training_prompts = tuple(PaddedTemplate(**vars(prompt)) for prompt in (*self.training_prompts, third))

    @property
    def first_position(self) -> int:
        """0: padding stands in the sentence's places, so positions stay."""
        return 0

    @classmethod
    def needs(cls, recipe: CoTBERTRecipe) -> frozenset[Need]:
        return super().needs(recipe) | {"padding token"}

    @classmethod
    def traits(cls, recipe: CoTBERTRecipe) -> Traits:
        """Passes: three templates; their biases are a short row for each length."""
        return replace(super().traits(recipe), training_passes=3.0 * recipe.epochs)

    def objective(self) -> Objective:
        objective = super().objective()
        assert isinstance(objective, SimCSEObjective)
        return CoTBERTObjective(objective.pooler, self.recipe)
