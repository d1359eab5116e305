"""MoCo-BERT and ESimCSE: loss, queue and momentum update in numpy, views as declared."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from released import esimcse_losses
from transformers import AutoModel

from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.dropout import set_dropout
from zoo.methods.moco import MoCo, MoCoObjective
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo.training.loop import train

GOLDEN = {"moco": {"version": 1, "values": [-0.7209, 0.5666, -0.1059, 1.0, 0.3627, -0.041, 0.143, 1.0]}}

WORDS = "cat dog tree house river stone cloud bird".split()
SENTENCES = [f"the {a} sees a {b} near the old {a}" for a in WORDS for b in WORDS if a != b]


def batches(encoder: MoCo, size: int, count: int) -> list[tuple[torch.Tensor, ...]]:
    batch, rows = encoder.training_rows(Corpus("toy", SENTENCES), Run(seed=3))
    assert rows == len(SENTENCES)
    return [batch(np.arange(i * size, (i + 1) * size)) for i in range(count)]


def info_nce(h: np.ndarray, candidates: np.ndarray, temperature: float = 0.05) -> float:
    def unit(x: np.ndarray) -> np.ndarray:
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    logits = unit(h.astype(np.float64)) @ unit(candidates.astype(np.float64)).T / temperature
    return float(np.mean([np.log(np.exp(row).sum()) - row[i] for i, row in enumerate(logits)]))


def test_loss_queue_and_momentum_step_by_step(tiny_bert: Path) -> None:
    """Four steps with batches of 3 and a queue of 8: the third batch no longer fits whole."""
    encoder = MoCo(MoCo.Recipe(backbone=str(tiny_bert), batch_size=3, queue_size=8), Runtime())
    torch.manual_seed(0)
    objective = encoder.objective().eval()
    queue = np.empty((0, encoder.dim))
    for ids, mask, view_ids, view_mask in batches(encoder, 3, 4):
        query, key = objective.query_branch, objective.key_branch
        with torch.no_grad():
            h, keys = query(ids, mask).numpy(), key(view_ids, view_mask).numpy()
            loss = float(objective(ids, mask, view_ids, view_mask))
        queue = np.concatenate([keys, queue])[:8]
        np.testing.assert_allclose(objective.queue.held().numpy(), queue, atol=1e-6)
        assert loss == pytest.approx(info_nce(h, queue), abs=1e-4)
        with torch.no_grad():
            for parameter in query.parameters():
                parameter.add_(0.01)
        wanted = [0.885 * k + 0.115 * q for k, q in zip(key.parameters(), query.parameters(), strict=True)]
        objective.after_step()
        for parameter, value in zip(key.parameters(), wanted, strict=True):
            torch.testing.assert_close(parameter, value)


def test_the_key_encoder_starts_as_a_copy_without_gradient(tiny_bert: Path) -> None:
    objective = MoCoObjective(AutoModel.from_pretrained(tiny_bert), MoCo.Recipe())
    pairs = zip(objective.key_branch.parameters(), objective.query_branch.parameters(), strict=True)
    assert all(torch.equal(k, q) and not k.requires_grad and q.requires_grad for k, q in pairs)


def test_esimcse_positives_have_gradient_extra_keys_are_past(tiny_bert: Path) -> None:
    recipe = MoCo.Recipe(
        backbone=str(tiny_bert), batch_size=3, queue_size=5, positives="query", momentum=0.995, augment=("repeat:0.32",)
    )
    encoder = MoCo(recipe, Runtime())
    torch.manual_seed(0)
    objective = encoder.objective().eval()
    past = np.empty((0, encoder.dim))
    for batch in batches(encoder, 3, 3):
        with torch.no_grad():
            h, h_plus, keys = (v.numpy() for v in objective.embed(*batch))
            loss = float(objective(*batch))
        assert loss == pytest.approx(info_nce(h, np.concatenate([h_plus, past])), abs=1e-4)
        past = np.concatenate([keys, past])[:5]
        np.testing.assert_allclose(objective.queue.held().numpy(), past, atol=1e-6)
    h, h_plus, keys = objective.embed(*batch)
    assert h_plus.requires_grad and not keys.requires_grad


Batches = list[tuple[torch.Tensor, ...]]


def losses_of(encoder: MoCo, objective: MoCoObjective, steps: int) -> tuple[list[float], Batches]:
    """Train for so many steps; return their losses and batches."""
    batch, rows = encoder.training_rows(Corpus("toy", SENTENCES), Run(seed=3))
    given: Batches = []

    def recorded(numbers: Any) -> tuple[torch.Tensor, ...]:
        given.append(batch(numbers))
        return given[-1]

    losses: list[float] = []
    run = Run(seed=3, log_values=lambda _, values: losses.append(values["loss"]))
    settings = dataclasses.replace(encoder.settings(), steps=steps, log_every=1)
    kept = encoder.backbone.model
    train(objective, recorded, rows, settings, runtime=Runtime(), run=run, backbone=kept, dev_score=None)
    return losses, given


RUN_SH = {"momentum": 0.995, "queue_size": 160, "temperature": 0.05, "batch_size": 64, "learning_rate": 3e-5}


@pytest.mark.slow
@pytest.mark.parametrize(("momentum", "temperature", "rate"), [(0.995, 0.05, 3e-5), (0.5, 0.5, 1e-4)])
def test_ten_steps_of_esimcse_repo_lose_as_the_released_code(momentum: float, temperature: float, rate: float) -> None:
    """With its own values, and with those where past keys are near enough to matter in ten steps.

    Dropout is off in both, so that nothing is drawn; the backbone is a pretrained one.
    """
    _, recipe = parse_methods("esimcse-repo:dropout=0.0", all_recipes())[0].resolve()
    assert {key: getattr(recipe, key) for key in RUN_SH} == RUN_SH and recipe.augment == ("repeat-repo:0.32",)
    chosen = {
        "momentum": momentum,
        "temperature": temperature,
        "learning_rate": rate,
        "batch_size": 4,
        "queue_size": 10,
    }

    def trained(**fields: Any) -> tuple[list[float], Batches, tuple[Any, ...]]:
        encoder = MoCo(dataclasses.replace(recipe, **{**chosen, **fields}), Runtime())
        set_dropout(encoder.backbone.model, 0.0)
        torch.manual_seed(0)
        objective = encoder.objective()
        query, key = objective.query_branch, objective.key_branch
        start = copy.deepcopy(key.model)  # as it was before its first move, which the port makes itself
        with torch.no_grad():
            for own, theirs in zip(start.parameters(), query.model.parameters(), strict=True):
                own.copy_((own.double() - (1 - momentum) * theirs.double()) / momentum)
        models = copy.deepcopy((query.model, start, query.mlp))
        return *losses_of(encoder, objective, 10), models

    ours, given, models = trained()
    values = {"momentum": momentum, "temperature": temperature, "rate": rate}
    theirs = esimcse_losses(*models, given, neg_size=10, total=10, **values)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    if momentum == 0.5:
        for field, value in (("key_mlp", "momentum"), ("key_start", "copy"), ("queue_drops", "last")):
            assert np.abs(np.subtract(trained(**{field: value})[0], theirs)).max() > 1e-4, field


def test_keys_without_dropout_are_those_of_evaluation(tiny_bert: Path) -> None:
    for key_dropout in (True, False):
        recipe = MoCo.Recipe(backbone=str(tiny_bert), positives="query", key_dropout=key_dropout)
        encoder = MoCo(recipe, Runtime())
        objective = encoder.objective().train()
        ids, mask, *view = batches(encoder, 8, 1)[0]
        _, h_plus, keys = objective.embed(ids, mask, *view)
        with torch.no_grad():
            still = objective.eval().keys(ids, mask)
        assert torch.allclose(keys, still, atol=1e-6) is not key_dropout
        assert not torch.allclose(h_plus, objective.query_branch(*view), atol=1e-3), "the query's stays on"
        assert objective.train().key_branch.training is key_dropout and objective.query_branch.training


def test_the_control_applies_one_linear_map_twice(tiny_bert: Path) -> None:
    """with a single state, PT-BERT's released attention is V(V(y)), then the MLP."""
    torch.manual_seed(0)
    objective = MoCoObjective(AutoModel.from_pretrained(tiny_bert), MoCo.Recipe(double_linear=True)).eval()
    value, again, mlp = objective.query_branch.mlp
    assert value is again
    ids = torch.tensor([[101, 1037, 2235, 3899, 102]])
    with torch.no_grad():
        y = objective.query_branch.model(ids).last_hidden_state[:, 0]
        wanted = mlp((y @ value.weight.T + value.bias) @ value.weight.T + value.bias)
        torch.testing.assert_close(objective.query_branch(ids, torch.ones_like(ids)), wanted)


