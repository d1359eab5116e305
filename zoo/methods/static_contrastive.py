"""A table of token vectors trained by contrast of two pieces of a text."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.encoder import Corpus, DevScore, FitReport, Run, Runtime, Start, Traits
from zoo.engine.backbone import find_backbone
from zoo.engine.tokens import TokenTable, clean_text, sif_weights
from zoo.errors import ContractError
from zoo.methods.bagofwords import BagOfWordsRecipe
from zoo.methods.base import WIDEST, check_at_most, check_in_batch, check_positive
from zoo.methods.static import StaticRecipe
from zoo.methods.token_table import TokenTableEncoder, backbone_table, bags, tokenizer_of, tokenizer_sha256
from zoo.modules.ppmi import ppmi_vectors
from zoo.plugins import register_method
from zoo.recipes import added
from zoo.training.augment import generator
from zoo.training.loop import Objective, train
from zoo.training.losses import info_nce
from zoo.training.positives import NEED_NEIGHBOURS, PositivePairs, Positives
from zoo.training.settings import TrainSettings

# The mean length of rows before they are weighted: Adam's steps do not scale with them.
_ROW_NORM = 0.8


@dataclass(frozen=True, kw_only=True)
class StaticContrastiveRecipe:
    """Start of the table, positives, and training; no paper states them."""

    # Whose token embeddings are the start. None: PPMI vectors of the training text.
    backbone: str | None = None
    revision: str | None = None
    # Whose tokenizer splits the text without a backbone; no weight of it is read.
    vocabulary: str = "zoo-small"
    # None: 256 for PPMI vectors, else the backbone's width. Less: its first directions.
    dim: int | None = None
    ppmi_tokens: int = 6_000_000
    # Rows start with SIF's weight a / (a + p), p counted in the training text. None: with 1.
    a: float | None = 1e-3
    positives: Positives = "mix"
    temperature: float = 0.05
    batch_size: int = 1024
    learning_rate: float = 2e-3
    steps: int = 2000
    train_max_length: int = 64
    eval_every: int = 250
    looks: int | None = added(None)

    def __post_init__(self) -> None:
        numbers = "dim ppmi_tokens a temperature batch_size learning_rate steps train_max_length eval_every looks"
        check_positive(self, *numbers.split())
        check_in_batch(self, "batch_size")
        check_at_most(self, WIDEST, "dim")


class TableObjective(Objective):
    """InfoNCE of the mean rows of two views, as in SimCSE's Eq. 1."""

    def __init__(self, bag: torch.nn.EmbeddingBag, temperature: float) -> None:
        super().__init__()
        self.bag, self.temperature = bag, temperature

    def forward(self, ids: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """Token ids and each text's first place, n first views, then n second -> scalar loss."""
        first, second = self.bag(ids, offsets).chunk(2)
        return info_nce(first, second, self.temperature)


@register_method("static-contrastive")
class StaticContrastive(TokenTableEncoder[StaticContrastiveRecipe]):
    """Static token vectors trained by contrast, from plain text alone or from a backbone's token embeddings.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = StaticContrastive(StaticContrastive.Recipe(batch_size=4, steps=2, dim=8), Runtime())
        >>> corpus = Corpus("toy", [f"sentence number {i}" for i in range(8)], documents=[0])
        >>> encoder.fit(corpus, run=Run(seed=1)).steps
        2
    """

    def __init__(self, recipe: StaticContrastiveRecipe, runtime: Runtime) -> None:
        if recipe.backbone is None:
            tokenizer = tokenizer_of(find_backbone(recipe.vocabulary))
            size = tokenizer.get_vocab_size(), recipe.dim or 256
            vectors = torch.from_numpy(np.random.default_rng(0).normal(size=size))
        else:
            tokenizer, vectors = backbone_table(recipe.backbone, recipe.revision, recipe.dim, runtime)
            vectors = vectors * (_ROW_NORM / vectors.norm(dim=1).mean())
        super().__init__(recipe, runtime, tokenizer, vectors)

    @classmethod
    def traits(cls, recipe: StaticContrastiveRecipe) -> Traits:
        """Most positives need neighbours; float32 under any --precision."""
        always = Traits(needs_corpus=True, stochastic=True, picks_checkpoint=True, exports=True, precision="fp32")
        return replace(always, needs_neighbours=recipe.positives in NEED_NEIGHBOURS)

    @classmethod
    def start(cls, recipe: StaticContrastiveRecipe) -> Start | None:
        """Mean of the backbone's token embeddings; from plain text, distinct vectors for tokens."""
        if recipe.backbone is None:
            return Start("bag-of-words", BagOfWordsRecipe())
        return Start("static", StaticRecipe(backbone=recipe.backbone, revision=recipe.revision))

    @classmethod
    def sources(cls, recipe: StaticContrastiveRecipe, runtime: Runtime) -> dict[str, Any]:
        if recipe.backbone is None:
            tokenizer = tokenizer_of(find_backbone(recipe.vocabulary))
            return {"vocabulary": {"name": recipe.vocabulary, "sha256": tokenizer_sha256(tokenizer)}}
        return {"backbone": find_backbone(recipe.backbone, recipe.revision).identity()}

    def initial_table(self, ids: NDArray[np.int32], seed: int) -> torch.Tensor:
        """Table (vocabulary, dim) before training: PPMI or the backbone's vectors, times SIF's weights."""
        vectors = self.bag.weight.detach().cpu()
        if self.recipe.backbone is None:
            counted = ids[: self.recipe.ppmi_tokens]
            vectors = torch.from_numpy(ppmi_vectors(counted, len(vectors), self.dim, seed=seed, row_norm=_ROW_NORM))
        return vectors if self.recipe.a is None else vectors * sif_weights(ids, len(vectors), self.recipe.a)[:, None]

    def fit(self, corpus: Corpus | None, *, dev_score: DevScore | None = None, run: Run) -> FitReport:
        if corpus is None:
            raise ContractError("static-contrastive is trained and needs a corpus; pass --corpus FILE.")
        recipe, started = self.recipe, time.perf_counter()
        torch.manual_seed(run.seed)
        table = self.tokens.table([clean_text(text, i) for i, text in enumerate(corpus.sentences)])
        pairs = PositivePairs(corpus, table.first(recipe.train_max_length), recipe.positives)
        self.use(self.initial_table(table.ids, run.seed))

        def collate(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            views = pairs.views(pairs.rows[rows], generator(run.seed, int(rows[0])))
            return bags(TokenTable.joined(views))

        read = ("batch_size", "learning_rate", "steps", "eval_every", "looks")
        same = {name: getattr(recipe, name) for name in read}
        # Adam scales the steps, so nothing is clipped.
        settings = TrainSettings(epochs=1, max_grad_norm=float("inf"), **same)
        before = round(time.perf_counter() - started, 1)
        report = train(
            TableObjective(self.bag, recipe.temperature),
            collate,
            len(pairs.rows),
            settings,
            runtime=self.runtime,
            run=run,
            backbone=self.bag,
            dev_score=None if dev_score is None else lambda: dev_score(self),
        )
        return replace(report, facts={"seconds_before_training": before})
