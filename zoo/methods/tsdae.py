"""TSDAE (Wang et al. 2021)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F

from zoo.encoder import Corpus, Run, Traits
from zoo.engine.dropout import set_dropout
from zoo.engine.heads import masked_lm
from zoo.errors import UsageError
from zoo.methods.contrastive import Contrastive, Rows, TrainedRecipe
from zoo.modules.pooler import TrainedPooler
from zoo.plugins import register_method
from zoo.recipes import added
from zoo.training.loop import Objective
from zoo.training.positives import augmented
from zoo.training.settings import TrainSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from zoo.encoder import Runtime
    from zoo.engine.backbone import Backbone


@dataclass(frozen=True, kw_only=True)
class TSDAERecipe(TrainedRecipe):
    """Defaults of the authors' library: deletion of 0.6 of the words, [CLS], tied weights."""

    # Of the encoder's text (zoo.training.augment): int(0.6 n) words.
    noise: str = "delete:0.6:word"
    # The decoder's self-attention and other common weights are the encoder's.
    tied: bool = True
    batch_size: int = 8
    learning_rate: float = 3e-5
    train_max_length: int = 128
    eval_every: int = 250
    pooler: Literal["avg", "cls_before_pooler"] = added("cls_before_pooler")


def decoder_of(backbone: Backbone, runtime: Runtime, *, tied: bool) -> PreTrainedModel:
    """A causal language model with attention to vectors, and the checkpoint's weights.

    `tied`: common weights are the backbone's own tensors. The new attention's weights are random. Raises UsageError for
    an architecture without such a decoder, or a checkpoint without an MLM head.
    """
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(backbone.model.config)
    config.is_decoder, config.add_cross_attention = True, True
    try:
        decoder: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    except ValueError as error:
        raise UsageError(f"tsdae: backbone {backbone.source.name!r} has no decoder; use a BERT or RoBERTa.") from error
    decoder.load_state_dict(masked_lm(backbone.source, runtime).state_dict(), strict=False)
    if tied:
        of_decoder = dict(getattr(decoder, decoder.base_model_prefix).named_modules())
        for name, parameter in backbone.model.named_parameters():
            module, _, attribute = name.rpartition(".")
            if hasattr(of_decoder.get(module), attribute):
                setattr(of_decoder[module], attribute, parameter)
        decoder.tie_weights()
    return decoder


class TSDAEObjective(Objective):
    """Cross-entropy of the next token, given those before it and the vector of the damaged sentence."""

    def __init__(self, pooler: TrainedPooler, decoder: PreTrainedModel, pad_id: int) -> None:
        super().__init__()
        self.pooler, self.decoder, self.pad_id = pooler, decoder, pad_id

    def forward(self, *collated: torch.Tensor, **_: object) -> torch.Tensor:
        """Ids and mask (n, length) of damaged, then of whole sentences -> scalar loss."""
        noisy_ids, noisy_mask, ids, _mask = collated
        vectors = self.pooler(noisy_ids, noisy_mask)
        # Padding is on the right, which causal attention does not see.
        states = self.decoder(input_ids=ids[:, :-1], encoder_hidden_states=vectors.unsqueeze(1), use_cache=False)
        logits = states.logits.float().flatten(0, 1)
        return F.cross_entropy(logits, ids[:, 1:].flatten(), ignore_index=self.pad_id)


@register_method("tsdae")
class TSDAE(Contrastive[TSDAERecipe]):
    """TSDAE: a denoising auto-encoder; the decoder sees the sentence's vector alone; at evaluation [CLS].

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = TSDAE(TSDAE.Recipe(batch_size=4), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    def objective(self) -> Objective:
        decoder = decoder_of(self.backbone, self.runtime, tied=self.recipe.tied)
        set_dropout(decoder, self.recipe.dropout)
        return TSDAEObjective(TrainedPooler(self.backbone.model, self.recipe.pooler), decoder, self.backbone.pad_id)

    @classmethod
    def traits(cls, recipe: TSDAERecipe) -> Traits:
        """Passes: the damaged sentence in the encoder, the whole in the decoder."""
        return replace(super().traits(recipe), training_passes=2.0 * recipe.epochs)

    def settings(self) -> TrainSettings:
        return replace(super().settings(), schedule="constant")

    def training_rows(self, corpus: Corpus, run: Run) -> Rows:
        table = self.training_table(corpus.sentences)
        noisy = augmented(self.backbone, table, (self.recipe.noise,), run.seed)
        return lambda rows: (*noisy(rows), *table.padded(rows, self.backbone.pad_id)), len(table)
