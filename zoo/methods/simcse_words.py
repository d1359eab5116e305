"""SimCSE on a token table: the table's mean plus a gate, at first 0, times weighted states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn

from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime, Traits, score_of
from zoo.engine.backbone import Backbone, token_embeddings
from zoo.engine.states import pooled
from zoo.errors import ContractError
from zoo.methods.base import check_in_batch, check_positive
from zoo.methods.simcse import SimCSE, SimCSEObjective, SimCSERecipe
from zoo.methods.static_contrastive import StaticContrastive, StaticContrastiveRecipe
from zoo.modules.pooler import Pooler, TrainedPooler
from zoo.plugins import register_method
from zoo.training.checkpoint import undisturbed
from zoo.training.loop import Objective
from zoo.training.positives import Positives


@dataclass(frozen=True, kw_only=True)
class SimCSEWordsRecipe(SimCSERecipe):
    """The table, static-contrastive's of the same text, and the training of the states; no paper has them."""

    pooler: Pooler = "sif"
    positives: Literal["dropout", Positives] = "mix"
    batch_size: int = 256
    steps: int = 500
    # The best of five variants on stsb-dev-disjoint (leaderboards/words).
    learning_rate: float = 5e-4
    # The gate's learning rate, in those of the states: Adam's steps have one size for all weights.
    gate_rate: float = 100.0
    table_positives: Positives = "neighbours"
    table_steps: int = 2000
    table_batch_size: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "steps", "gate_rate", "table_steps", "table_batch_size")
        check_in_batch(self, "table_batch_size")
        if self.pooler != "sif":
            raise ValueError(f"simcse-words weights its states by SIF; pooler {self.pooler} is simcse's")


class GatedTable(nn.Module):
    """A fixed table (vocabulary, dim), 0 for uncounted tokens, and the gate; without a table the gate is 1."""

    table: torch.Tensor

    def __init__(self, vocabulary: int, dim: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.gate = nn.Parameter(torch.full((1,), 1 / rate))
        self.register_buffer("table", torch.zeros(vocabulary, dim))

    def begin(self, table: torch.Tensor, specials: list[int]) -> None:
        """Take a trained table without special tokens, and close the gate."""
        with torch.no_grad():
            self.table[: len(table)] = table
            self.table[specials] = 0
            self.gate.zero_()

    def forward(self, input_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Ids (n, length) and pooled states (n, dim) -> unit table mean + gate x unit states (n, dim)."""
        rows = F.normalize(F.embedding_bag(input_ids, self.table, mode="sum"), dim=-1)
        return rows + self.rate * self.gate * F.normalize(states.float(), dim=-1)


class GatedPooler(TrainedPooler):
    """Ids and mask (n, length) -> vectors (n, dim) of a table and a transformer."""

    def __init__(self, model: Any, words: GatedTable) -> None:
        super().__init__(model, "sif")
        self.words = words

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.words(input_ids, super().forward(input_ids, attention_mask))
        return vectors


@register_method("simcse-words")
class SimCSEWords(SimCSE[SimCSEWordsRecipe]):
    """A table trained by contrast (static-contrastive), then a transformer's states added to it by SimCSE.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> recipe = SimCSEWords.Recipe(batch_size=4, steps=2, table_batch_size=4, table_steps=2)
        >>> corpus = Corpus("toy", [f"sentence number {i}" for i in range(8)], documents=[0])
        >>> SimCSEWords(recipe, Runtime()).fit(corpus, run=Run(seed=1)).steps
        2
    """

    def __init__(self, recipe: SimCSEWordsRecipe, runtime: Runtime, backbone: Backbone | None = None) -> None:
        super().__init__(recipe, runtime, backbone)
        vocabulary = token_embeddings(self.backbone.model).num_embeddings
        self.words = GatedTable(vocabulary, self.dim, recipe.gate_rate).to(runtime.device)

    @classmethod
    def traits(cls, recipe: SimCSEWordsRecipe) -> Traits:
        return replace(super().traits(recipe), needs_neighbours=True, training_passes=0.0)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.words(
            input_ids, pooled(self.backbone.model, input_ids, attention_mask, self.pooling)
        )
        return vectors

    def objective(self) -> Objective:
        return SimCSEObjective(GatedPooler(self.backbone.model, self.words), self.recipe)

    def parts(self) -> dict[str, nn.Module]:
        return {**super().parts(), "words": self.words}

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        """Train the table, then the states; the gate stays closed unless a checkpoint has a higher dev score."""
        if corpus is None:
            raise ContractError("simcse-words is trained and needs a corpus; pass --corpus FILE.")
        recipe = self.recipe
        same = {"positives": recipe.table_positives, "steps": recipe.table_steps, "batch_size": recipe.table_batch_size}
        start = StaticContrastiveRecipe(vocabulary=recipe.backbone, dim=self.dim, **same)  # type: ignore[arg-type]
        table = StaticContrastive(start, self.runtime)
        folder = None if run.folder is None else run.folder / "words"
        first = table.fit(corpus, dev_score=dev_score, run=replace(run, folder=folder))
        self.words.begin(table.bag.weight.detach(), self.backbone.tokenizer.all_special_ids)
        facts: dict[str, Any] = {"table_seconds": first.seconds, "table_dev_scores": dict(first.dev_scores)}
        if dev_score is not None:
            with undisturbed(self.words):
                facts["dev_score_at_gate_0"] = score_of(dev_score(self))
        report = super().fit(corpus, dev_score=dev_score, run=run)
        if dev_score is not None and facts["dev_score_at_gate_0"] >= max(report.dev_scores.values()):
            with torch.no_grad():
                self.words.gate.zero_()
        return replace(report, facts={**report.facts, **facts, "gate": recipe.gate_rate * self.words.gate.item()})
