"""The formula of a training's memory against what autograd keeps and what weights and Adam hold."""

from __future__ import annotations

from pathlib import Path

import torch

from zoo.encoder import Runtime
from zoo.methods.simcse import SimCSE
from zoo.training.graphs import needed
from zoo.training.optimizers import make_optimizer


def test_the_formula_is_near_what_a_batch_keeps(tiny_bert: Path) -> None:
    encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_bert), batch_size=8, train_max_length=64), Runtime())
    settings, objective = encoder.settings(), encoder.objective().train()
    named = list(objective.named_parameters())
    optimizer = make_optimizer(named, settings)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, torch.nn.Parameter) and tensor.dim() < 4:  # fused attention keeps no scores
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    ids, mask = torch.full((8, 1, 64), 7), torch.ones(8, 1, 64, dtype=torch.int64)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        objective(ids, mask)
    fixed, batch = needed(objective, optimizer, settings.tokens, "fp32")
    assert settings.tokens == 2 * ids.numel()
    assert 0.6 < sum(kept.values()) / 1e9 / batch < 1.4
    assert abs(fixed * 1e9 - 16 * sum(p.numel() for _, p in named)) < 1e6
