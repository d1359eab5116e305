"""SimCSE++, MixCSE and RankCSE: their losses by hand, negatives without dropout, teachers."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import UsageError
from zoo.methods.rankcse import RankCSE, disagreement, list_mle, list_net
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

GOLDEN = {
    "mixcse": {"version": 2, "values": [-1.0, 0.5436, -0.3705, 0.0946, 0.5682, -0.2811, 0.1307, 1.0]},
    "rankcse": {"version": 2, "values": [-1.0, 0.5341, -0.5157, 0.2601, 0.9546, -0.4574, -0.1941, 1.0]},
    "simcse-plus-plus": {"version": 2, "values": [-1.0, 0.5268, -0.4563, 0.1273, 0.7511, -0.0969, -0.2756, 1.0]},
}

WORDS = "cat dog tree house river stone cloud bird".split()
CORPUS = Corpus("toy", [f"the {a} sees a {b} near the {a}" for a in WORDS for b in WORDS])


def encoder_of(name: str, folder: Path, **fields: Any) -> Any:
    cls, recipe = parse_methods(name, all_recipes())[0].resolve({"backbone": str(folder)})
    fields = {"batch_size": 8, "learning_rate": 1e-3, **fields}
    return cls(dataclasses.replace(recipe, **fields), Runtime())


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
