"""IS-BERT (Zhang et al., EMNLP 2020): mutual information between a sentence's n-grams and the sentence.

The architecture is the paper's; other settings follow its released code (commit ea6622c). That code has no ReLU after
the convolutions: recipe `isbert-repo.yaml`, with its list of unfollowed points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

import torch
import torch.nn.functional as F
from torch import nn

from zoo.encoder import Runtime, Traits
from zoo.engine.narrow import all_rows_alike
from zoo.engine.states import masked_mean, token_states
from zoo.methods.base import check_adam, check_in_batch, check_positive
from zoo.methods.contrastive import Contrastive, TrainedRecipe
from zoo.plugins import register_method
from zoo.recipes import added
from zoo.training.loop import Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from zoo.engine.backbone import Backbone


@dataclass(frozen=True, kw_only=True)
class ISBertRecipe(TrainedRecipe):
    """Training settings, unstated in the paper, are the released code's.

    The code's AdamW has no bias correction, epsilon 1e-7 and no decay on biases and LayerNorm; here it is PyTorch's
    (optimizer=transformers-adamw:bias_correction=false:adam_epsilon=1e-7 is the code's).
    """

    kernels: tuple[int, ...] = (1, 3, 5)
    # Of each kernel: the vectors have 768 dimensions on every backbone.
    channels: int = 256
    # As in the paper; the code has none.
    activation: Literal["relu", "none"] = "relu"
    batch_size: int = 32
    learning_rate: float = 2e-6
    weight_decay: float = 0.01
    warmup: float = 0.1
    epochs: int = 1
    train_max_length: int = 128
    eval_every: int = 1000
    dropout: float | None = None  # the backbone's own
    optimizer: Literal["adamw", "transformers-adamw"] = added("adamw")
    bias_correction: bool = added(True)
    adam_epsilon: float = added(1e-8)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "channels", "adam_epsilon")
        check_adam(self)
        check_in_batch(self, "batch_size")
        if not self.kernels or any(kernel < 1 or kernel % 2 == 0 for kernel in self.kernels):
            raise ValueError(f"kernels must be odd numbers (each is centred on its token), not {self.kernels}")


def _windows_mapped(convolution: nn.Conv1d, x: torch.Tensor) -> torch.Tensor:
    """The convolution as a linear map of each token's window: (n, length, out), the same in any batch."""
    width = convolution.kernel_size[0]
    windows = F.pad(x, (width // 2, width // 2)).unfold(2, width, 1).permute(0, 2, 1, 3).flatten(2)
    with all_rows_alike(x.device):
        mapped: torch.Tensor = F.linear(windows, convolution.weight.flatten(1), convolution.bias)
    return mapped


class NgramCNN(nn.Module):
    """States -> n-gram features c: parallel convolutions of several widths, f(W h_{i-k/2 .. i+k/2} + b)."""

    def __init__(self, dim: int, recipe: ISBertRecipe) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(dim, recipe.channels, k, padding=k // 2) for k in recipe.kernels)
        self.relu = recipe.activation == "relu"

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """States (n, length, dim) and mask (n, length) -> (n, length, kernels * channels)."""
        # Padding is zero here; in the code its states are in the last windows, so that vectors depend on the batch.
        x = (states * mask.unsqueeze(-1).to(states.dtype)).transpose(1, 2)
        if torch.is_grad_enabled():
            features = torch.cat([convolution(x) for convolution in self.convolutions], 1).transpose(1, 2)
        else:
            features = torch.cat([_windows_mapped(cast("nn.Conv1d", part), x) for part in self.convolutions], 2)
        return F.relu(features) if self.relu else features


class ISBertObjective(Objective):
    """-I, I = E_own[-sp(-c . E)] - E_other[sp(c . E)]: the Jensen-Shannon estimator, sp(z) = log(1 + e^z).

    c is a token's n-gram feature, E the mean of a sentence's features; own: E of c's sentence, other: E of other
    sentences of the batch. The discriminator is the dot product, as in the code; the paper leaves its network open. All
    tokens of the batch have equal weight.
    """

    def __init__(self, model: PreTrainedModel, head: nn.Module) -> None:
        super().__init__()
        self.model, self.head = model, head

    def embed(self, *collated: torch.Tensor, **_: object) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, length) -> c (n, length, dim), E (n, dim), mask."""
        ids, mask = collated
        c = self.head(*token_states(self.model, ids, mask), mask)
        return c, masked_mean(c, mask), mask

    def contrast(self, c: torch.Tensor, sentences: torch.Tensor, mask: torch.Tensor, **_: object) -> torch.Tensor:
        tokens = mask.sum().float()
        with torch.autocast(c.device.type, enabled=False):
            scores = c.float() @ sentences.float().T  # (n, length, m)
            same_sentence = torch.eye(len(c), dtype=torch.int64, device=c.device).unsqueeze(1)
            real = mask.unsqueeze(-1)
            positives = (F.softplus(-scores) * (same_sentence * real)).sum() / tokens
            negatives = (F.softplus(scores) * ((1 - same_sentence) * real)).sum() / (tokens * max(len(c) - 1, 1))
        loss: torch.Tensor = positives + negatives
        return loss


@register_method("isbert")
class ISBert(Contrastive[ISBertRecipe]):
    """IS-BERT: at evaluation the mean of the trained n-gram features.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = ISBert(ISBert.Recipe(batch_size=4), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
        >>> encoder.encode(["a sentence"]).shape
        (1, 768)
    """

    def __init__(self, recipe: ISBertRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        self.dim = recipe.channels * len(recipe.kernels)

    def new_parts(self) -> nn.ModuleDict:
        return nn.ModuleDict({"head": NgramCNN(self.backbone.dim, self.recipe)})

    def objective(self) -> Objective:
        return ISBertObjective(self.backbone.model, self.drawn["head"])

    @classmethod
    def traits(cls, recipe: ISBertRecipe) -> Traits:
        return replace(super().traits(recipe), training_passes=1.0 * recipe.epochs, exports=False)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        (states,) = token_states(self.backbone.model, input_ids, attention_mask)
        return masked_mean(self.drawn["head"](states, attention_mask), attention_mask)
