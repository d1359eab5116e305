"""PromCSE (Jiang et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING

import torch
from torch import nn

from zoo.encoder import Traits
from zoo.engine.backbone import Backbone
from zoo.engine.dropout import set_dropout
from zoo.engine.model_folder import other_tensors
from zoo.engine.states import added_mask, packable
from zoo.errors import UsageError
from zoo.methods.base import check_positive
from zoo.methods.contrastive import ContrastiveRecipe
from zoo.methods.dropoutviews import DropoutViews, DropoutViewsObjective
from zoo.modules.pooler import TrainedPooler
from zoo.plugins import register_method
from zoo.training.loop import Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class PromCSERecipe(ContrastiveRecipe):
    """Defaults of the released script for BERT-base (YJiangcm/PromCSE@4b31938, run_unsup_example.sh)."""

    prefix: int = 16
    batch_size: int = 256
    learning_rate: float = 3e-2
    eval_every: int = 125

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "prefix")
        if self.pooler != "cls" or not self.mlp_only_train:
            raise ValueError("the vector is [CLS], with the MLP in training alone; leave pooler and mlp_only_train out")


class Prefix(nn.Module):
    """Keys and values of each layer (layers, 2, heads, prefix, dim / heads), trained freely, with dropout."""

    def __init__(self, model: PreTrainedModel, length: int) -> None:
        super().__init__()
        config = model.config
        self.layers, self.heads, self.length = config.num_hidden_layers, config.num_attention_heads, length
        self.embedding = nn.Embedding(length, 2 * config.num_hidden_layers * config.hidden_size)
        nn.init.normal_(self.embedding.weight, std=config.initializer_range)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, rows: int) -> torch.Tensor:
        """Keys and values (layers, 2, rows, heads, length, dim / heads)."""
        drawn = self.embedding.weight.expand(rows, -1, -1).view(rows, self.length, self.layers, 2, self.heads, -1)
        dropped: torch.Tensor = self.dropout(drawn)
        return dropped.permute(2, 3, 0, 4, 1, 5)


def released_prefix(backbone: Backbone, *, allow_pickle: bool) -> Prefix | None:
    """The prefix in a checkpoint of PromCSE's code, or None."""
    name = "prefix_encoder.embedding.weight"
    weight = other_tensors(backbone.source.folder, name, allow_pickle=allow_pickle).get(name)
    if weight is None:
        return None
    prefix = Prefix(backbone.model, len(weight)).to(backbone.model.device)
    prefix.embedding.load_state_dict({"weight": weight})
    return prefix.eval().requires_grad_(False)


class PrefixPooler(TrainedPooler):
    """Ids and mask (n, length) -> [CLS] after the MLP (n, dim), the prefix before the tokens."""

    def __init__(self, model: PreTrainedModel, prefix: nn.Module, mlp: nn.Module | None) -> None:
        super().__init__(model, "cls" if mlp is None else "cls_before_pooler")
        self.prefix = prefix
        self.mlp = self.mlp if mlp is None else mlp

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Token positions follow the prefix's, as in the released code."""
        from transformers import DynamicCache

        cache = DynamicCache()
        prefix = self.prefix(len(input_ids))
        for layer, (keys, values) in enumerate(prefix):
            cache.update(keys, values, layer)
        mask = torch.cat([attention_mask.new_ones(len(input_ids), prefix.shape[4]), attention_mask], dim=1)
        # The model makes no mask of its own for a cache.
        wide = added_mask(mask, input_ids.shape[1])
        # The argument has another name from transformers 5.24 on.
        named = "cache" if "cache" in signature(self.model.forward).parameters else "past_key_values"
        states = self.model(input_ids=input_ids, attention_mask=wide, **{named: cache}).last_hidden_state
        vectors: torch.Tensor = self.mlp(states[:, 0])
        return vectors


@register_method("promcse")
class PromCSE(DropoutViews[PromCSERecipe]):
    """PromCSE: a trained prefix in each layer of a frozen backbone; at evaluation [CLS] with the prefix.

    Examples:
        >>> from zoo import Corpus, Run, Runtime
        >>> encoder = PromCSE(PromCSE.Recipe(batch_size=4), Runtime())
        >>> encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1)).steps
        2
    """

    def new_parts(self) -> nn.ModuleDict:
        """A new prefix; raises UsageError for a backbone with layers that take none."""
        if not packable(self.backbone.model):
            raise UsageError(f"promcse: backbone {self.backbone.source.name!r} is no BERT or RoBERTa; use one.")
        return nn.ModuleDict({"prefix": Prefix(self.backbone.model, self.recipe.prefix)})

    @property
    def length_limit(self) -> int:
        """The prefix takes positions of the text."""
        return min(super().length_limit, self.positions)

    @property
    def positions(self) -> int:
        return self.backbone.max_length - self.recipe.prefix

    def objective(self) -> Objective:
        set_dropout(self.drawn, self.recipe.dropout)
        self.backbone.model.requires_grad_(False)
        return DropoutViewsObjective(PrefixPooler(self.backbone.model, self.drawn["prefix"], None), self.recipe)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        pooler = PrefixPooler(self.backbone.model, self.drawn["prefix"], nn.Identity())
        vectors: torch.Tensor = pooler(input_ids, attention_mask)
        return vectors.float()

    @classmethod
    def traits(cls, recipe: PromCSERecipe) -> Traits:
        """No `exports`: sentence-transformers has no module for prefixes."""
        return replace(super().traits(recipe), exports=False)
