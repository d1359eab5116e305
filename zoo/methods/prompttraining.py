"""Common training of PromptBERT and OptiPrompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.nn.functional as F
from torch import nn

from zoo.engine.batching import changed, host_of, to_device
from zoo.engine.states import token_states
from zoo.methods.simcse import SimCSERecipe
from zoo.modules.pooler import TrainedPooler
from zoo.modules.templates import AloneRows, BoundTemplate, Template, row_start

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class PromptTrainingRecipe(SimCSERecipe):
    template: str
    head: Literal["none", "mlp", "mlm"]
    period: bool = False
    # False, as the code for RoBERTa: no blank before the sentence, but at test.
    blank_in_training: bool = True
    # The code picks the checkpoint by denoised vectors without the period.
    select_like_training: bool = False
    batch_size: int = 256

    @property
    def second_template(self) -> str | None:
        return None

    @property
    def denoise(self) -> bool:
        return False

    @property
    def test_denoise(self) -> bool:
        return False

    @property
    def denoise_from_zero(self) -> bool:
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


def in_one_pass(device: torch.device) -> bool:
    """True on a GPU, to save the host's kernels; a CPU's two passes sample the dropout of the published rows."""
    return device.type != "cpu"


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
        """Vectors after the head; `bias_from`: first position of the template, None without denoising."""
        if self.bias_from is not None and in_one_pass(input_ids.device):
            return self._headed(*self.with_biases(host_of(input_ids), host_of(attention_mask), input_ids.device))
        k, lengths = len(self.prompts), attention_mask.sum(1)
        at = torch.stack([prompt.mask_positions(lengths[i::k]) for i, prompt in enumerate(self.prompts)], dim=1)
        h = self.states(input_ids, attention_mask, at.flatten())
        masks = [changed(attention_mask, lambda mask, i=i: mask[i::k]) for i in range(k)]  # type: ignore[misc]
        views = [self._view(prompt, h[i::k], masks[i]) for i, prompt in enumerate(self.prompts)]
        return torch.stack(views, dim=1).flatten(0, 1)

    def with_biases(
        self, ids: torch.Tensor, mask: torch.Tensor, device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Prompted ids and mask (n, length) from `host_of` -> h and biases (n, dim), in one pass."""
        assert self.bias_from is not None
        k, lengths = len(self.prompts), mask.sum(1)
        at, which = lengths.clone(), lengths.clone()
        positions = row_start(self.model) + torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1)
        alone: list[AloneRows] = []
        for i, prompt in enumerate(self.prompts):
            at[i::k] = prompt.mask_positions(lengths[i::k])
            rows = prompt.alone_rows(mask[i::k], self.bias_from)
            which[i::k] = rows.which + sum(len(others.ids) for others in alone)
            alone.append(rows)

        def joined(parts: list[torch.Tensor], fill: int = 0) -> torch.Tensor:
            width = max(part.shape[1] for part in parts)
            rows = torch.cat([F.pad(part, (0, width - part.shape[1]), value=fill) for part in parts])
            return to_device(rows, device)

        moved = [rows.positions for rows in alone if rows.positions is not None]
        states = self.states(
            joined([ids, *(rows.ids for rows in alone)], self.prompts[0].tokenizer.pad_token_id),
            joined([mask, *(rows.mask for rows in alone)]),
            to_device(torch.cat([at, *(rows.at for rows in alone)]), device),
            **({"position_ids": joined([positions, *moved])} if moved else {}),
        )
        h, biases = torch.split(states, [len(ids), len(states) - len(ids)])
        return h, biases[to_device(which, device)]

    def states(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, at: torch.Tensor, **embedding: Any
    ) -> torch.Tensor:
        """States of the last layer (n, dim), float32, at a position (n,) of each row."""
        return token_states(self.model, input_ids, attention_mask, at=at, **embedding)[0][:, 0].float()

    def _view(self, prompt: BoundTemplate, h: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        if self.bias_from is None:
            vectors: torch.Tensor = self.mlp(h)
            return vectors
        return self._headed(h, prompt.bias(self.model, attention_mask, self.bias_from))

    def _headed(self, h: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.mlp(h) - self.mlp(bias) if self.head_first else self.mlp(h - bias)
        return vectors
