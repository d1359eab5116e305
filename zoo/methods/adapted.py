"""Decoders trained by adapters (LoRA): PromptEOL fine-tuned (Jiang et al. 2024), AnglE-LLaMA (Li and Li 2024)."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import nn
from typing_extensions import TypeVar

from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime, Start
from zoo.engine.needs import Need
from zoo.engine.tokens import TokenTable, clean_text
from zoo.files import read_json, write_json
from zoo.formats.export import StockModules
from zoo.methods.angle import AnglEObjective, AnglERecipe
from zoo.methods.causal import Causal, CausalRecipe, TemplateRecipe, last_states
from zoo.methods.cosent import CoSENT
from zoo.methods.simcse import SimCSE, SimCSERecipe
from zoo.plugins import register_method
from zoo.training.loop import Objective
from zoo.training.lora import (
    LoraSettings,
    check_peft,
    has_adapters,
    load_adapters,
    merged,
    save_adapters,
    with_adapters,
)
from zoo.training.settings import TrainSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# In that of a saved encoder.
_FOLDER = "adapters"


@dataclass(frozen=True, kw_only=True)
class AdaptedRecipe(TemplateRecipe):
    """Fields of the adapters; defaults of PromptEOL's code (kongds/scaling_sentemb, ft_llm.py)."""

    rank: int = 64
    alpha: int = 16
    adapter_dropout: float = 0.05
    # names of linear layers, such as q_proj and v_proj; none: all of them, as in the code's runs in 4 bits
    targets: tuple[str, ...] = ()
    # tokens of a sentence, without the template
    train_max_length: int = 32

    @property
    def adapters(self) -> LoraSettings:
        return LoraSettings(rank=self.rank, alpha=self.alpha, dropout=self.adapter_dropout, targets=tuple(self.targets))

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.adapters


AdaptedRecipeT = TypeVar("AdaptedRecipeT", bound=AdaptedRecipe, default=Any)


class LastState(nn.Module):
    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return last_states(self.model, input_ids, attention_mask)


class Adapted(Causal[AdaptedRecipeT]):
    """The last token's state of a template, from a frozen decoder with trained adapters.

    A subclass's second base gives the loss and its rows. A saved encoder has `adapters` and the decoder's name.
    """

    loss_of_batch: ClassVar[type[Any]]

    @classmethod
    def needs(cls, recipe: Any) -> frozenset[Need]:
        return frozenset()

    @classmethod
    def sources(cls, recipe: Any, runtime: Runtime) -> dict[str, Any]:
        """Raises MissingError without peft, before a run begins."""
        check_peft()
        return super().sources(recipe, runtime)

    @classmethod
    def start(cls, recipe: Any) -> Start | None:
        names = ("backbone", "revision", "max_length", "template", "period")
        return Start("causal", CausalRecipe(**{name: getattr(recipe, name) for name in names}))

    def objective(self) -> Objective:
        """The loss; new adapters unless the decoder has some."""
        model = self.backbone.model
        if not has_adapters(model):
            with_adapters(model, self.recipe.adapters)
        objective: Objective = self.loss_of_batch(LastState(model), self.recipe)
        return objective

    def training_table(self, texts: Sequence[str]) -> TokenTable:
        """Rows with `train_max_length` tokens of a text in the template, as in the code."""
        most, clean = self.recipe.train_max_length, [clean_text(text, i) for i, text in enumerate(texts)]
        rows = self.tokenizer(clean, add_special_tokens=False, verbose=False)["input_ids"] if clean else []
        pairs = zip(clean, rows, strict=True)
        return self.rows_of(
            [text if len(row) <= most else str(self.tokenizer.decode(row[:most])) for text, row in pairs]
        )

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        report = super().fit(corpus, dev_score=dev_score, run=run)
        # The decoder did not change, so only its name is saved.
        self.trained = False
        return report

    def stock_modules(self) -> StockModules:
        plain = copy.copy(self.backbone)
        plain.model = merged(plain.model)
        return replace(super().stock_modules(), backbone=plain)

    def save(self, folder: Path) -> None:
        super().save(folder)
        if has_adapters(self.backbone.model):
            save_adapters(self.backbone.model, folder / _FOLDER)
            write_json(folder / "backbone.json", {**read_json(folder / "backbone.json"), "adapters": True})

    @classmethod
    def load(cls, folder: Path, runtime: Runtime | None = None) -> Self:
        encoder = super().load(folder, runtime)
        if "adapters" in read_json(folder / "backbone.json"):
            load_adapters(encoder.backbone.model, folder / _FOLDER)
        return encoder


@dataclass(frozen=True, kw_only=True)
class AdaptedSimCSERecipe(AdaptedRecipe, SimCSERecipe):
    supervised: bool = True
    batch_size: int = 256
    learning_rate: float = 5e-4
    # at most half of all steps
    warmup_steps: int = 100
    eval_every: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warmup_steps < 0:
            raise ValueError(f"warmup_steps must not be below 0, not {self.warmup_steps}")
        if self.mlm_weight or self.augment or self.positives != "dropout" or self.pooler != "cls":
            raise ValueError("mlm_weight, augment, positives and pooler have no use here; leave them out")


@register_method("adapted-simcse")
class AdaptedSimCSE(Adapted[AdaptedSimCSERecipe], SimCSE[AdaptedSimCSERecipe]):
    """PromptEOL fine-tuned: SimCSE's loss on the last token's state, by adapters beside a frozen decoder.

    Examples:
        >>> from zoo import Runtime
        >>> recipe = AdaptedSimCSE.Recipe(backbone="FOLDER_OR_HUB_ID", supervised=False)
        >>> vectors = AdaptedSimCSE(recipe, Runtime()).encode(["a small dog"])
    """

    @property
    def views_by_dropout(self) -> bool:
        """False with dropout in the adapters: two views of a sentence then differ anyway."""
        return super().views_by_dropout and not self.recipe.adapter_dropout

    def settings(self) -> TrainSettings:
        settings = super().settings()
        steps = settings.steps or math.ceil(self.rows / settings.batch_size) * settings.epochs
        return replace(settings, warmup_steps=min(self.recipe.warmup_steps, steps // 2))


@dataclass(frozen=True, kw_only=True)
class AdaptedAnglERecipe(AdaptedRecipe, AnglERecipe):
    """Defaults of the script for angle-llama-7b-nli-20231027."""

    template: str = 'Summarize sentence "[X]" in one word:"'
    rank: int = 32
    alpha: int = 32
    adapter_dropout: float = 0.1
    in_batch_weight: float = 35.0
    angle_weight: float = 1.0
    angle_temperature: float = 1.0
    train_max_length: int = 33
    batch_size: int = 160
    accumulate: int = 4
    learning_rate: float = 2e-4
    epochs: int = 1
    warmup_steps: int = 100
    eval_every: int = 200


@register_method("adapted-angle")
class AdaptedAnglE(Adapted[AdaptedAnglERecipe], CoSENT[AdaptedAnglERecipe]):
    """AnglE-LLaMA: AnglE's losses on the last token's state, by adapters beside a frozen decoder.

    Examples:
        >>> from zoo import Runtime
        >>> vectors = AdaptedAnglE(AdaptedAnglE.Recipe(backbone="FOLDER_OR_HUB_ID"), Runtime()).encode(["a small dog"])
    """

    loss_of_batch = AnglEObjective
