"""PromptBERT (Jiang et al. 2022): a view of a sentence by each of two templates, minus the template's bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from typing_extensions import TypeVar

from zoo.encoder import Runtime, Start, Traits
from zoo.engine.backbone import Backbone
from zoo.engine.heads import mlm_head
from zoo.engine.needs import Need
from zoo.methods.prompt import Prompted, PromptRecipe
from zoo.methods.prompttraining import PromptPooler, PromptTrainingRecipe
from zoo.methods.simcse import SimCSE, SimCSEObjective
from zoo.modules.templates import BoundTemplate, MlmTransform, Template
from zoo.plugins import register_method
from zoo.training.loop import Collate, Objective
from zoo.training.losses import MaskedLanguageModel
from zoo.training.positives import side_by_side


@dataclass(frozen=True, kw_only=True)
class PromptBERTRecipe(PromptTrainingRecipe):
    """The defaults are the unsupervised settings for BERT-base (tables 13 and 14)."""

    template: str = 'This sentence of "[X]" means [MASK] .'
    second_template: str | None = 'This sentence : "[X]" means [MASK] .'
    # In training: h minus the bias of the template (Eq. 4).
    denoise: bool = True
    # "In predicting, we directly use the one template without template denoising".
    test_denoise: bool = False
    # As in the code, where RoBERTa's template starts at position 0 and its rows at 2.
    denoise_from_zero: bool = False
    # As in the code; the paper does not mention it.
    head: Literal["none", "mlp", "mlm"] = "mlp"
    learning_rate: float = 1e-5
    eval_every: int = 125

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.second_template is not None:
            Template.parse(self.second_template)
            if self.supervised:
                raise ValueError("supervised training uses one template for all sentences; set second_template: null")


PromptTrainingRecipeT = TypeVar("PromptTrainingRecipeT", bound=PromptTrainingRecipe, default=PromptBERTRecipe)


@register_method("promptbert")
class PromptBERT(Prompted[PromptTrainingRecipeT], SimCSE[PromptTrainingRecipeT]):
    """PromptBERT: the [MASK] state of a template, trained by contrast of two templates or on NLI triplets.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = PromptBERT(PromptBERT.Recipe(batch_size=4), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    def __init__(self, recipe: PromptTrainingRecipeT, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        texts = [recipe.template] if recipe.second_template is None else [recipe.template, recipe.second_template]
        tokenizer = self.backbone.tokenizer
        self.training_prompts = tuple(Template.parse(t).bind(tokenizer, blank=recipe.blank_in_training) for t in texts)

    @property
    def prompt(self) -> BoundTemplate:
        """The template at evaluation; while `as_trained`, training's first."""
        return self.training_prompts[0] if self.as_trained else self.test_prompt

    @classmethod
    def needs(cls, recipe: PromptTrainingRecipeT) -> frozenset[Need]:
        of_head: set[Need] = {"MLM head"} if recipe.head == "mlm" or recipe.mlm_weight else set()
        return Prompted.needs(recipe) | of_head

    @classmethod
    def traits(cls, recipe: PromptTrainingRecipeT) -> Traits:
        """No `exports`: sentence-transformers has no module for templates."""
        return replace(super().traits(recipe), exports=False)

    @classmethod
    def start(cls, recipe: PromptTrainingRecipeT) -> Start | None:
        names = ("backbone", "revision", "max_length", "template", "period", "denoise_from_zero")
        fields = {name: getattr(recipe, name) for name in names}
        return Start("prompt", PromptRecipe(denoise=recipe.test_denoise, **fields))

    def new_head(self) -> nn.Module:
        return MlmTransform(self.backbone.model.config) if self.recipe.head == "mlm" else super().new_head()

    @property
    def views_by_dropout(self) -> bool:
        return len(self.training_prompts) == 1 and not self.recipe.supervised

    def make_pooler(self, prompts: tuple[BoundTemplate, ...], denoise: bool, head: nn.Module | None) -> PromptPooler:
        bias_from = self.first_position if denoise else None
        return PromptPooler(self.backbone.model, prompts, self.recipe, head, bias_from)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        denoise = self.recipe.denoise if self.as_trained else self.recipe.test_denoise
        vectors: torch.Tensor = self.make_pooler((self.prompt,), denoise, self.mlp)(input_ids, attention_mask)
        return vectors.float()

    def objective(self) -> Objective:
        """Contrast within the batch (Eq. 4); the MLM head's transform starts pretrained."""
        recipe = self.recipe
        head = self.mlp if self.mlp is not None or recipe.head == "none" else self.new_head()
        if isinstance(head, MlmTransform):
            head.take(mlm_head(self.backbone.source, self.runtime), recipe.backbone)
        mlm = MaskedLanguageModel(self.backbone, recipe.mlm_rate) if recipe.mlm_weight else None
        return SimCSEObjective(self.make_pooler(self.training_prompts, recipe.denoise, head), recipe, mlm)

    def stacked(self, views: Sequence[tuple[str, ...]]) -> Collate:
        """Prompted ids and mask (n, views, longest), texts cut to `train_max_length`."""
        prompts, pad_id = self.training_prompts, self.backbone.pad_id
        # A single sentence is put into every template.
        width = max(len(views[0]), len(prompts)) if views else 1
        tables = []
        for i in range(width):
            prompt = prompts[i % len(prompts)]
            room = min(self.recipe.train_max_length, prompt.room(self.backbone.max_length))
            tables.append(prompt.fill(prompt.sentences([row[i % len(row)] for row in views], room)))

        def batch(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            return side_by_side([table.padded(rows, pad_id) for table in tables], pad_id)

        return batch
