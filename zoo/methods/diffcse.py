"""DiffCSE (Chuang et al. 2022)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import torch
import torch.nn.functional as F
from torch import nn

from zoo.encoder import Runtime, Traits
from zoo.engine.backbone import Backbone, find_backbone
from zoo.engine.batching import changed
from zoo.engine.heads import mlm_head
from zoo.engine.needs import Need
from zoo.engine.states import added_mask, packable, token_states
from zoo.errors import UsageError
from zoo.methods.contrastive import ContrastiveRecipe
from zoo.methods.dropoutviews import DropoutViews, DropoutViewsObjective
from zoo.modules.pooler import TrainedPooler
from zoo.plugins import register_method
from zoo.training.loop import Objective
from zoo.training.losses import mask_some

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# The modules after which an embedded token is as wide as a state: ELECTRA and ALBERT widen narrower embeddings.
EMBEDDED = ("embeddings_project", "encoder.embedding_hidden_mapping_in", "embeddings")


@dataclass(frozen=True, kw_only=True)
class DiffCSERecipe(ContrastiveRecipe):
    """Defaults of the released run_diffcse.sh (BERT-base, STS)."""

    # A masked language model with the same tokens. None: the backbone as it was.
    generator: str | None = None
    masked: float = 0.3
    # lambda.
    detection_weight: float = 0.005
    # True, as in the code: padding counts as tokens that were not replaced.
    counts_padding: bool = False
    generator_dropout: bool = False
    learning_rate: float = 7e-6
    epochs: int = 2
    eval_every: int = 125

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.masked < 1 or self.detection_weight < 0:
            raise ValueError("masked must be between 0 and 1, and detection_weight not below 0")
        if self.pooler != "cls" or not self.mlp_only_train:
            raise ValueError("the projector is for pooler: cls in training alone; leave pooler and mlp_only_train out")


class Projector(nn.Sequential):
    """Linear(d, 2d), batch normalisation, ReLU, Linear(2d, d), another without weights: (n, d) -> (n, d)."""

    def __init__(self, dim: int, initializer_range: float) -> None:
        up, down = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(2 * dim, dim, bias=False)
        super().__init__(up, nn.BatchNorm1d(2 * dim), nn.ReLU(), down, nn.BatchNorm1d(dim, affine=False))
        for layer in (up, down):
            nn.init.normal_(layer.weight, std=initializer_range)


class Generator(nn.Module):
    """Ids and mask (n, length) -> likeliest tokens (n, length), without gradient."""

    def __init__(self, model: PreTrainedModel, head: nn.Module, *, dropout: bool) -> None:
        super().__init__()
        self.model, self.head, self.dropout = model, head, dropout
        self.requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        """Without `dropout` it stays in eval mode."""
        return super().train(mode and self.dropout)

    @torch.no_grad()
    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        tokens: torch.Tensor = self.head(token_states(self.model, input_ids, attention_mask)[0]).argmax(-1)
        return tokens


class DiffCSEObjective(DropoutViewsObjective):
    """SimCSE's loss + lambda * cross-entropy of "was this token replaced?" over the tokens of both views."""

    recipe: DiffCSERecipe

    def __init__(self, pooler: TrainedPooler, recipe: DiffCSERecipe, generator: Generator, tokenizer: Any) -> None:
        super().__init__(pooler, recipe)
        self.generator = generator
        self.discriminator = copy.deepcopy(pooler.model)
        self.head = nn.Linear(pooler.model.config.hidden_size, 2)
        self.mask_id = int(tokenizer.mask_token_id)
        self.register_buffer("special_ids", torch.tensor(sorted(set(tokenizer.all_special_ids))), persistent=False)

    def masked(self, ids: torch.Tensor) -> torch.Tensor:
        vocabulary, special = int(self.discriminator.config.vocab_size), self.special_ids
        assert isinstance(special, torch.Tensor)
        return mask_some(ids, self.recipe.masked, mask_id=self.mask_id, special_ids=special, vocabulary=vocabulary)[0]

    def embed(self, *collated: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids and mask (n, length) -> two views (n, dim), and sum and count of the detection's losses (n, 2)."""
        views = super().embed(*collated)
        ids, mask = (changed(part, lambda rows: rows.repeat_interleave(2, 0)) for part in collated[:2])
        vectors = torch.stack(views, dim=1).flatten(0, 1)
        filled = self.generator(self.masked(ids), mask)
        # The vector takes the place of [CLS].
        filled[:, 0] = ids[:, 0]
        replaced = ((filled != ids) & (mask == 1)).long()

        def with_vector(module: nn.Module, given: object, output: torch.Tensor) -> torch.Tensor:
            return torch.cat([vectors.to(output.dtype).unsqueeze(1), output[:, 1:]], dim=1)

        modules = dict(self.discriminator.named_modules())
        attended = mask
        if mask.device.type != "cpu" and packable(self.discriminator):
            attended = added_mask(mask, mask.shape[1])
        hook = next(modules[name] for name in EMBEDDED if name in modules).register_forward_hook(with_vector)
        try:
            # The model's own forward: the code counts padding, whose states the engine does not compute.
            states = self.discriminator(input_ids=filled * mask, attention_mask=attended).last_hidden_state
        finally:
            hook.remove()
        losses = F.cross_entropy(self.head(states).float().transpose(1, 2), replaced, reduction="none")
        counted = torch.ones_like(mask) if self.recipe.counts_padding else mask
        sums = torch.stack([(losses * counted).sum(1), counted.sum(1).to(losses.dtype)], dim=1)
        return *views, sums.view(-1, 2, 2).sum(1)

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        total, count = others[0].sum(0)
        loss: torch.Tensor = super().contrast(h, h_plus) + self.recipe.detection_weight * total / count
        return loss


@register_method("diffcse")
class DiffCSE(DropoutViews[DiffCSERecipe]):
    """DiffCSE: SimCSE with a vector that also shows a generator's edits; at evaluation [CLS].

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = DiffCSE(DiffCSE.Recipe(batch_size=4, epochs=1), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    def new_head(self) -> nn.Module:
        return Projector(self.dim, self.backbone.model.config.initializer_range)

    def objective(self) -> Objective:
        """Both losses; raises UsageError for a generator of other tokens."""
        recipe, start = self.recipe, self.backbone
        backbone = start if recipe.generator is None else Backbone.load(recipe.generator, None, self.runtime)
        if backbone.tokenizer.get_vocab() != start.tokenizer.get_vocab():
            raise UsageError(f"diffcse: the generator {recipe.generator!r} has other tokens than the backbone.")
        head = mlm_head(backbone.source, self.runtime)
        generator = Generator(copy.deepcopy(backbone.model), head, dropout=recipe.generator_dropout)
        pooler = TrainedPooler(start.model, recipe.pooler, self.new_head())
        return DiffCSEObjective(pooler, recipe, generator, start.tokenizer)

    @classmethod
    def needs(cls, recipe: DiffCSERecipe) -> frozenset[Need]:
        return super().needs(recipe) | {"mask token", "MLM head"}

    @classmethod
    def traits(cls, recipe: DiffCSERecipe) -> Traits:
        """Passes: two views, two of the discriminator, two of the generator at a third of the cost."""
        return replace(super().traits(recipe), training_passes=4.67 * recipe.epochs)

    @classmethod
    def sources(cls, recipe: DiffCSERecipe, runtime: Runtime) -> dict[str, Any]:
        sources = super().sources(recipe, runtime)
        if recipe.generator is None:
            return sources
        return {**sources, "generator": find_backbone(recipe.generator, None).identity()}
