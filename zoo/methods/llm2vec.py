"""LLM2Vec (BehnamGhader et al. 2024): a bidirectional decoder, trained by adapters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime, Start, Traits
from zoo.engine.backbone import Backbone
from zoo.engine.bert import mlm_head_of
from zoo.engine.heads import masked_lm
from zoo.engine.needs import Need
from zoo.engine.states import masked_mean, token_states
from zoo.engine.tokens import frame_of, tokenise
from zoo.errors import ContractError, UsageError
from zoo.methods.base import check_positive
from zoo.methods.causal import CausalRecipe, check_decoder
from zoo.methods.simcse import SimCSE, SimCSEObjective, SimCSERecipe
from zoo.modules.pooler import Pooler, TrainedPooler
from zoo.plugins import register_method
from zoo.training.loop import Objective, train
from zoo.training.lora import LoraSettings, merged, with_adapters
from zoo.training.losses import MaskedNextTokens, mask_some
from zoo.training.settings import TrainSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class LLM2VecRecipe(SimCSERecipe):
    """Defaults of the released configurations for LLaMA."""

    mntp_steps: int = 1000
    mntp_batch_size: int = 32
    mntp_learning_rate: float = 5e-5
    # Tokens of a row. Its ends are no sentences' ends.
    mntp_length: int = 512
    mask_rate: float = 0.2
    # Share of the chosen tokens. Half of the others are random. For Mistral 1.0, and mask_rate 0.8.
    masked: float = 0.8
    # For a decoder without a mask token.
    mask_token: str = "_"
    # Of the adapters in both stages. Alpha is twice the rank. 0: all weights are trained.
    lora_rank: int = 16
    lora_dropout: float = 0.05
    # SimCSE's mean includes padding on the left, as in the released code.
    padded_mean: bool = False
    # The mean at test includes <s>, as sentence-transformers' does.
    special_tokens: bool = False
    batch_size: int = 128
    train_max_length: int = 128
    steps: int | None = 1000
    # Of the attention, in SimCSE alone.
    dropout: float | None = 0.3
    pooler: Pooler = "avg"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "mntp_steps", "mntp_batch_size", "mntp_learning_rate", "mntp_length", "mask_rate")
        if self.lora_rank < 0 or not 0 <= self.lora_dropout < 1 or self.mask_rate > 1 or not 0 <= self.masked <= 1:
            raise ValueError("lora_rank must not be below 0; lora_dropout, mask_rate and masked are shares")
        if self.pooler != "avg" or self.mlm_weight:
            raise ValueError("the vector is the mean of the states: set pooler avg, and no mlm_weight")


class PaddedMean(TrainedPooler):
    """Mean (n, dim) over rows padded on the left, padding included. Its inputs are padded on the right."""

    def __init__(self, model: PreTrainedModel, filler: int) -> None:
        super().__init__(model, "avg")
        self.filler = filler

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        length = input_ids.shape[1]
        places = torch.arange(length, device=input_ids.device) + attention_mask.sum(1, keepdim=True)
        places, filled = places % length, input_ids.masked_fill(attention_mask == 0, self.filler)
        (states,) = token_states(self.model, filled.gather(1, places), attention_mask.gather(1, places))
        return states.float().mean(1)


@register_method("llm2vec")
class LLM2Vec(SimCSE[LLM2VecRecipe]):
    """LLM2Vec: the mean of a sentence's token states, under bidirectional attention.

    Examples:
        >>> from zoo import Runtime
        >>> vectors = LLM2Vec(LLM2Vec.Recipe(backbone="FOLDER_OR_HUB_ID"), Runtime()).encode(["a small dog"])
    """

    def __init__(self, recipe: LLM2VecRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        check_decoder(self.backbone, bidirectional=True)
        self.frame = tuple(map(len, frame_of(self.backbone.tokenizer)))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Mean of a row's states (n, dim) float32, by default without special tokens."""
        if self.recipe.special_tokens:
            return super().forward(input_ids, attention_mask)
        places, (before, behind) = torch.arange(input_ids.shape[1], device=input_ids.device), self.frame
        inner = (places >= before) & (places < attention_mask.sum(1, keepdim=True) - behind)
        # An empty text has the states of its special tokens.
        kept = torch.where(inner.any(1, keepdim=True), inner.to(attention_mask.dtype), attention_mask)
        return masked_mean(token_states(self.backbone.model, input_ids, attention_mask)[0], kept)

    @classmethod
    def needs(cls, recipe: LLM2VecRecipe) -> frozenset[Need]:
        return frozenset()

    @classmethod
    def traits(cls, recipe: LLM2VecRecipe) -> Traits:
        """As SimCSE's. No export without special tokens: sentence-transformers pools all tokens."""
        return replace(super().traits(recipe), exports=recipe.special_tokens)

    @classmethod
    def start(cls, recipe: LLM2VecRecipe) -> Start | None:
        places = {"backbone": recipe.backbone, "revision": recipe.revision, "max_length": recipe.max_length}
        return Start("causal", CausalRecipe(template="[X]", pooling="mean", bidirectional=True, **places))  # type: ignore[arg-type]

    def adapted(self) -> PreTrainedModel:
        rank, model = self.recipe.lora_rank, self.backbone.model
        if not rank:
            return model
        return with_adapters(model, LoraSettings(rank=rank, alpha=2 * rank, dropout=self.recipe.lora_dropout))

    def merge(self) -> None:
        if self.recipe.lora_rank:
            self.backbone.model = merged(self.backbone.model)

    def next_tokens(self) -> MaskedNextTokens:
        """The first stage's loss. Its output layer is trained too, unless tied to the token embeddings."""
        recipe, tokenizer, source = self.recipe, self.backbone.tokenizer, self.backbone.source
        token = tokenizer.mask_token or recipe.mask_token
        mask_id = tokenizer.get_vocab().get(str(token))
        if mask_id is None:
            raise UsageError(
                f"mask_token {token!r} is no token of backbone {source.name!r}; set mask_token to another."
            )
        head = mlm_head_of(masked_lm(source, Runtime(), causal=True), source.name)
        model = self.adapted()
        head.requires_grad_(not getattr(model.config, "tie_word_embeddings", True))
        mask = partial(
            mask_some,
            rate=recipe.mask_rate,
            masked=recipe.masked,
            mask_id=mask_id,
            special_ids=torch.tensor(sorted(set(tokenizer.all_special_ids))),
            vocabulary=model.config.vocab_size,
        )
        return MaskedNextTokens(model, head, mask)

    def predict(self, corpus: Corpus, run: Run) -> FitReport:
        """Train the first stage on rows of equal length, and merge its adapters."""
        recipe = self.recipe
        torch.manual_seed(run.seed)
        ids = tokenise(self.backbone.tokenizer, corpus.sentences, max_length=None).ids.astype(np.int64)
        length = min(recipe.mntp_length, self.backbone.max_length, max(len(ids), 1))
        rows = ids[: len(ids) // length * length].reshape(-1, length)

        def collate(numbers: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            chosen = torch.from_numpy(rows[numbers])
            return chosen, torch.ones_like(chosen)

        settings = TrainSettings(
            batch_size=recipe.mntp_batch_size,
            learning_rate=recipe.mntp_learning_rate,
            epochs=1,
            steps=recipe.mntp_steps,
            eval_every=recipe.mntp_steps,
            schedule="constant",
            tokens=recipe.mntp_batch_size * length,
        )
        objective = self.next_tokens().to(self.runtime.device)
        folder = None if run.folder is None else run.folder / "mntp"
        here = replace(run, folder=folder, log_values=None)
        model, runtime = self.backbone.model, self.runtime
        report = train(
            objective, collate, len(rows), settings, runtime=runtime, run=here, backbone=model, dev_score=None
        )
        self.merge()
        return report

    def objective(self) -> Objective:
        model, tokenizer = self.adapted(), self.backbone.tokenizer
        filler = tokenizer.eos_token_id if isinstance(tokenizer.eos_token_id, int) else self.backbone.pad_id
        pooler = PaddedMean(model, filler) if self.recipe.padded_mean else TrainedPooler(model, "avg")
        return SimCSEObjective(pooler, self.recipe)

    def settings(self) -> TrainSettings:
        return replace(super().settings(), schedule="constant")

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Train masked next tokens (folder "mntp"), then SimCSE, and merge the adapters of both."""
        if corpus is None:
            raise ContractError("LLM2Vec is trained and needs a corpus; pass --corpus FILE.")
        first = self.predict(corpus, run)
        report = super().fit(corpus, dev_score=dev_score, run=run)
        self.merge()
        facts = {**report.facts, "mntp_steps": first.steps, "mntp_loss": first.final_loss}
        return replace(report, seconds=round(report.seconds + first.seconds, 3), facts=facts)
