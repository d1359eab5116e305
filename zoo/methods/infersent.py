"""InferSent (Conneau et al. 2017) over fixed token vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from zoo.encoder import Runtime, Start, Traits
from zoo.engine.tokens import TokenTable, tokenise
from zoo.methods.base import BackboneEncoder, BackboneRecipe, check_positive, count_parameters
from zoo.methods.bilstm import BiLSTMMax, BiLSTMRecipe, TrainedBiLSTM
from zoo.methods.static import static_start
from zoo.modules.pooler import untrained
from zoo.plugins import register_method

if TYPE_CHECKING:
    from zoo.engine.backbone import Backbone


@dataclass(frozen=True, kw_only=True)
class InferSentRecipe(BiLSTMRecipe, BackboneRecipe):
    # Token vectors get GloVe's size: at BERT's, a tenth of it, SGD learns nothing.
    token_rms: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "token_rms")
        self.check()


@register_method("infersent")
class InferSent(TrainedBiLSTM[InferSentRecipe], BackboneEncoder[InferSentRecipe]):
    """InferSent on the token vectors of a backbone, without its transformer layers.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = InferSent(InferSent.Recipe(lstm_dim=8, batch_size=2, epochs=1), Runtime())
        >>> pairs = ["a dog runs", "an animal moves", "a dog runs", "it sleeps", "a cat", "a pet"]
        >>> labels = ["entailment", "contradiction", "neutral"]
        >>> encoder.fit(Corpus("toy", pairs, labels), run=Run(seed=1)).steps
        1
        >>> encoder.encode(["a small dog"]).shape
        (1, 16)
    """

    @classmethod
    def traits(cls, recipe: InferSentRecipe) -> Traits:
        return replace(super().traits(recipe), fine_tunes=True)

    @classmethod
    def start(cls, recipe: InferSentRecipe) -> Start | None:
        return static_start(recipe)

    def __init__(self, recipe: InferSentRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        self.dim, self.pad_id = 2 * recipe.lstm_dim, self.backbone.pad_id
        self.head = untrained(self.new_head)

    def new_head(self) -> BiLSTMMax:
        words = self.backbone.token_vectors
        words = words * (self.recipe.token_rms / words.square().mean().sqrt())
        return BiLSTMMax(words, self.recipe.lstm_dim).to(self.runtime.device).eval()

    def parameters(self) -> int:
        return count_parameters(self.backbone.model.get_input_embeddings(), self.head)

    def training_table(self, texts: Sequence[str]) -> TokenTable:
        return tokenise(self.backbone.tokenizer, texts, max_length=self.recipe.train_max_length)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.head(input_ids, attention_mask)
        return vectors

    def parts(self) -> dict[str, nn.Module]:
        return {"head": self.head}