def test_only_the_keys_view_is_augmented_and_a_batch_alike(tiny_bert: Path) -> None:
    encoder = MoCo(MoCo.Recipe(backbone=str(tiny_bert), augment=("delete:0.3",), queue_size=64), Runtime())
    ids, mask, view_ids, view_mask = batches(encoder, 8, 1)[0]
    plain = MoCo(MoCo.Recipe(backbone=str(tiny_bert)), Runtime())
    assert torch.equal(ids, batches(plain, 8, 1)[0][0])
    lengths, view_lengths = mask.sum(1) - 2, view_mask.sum(1) - 2
    assert torch.equal(view_lengths, lengths - (0.3 * lengths).long())
    again = batches(encoder, 8, 1)[0]
    assert torch.equal(again[2], view_ids)
    other, _ = encoder.training_rows(Corpus("toy", SENTENCES), Run(seed=4))
    assert not torch.equal(other(np.arange(8))[2], view_ids)


def test_keeps_leave_most_views_as_they_are(tiny_bert: Path) -> None:
    encoder = MoCo(MoCo.Recipe(backbone=str(tiny_bert), augment=("reorder-repo",), keeps=2), Runtime())
    batch, rows = encoder.training_rows(Corpus("toy", SENTENCES), Run(seed=0))
    changed = []
    for start in range(0, rows, 8):
        ids, _, view_ids, _ = batch(np.arange(start, min(start + 8, rows)))
        changed += (ids != view_ids).any(1).tolist()
    assert 0.15 < np.mean(changed) < 0.5  # a third
