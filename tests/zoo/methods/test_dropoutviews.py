"""SimCSE++, MixCSE and RankCSE: ten steps beside ports of their released losses, and their losses by hand."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from ten_steps import cls_vectors, losses_beside

from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import UsageError
from zoo.methods.rankcse import RankCSE, disagreement, list_mle, list_net
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

GOLDEN = {
    "mixcse": {"version": 1, "values": [-0.7129, 0.5679, -0.1223, 1.0, 0.3934, -0.0513, 0.1506, 1.0]},
    "rankcse": {"version": 1, "values": [-0.7304, 0.5753, -0.1199, 1.0, 0.3887, -0.0502, 0.1558, 1.0]},
    "simcse-plus-plus": {"version": 1, "values": [-0.7184, 0.5722, -0.1274, 1.0, 0.396, -0.0503, 0.1468, 1.0]},
}

WORDS = "cat dog tree house river stone cloud bird".split()
CORPUS = Corpus("toy", [f"the {a} sees a {b} near the {a}" for a in WORDS for b in WORDS])


def encoder_of(name: str, folder: Path, **fields: Any) -> Any:
    cls, recipe = parse_methods(name, all_recipes())[0].resolve({"backbone": str(folder)})
    fields = {"batch_size": 8, "learning_rate": 1e-3, **fields}
    return cls(dataclasses.replace(recipe, **fields), Runtime())


def vectors(objective: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """[CLS] after the MLP; without dropout both views are this."""
    out: torch.Tensor = torch.tanh(objective.pooler.mlp.dense(cls_vectors(objective.pooler.model, ids, mask)))
    return out


def cosines(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cosine_similarity(x.unsqueeze(1), y.unsqueeze(0), dim=-1)


def plus_plus(objective: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Off-dropout negatives: a diagonal of log(1e-45) instead of leaving it out; the covariance over n and 5."""
    recipe, z = objective.recipe, vectors(objective, ids, mask)
    positives = recipe.positive_weight * F.cosine_similarity(z, z) / 0.05
    others = cosines(z, z) / 0.05 + torch.eye(len(z)) * float(np.log(1e-45))
    loss = (torch.logsumexp(torch.cat([others, positives.unsqueeze(-1)], -1), -1) - positives).mean()
    if recipe.dimension_weight:
        unit = (z - z.mean(0)) / torch.sqrt(z.var(0, unbiased=False) + 1e-5)
        covariance = unit.T @ unit / len(z) / recipe.dimension_temperature
        loss = loss + 0.1 * (torch.logsumexp(covariance, -1) - torch.diagonal(covariance)).mean()
    return loss


@pytest.mark.parametrize("name", ["simcse-plus-plus", "simcse-off-dropout", "simcse-dcl"])
def test_ten_steps_lose_as_the_released_code(name: str, vivid_bert: Path) -> None:
    ours, theirs = losses_beside(encoder_of(name, vivid_bert), CORPUS, plus_plus)
    assert max(theirs) - min(theirs) > 0.01
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_the_contrast_of_dimensions_alone(tiny_bert: Path) -> None:
    recipe = encoder_of("simcse-dcl", tiny_bert).recipe
    assert (recipe.off_dropout, recipe.dimension_temperature, recipe.dimension_weight) == (False, 10.0, 0.1)
    objective = encoder_of("simcse-dcl", tiny_bert, dropout=0.0).objective()
    ids, mask = torch.randint(1000, 2000, (6, 5)), torch.ones(6, 5, dtype=torch.long)
    torch.testing.assert_close(objective(ids, mask), plus_plus(objective, ids, mask), rtol=0, atol=1e-5)


def test_negatives_without_dropout_are_those_of_evaluation(tiny_bert: Path) -> None:
    objective = encoder_of("simcse-plus-plus", tiny_bert).objective().train()
    ids, mask = torch.randint(1000, 2000, (4, 6)), torch.ones(4, 6, dtype=torch.long)
    first, second, without = objective.embed(ids, mask)
    assert not torch.allclose(first, second) and objective.pooler.training and without.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(without, objective.eval().pooler(ids, mask))


def test_a_paper_s_mixture_is_one_negative_more(tiny_bert: Path) -> None:
    objective = encoder_of("mixcse", tiny_bert).objective()
    h, h_plus = (F.normalize(torch.randn(3, 4), dim=-1) for _ in range(2))
    mixture = F.normalize(0.2 * h_plus + 0.8 * h_plus[[1, 2, 0]], dim=-1)
    logits = torch.cat([h @ h_plus.T, (h * mixture).sum(1, keepdim=True)], 1).numpy() / 0.05
    wanted = np.mean([np.log(np.exp(row).sum()) - row[i] for i, row in enumerate(logits.astype(np.float64))])
    assert float(objective.contrast(h, h_plus)) == pytest.approx(wanted, abs=1e-4)


def test_rankings_by_hand() -> None:
    """The slip of the divergence as issue 44 states it in kind: negative where the divergence is positive."""
    p, q = torch.tensor([[0.9, 0.1]]), torch.tensor([[0.1, 0.9]])
    js = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
    entropy = 0.9 * np.log(0.9) + 0.1 * np.log(0.1)
    assert float(disagreement(p, q, clamped=False)) == pytest.approx(js, abs=1e-6)
    assert float(disagreement(p, q, clamped=True)) == pytest.approx(entropy, abs=1e-5) and entropy < 0 < js
    student, teacher = torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([[0.0, 5.0, 7.0]])
    e = np.exp([2.0, 3.0, 1.0])  # in the teacher's order
    likelihood = e[0] / e.sum() * e[1] / e[1:].sum()
    assert float(list_mle(student, teacher)) == pytest.approx(-np.log(likelihood), abs=1e-5)
    low = torch.tensor([[0.0, 40.0]])  # the worse one first: the last tail is e^-40 of the largest
    assert float(list_mle(low, torch.tensor([[0.0, 1.0]]), 1e-7)) == pytest.approx(40 + math.log(1e-7), abs=1e-3)
    assert float(list_net(torch.zeros(3, 3), torch.randn(3, 3))) == pytest.approx(np.log(2), abs=1e-6)


def test_teachers_are_trained_first(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = encoder_of("rankcse", tiny_bert, teachers=("simcse:batch_size=16", "avg-last"), batch_size=16)
    report = encoder.fit(CORPUS, run=Run(tmp_path, seed=1))
    assert report.steps == 4 and (tmp_path / "teacher-0").is_dir() and not encoder.vectors
    sources = RankCSE.sources(encoder.recipe, Runtime())
    assert [sources[f"teacher-{i}"]["method"] for i in range(2)] == ["simcse", "avg"]
    passes = RankCSE.traits(encoder.recipe).training_passes
    assert passes == pytest.approx(2 + 2 + 2 / 3)
    with pytest.raises(UsageError, match="has teachers itself"):
        RankCSE.traits(dataclasses.replace(encoder.recipe, teachers=("rankcse",)))
