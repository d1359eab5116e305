"""What PromptBERT and OptiPrompt share: settings of the training, and vectors at [MASK] less a template's bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from zoo.engine.host import changed
from zoo.engine.states import token_states
from zoo.methods.simcse import SimCSERecipe
from zoo.modules.pooler import TrainedPooler
from zoo.modules.templates import BoundTemplate, Template

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class PromptTrainingRecipe(SimCSERecipe):
    """Settings that PromptBERT and OptiPrompt share."""

    template: str  # of the first view, and at test
    head: Literal["none", "mlp", "mlm"]  # in training: SimCSE's MLP, or the transform of the MLM head
    period: bool = False  # at test, as in the code's evaluation: every sentence ends in a period
    blank_in_training: bool = True  # False, as the code for RoBERTa: no blank before the sentence, but at test
    select_like_training: bool = False  # the code picks the checkpoint by denoised vectors without the period
    batch_size: int = 256

    @property
    def second_template(self) -> str | None:
        """None: both views have the same template."""
        return None

    @property
    def denoise(self) -> bool:
        """False: the template's bias is not subtracted in training."""
        return False

    @property
    def test_denoise(self) -> bool:
        """False: the template's bias is not subtracted at test."""
        return False

    @property
    def denoise_from_zero(self) -> bool:
        """False: the template without a sentence starts at the same position as a row."""
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        Template.parse(self.template)
        if self.pooler != "cls":
            raise ValueError("pooler has no use here: the vector is the state at [MASK]; leave it out")
        if self.augment or self.positives != "dropout":
            raise ValueError("augment and positives have no use here: the views are templates; leave them out")
        if self.head == "none" and not self.mlp_only_train:
            raise ValueError("head: none leaves nothing to keep at test; set mlp_only_train: true")


class PromptPooler(TrainedPooler):
    """Prompted ids and mask (n, length) -> h minus the bias (n, dim); row i has template i modulo their number.

    The MLP is applied to the difference; the MLM head's transform to h and to the bias, as in the released code.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        prompts: tuple[BoundTemplate, ...],
        recipe: PromptTrainingRecipe,
        head: nn.Module | None,
        bias_from: int | None,
    ) -> None:
        super().__init__(model, "cls_before_pooler")
        self.mlp = head or nn.Identity()
        self.prompts, self.head_first, self.bias_from = prompts, recipe.head == "mlm", bias_from

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return vectors after the head; `bias_from` is the first position of the template, None: no denoising."""
        k, lengths = len(self.prompts), attention_mask.sum(1)
        at = torch.stack([prompt.mask_positions(lengths[i::k]) for i, prompt in enumerate(self.prompts)], dim=1)
        h = self.states(input_ids, attention_mask, at.flatten())
        masks = [changed(attention_mask, lambda mask, i=i: mask[i::k]) for i in range(k)]  # type: ignore[misc]
        views = [self._view(prompt, h[i::k], masks[i]) for i, prompt in enumerate(self.prompts)]
        return torch.stack(views, dim=1).flatten(0, 1)

    def states(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """The last layer's states (n, dim), float32, at one position (n,) of each row."""
        return token_states(self.model, input_ids, attention_mask, at=at)[0][:, 0].float()

    def _view(self, prompt: BoundTemplate, h: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        if self.bias_from is None:
            vectors: torch.Tensor = self.mlp(h)
            return vectors
        bias = prompt.bias(self.model, attention_mask, self.bias_from)
        vectors = self.mlp(h) - self.mlp(bias) if self.head_first else self.mlp(h - bias)
        return vectors
