"""OptiPrompt for sentences (PromptBERT, section 4.2): only a continuous template is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime
from zoo.engine.backbone import Backbone, token_embeddings
from zoo.engine.states import token_states
from zoo.methods.promptbert import PromptBERT
from zoo.methods.prompttraining import PromptPooler, PromptTrainingRecipe
from zoo.modules.templates import BoundTemplate
from zoo.plugins import register_method
from zoo.training.loop import Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class OptiPromptRecipe(PromptTrainingRecipe):
    """Defaults of appendix B; both views are the same template under two dropout masks, as in SimCSE."""

    template: str = 'This sentence : "[X]" means [MASK] .'
    # The code also trains the transform of the MLM head.
    head: Literal["none", "mlp", "mlm"] = "none"
    # The code: last-occurrence.
    replace: Literal["position", "last-occurrence"] = "position"
    learning_rate: float = 3e-5
    epochs: int = 5
    eval_every: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mlm_weight:
            raise ValueError("mlm_weight has no use here: the backbone is frozen")


class TemplateVectors(nn.Module):
    """A vector for each non-special token of a template, in place of its static embedding.

    It is placed by position or, as in the released code, at the last place in the row of the token's id. The code's way
    replaces a repeated token of the template only at its last place, by its last vector; a prefix token that the
    sentence has too is replaced in the sentence instead.
    """

    def __init__(self, prompt: BoundTemplate, embeddings: nn.Embedding, how: str) -> None:
        super().__init__()
        self.prompt, self.how = prompt, how
        special = {*prompt.tokenizer(prompt.tokenizer.mask_token)["input_ids"]}
        self.places = [i for i, token in enumerate(prompt.alone) if token not in special]
        self.tokens = [prompt.alone[i] for i in self.places]
        start = embeddings.weight.detach()[self.tokens]
        self.vectors = nn.Parameter(start.clone())  # (tokens, width)

    def forward(self, embedded: torch.Tensor, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Embeddings (n, length, width) of ids and mask (n, length) -> the same with the template's vectors."""
        embedded = embedded.clone()
        rows = torch.arange(len(input_ids), device=input_ids.device)
        sentence = attention_mask.sum(1) - len(self.prompt)
        columns = torch.arange(input_ids.shape[1], device=input_ids.device)
        for place, token, vector in zip(self.places, self.tokens, self.vectors, strict=True):
            if self.how == "position":
                where = sentence * (place >= len(self.prompt.head)) + place
            else:
                where = ((input_ids == token) * columns).argmax(1)
            embedded[rows, where] = vector.to(embedded.dtype)
        return embedded


class OptiPooler(PromptPooler):
    def __init__(
        self, model: PreTrainedModel, template: TemplateVectors, recipe: OptiPromptRecipe, head: nn.Module | None
    ) -> None:
        super().__init__(model, (template.prompt,), recipe, head, None)
        self.template = template

    def states(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, at: torch.Tensor, **_: object
    ) -> torch.Tensor:
        embedded = self.template(self.model.get_input_embeddings()(input_ids), input_ids, attention_mask)
        return token_states(self.model, input_ids, attention_mask, at=at, inputs_embeds=embedded)[0][:, 0].float()


@register_method("optiprompt")
class OptiPrompt(PromptBERT[OptiPromptRecipe]):
    """OptiPrompt: a frozen backbone and a template of trained vectors, initialised from a manual template.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = OptiPrompt(OptiPrompt.Recipe(batch_size=4, epochs=1), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    def __init__(self, recipe: OptiPromptRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        # Where vectors are placed by position, each token of the template keeps its own.
        self.whole_rows = recipe.replace == "last-occurrence"
        super().__init__(recipe, runtime, backbone)
        embeddings = token_embeddings(self.backbone.model)
        self.template = TemplateVectors(self.prompt, embeddings, recipe.replace).to(runtime.device)

    def make_pooler(self, prompts: tuple[BoundTemplate, ...], denoise: bool, head: nn.Module | None) -> PromptPooler:
        return OptiPooler(self.backbone.model, self.template, self.recipe, head)

    def objective(self) -> Objective:
        self.backbone.model.requires_grad_(False)
        return super().objective()

    def parts(self) -> dict[str, nn.Module]:
        return {**super().parts(), "template": self.template}

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        report = super().fit(corpus, dev_score=dev_score, run=run)
        # The backbone did not change, so only its name is saved.
        self.trained = False
        return report
