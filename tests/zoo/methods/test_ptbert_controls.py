"""PT-BERT beside MoCo-BERT and its controls: what is left of it without its two maps, and what biases change."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_ptbert import batch

from zoo.encoder import Run, Runtime
from zoo.methods.ptbert import PTBertObjective
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo.training.loop import train

RECIPES = all_recipes()


def ten_steps(folder: Path, text: str) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Train ten steps of a recipe, dropout of the backbone on, and return the losses and the backbone's weights.

    The MLP starts alike for all recipes, and PT-BERT's two maps are the identity and are not trained.
    """
    cls, recipe = parse_methods(f"{text}:learning_rate=1e-3:batch_size=4:queue_size=12", RECIPES)[0].resolve(
        {"backbone": str(folder)}
    )
    encoder: Any = cls(recipe, Runtime())
    encoder.rows = 40
    objective = encoder.objective().train()
    for branch in (objective.query_branch, objective.key_branch):
        with torch.no_grad():
            weight = branch.mlp.dense.weight
            weight.copy_(torch.eye(len(weight)) + 0.1)
            branch.mlp.dense.bias.zero_()
            if isinstance(objective, PTBertObjective):
                branch.attention.value.weight.copy_(torch.eye(len(weight)))
                branch.attention.value.bias.zero_()
                branch.attention.requires_grad_(False)
    losses: list[float] = []
    settings = dataclasses.replace(encoder.settings(), steps=10, log_every=1)
    run = Run(seed=3, log_values=lambda _, values: losses.append(values["loss"]))
    model, rows = encoder.backbone.model, batch(40) if isinstance(objective, PTBertObjective) else batch(40) * 2
    torch.manual_seed(0)
    collate = lambda numbers: tuple(part[numbers] for part in rows)  # noqa: E731
    train(objective, collate, 40, settings, runtime=Runtime(), run=run, backbone=model, dev_score=None)
    return losses, model.state_dict()


@pytest.mark.parametrize("changes", ["", ":temperature=0.5:pseudo_tokens=7", ":momentum=0.5:dropout=0.3"])
def test_without_its_two_maps_it_is_moco(tiny_bert: Path, changes: str) -> None:
    """Section 4.4: MoCo-BERT is PT-BERT without pseudo tokens. Equal but for float32's rounding; the defaults agree.

    Each of the ten steps rounds once. A weight whose gradient is rounding alone may differ by a step, which is 1e-3.
    """
    rounding = 10 * torch.finfo(torch.float32).eps
    ours, weights = ten_steps(tiny_bert, f"ptbert:attention_dropout=0.0{changes}")
    losses, others = ten_steps(tiny_bert, f"moco{changes}".replace(":pseudo_tokens=7", ""))
    assert len(ours) == 10 and max(ours) - min(ours) > 1e-3
    np.testing.assert_allclose(ours, losses, rtol=5 * rounding)
    for name, weight in weights.items():
        if not name.endswith("key.bias"):  # its gradient is 0 but for rounding, which Adam makes a step of
            gap = (weight - others[name]).abs()
            assert float(gap.median()) <= rounding and float(gap.max()) < 1e-3, name
    a, b = (RECIPES[one].resolve()[1] for one in ("ptbert", "moco"))
    shared = {f.name for f in dataclasses.fields(a)} & {f.name for f in dataclasses.fields(b)}
    assert {name for name in shared if getattr(a, name) != getattr(b, name)} == set()


def first_loss(folder: Path, text: str) -> float:
    """Return the loss of a batch, dropout off, with V(y) = 0.5 y and no bias, or a bias of ones where V has one."""
    cls, recipe = parse_methods(f"{text}:batch_size=6:queue_size=12", RECIPES)[0].resolve({"backbone": str(folder)})
    encoder: Any = cls(recipe, Runtime())
    torch.manual_seed(2)
    objective = encoder.objective().eval()
    for branch in (objective.query_branch, objective.key_branch):
        value = branch.attention.value if isinstance(objective, PTBertObjective) else branch.mlp[0]
        with torch.no_grad():
            value.weight.copy_(0.5 * torch.eye(len(value.weight)))
            if value.bias is not None:
                value.bias.fill_(1.0)
            if isinstance(objective, PTBertObjective):
                branch.attention.query.weight.zero_()  # uniform attention
    ids, mask = batch()
    with torch.no_grad():
        return float(
            objective(ids, mask) if isinstance(objective, PTBertObjective) else objective(ids, mask, ids, mask)
        )


def test_the_control_has_biases_where_its_form_has(tiny_bert: Path) -> None:
    """With uniform attention `ptbert-tokens` on the mean is the control without biases; with them it is not."""
    form = first_loss(tiny_bert, "ptbert-tokens-avg:pool=mean")
    assert first_loss(tiny_bert, "moco-2linear-avg") == pytest.approx(
        form, rel=32 * torch.finfo(torch.float32).eps, abs=1e-6
    )
    assert abs(first_loss(tiny_bert, "moco-2linear-avg-biases") - form) > 1e-3
