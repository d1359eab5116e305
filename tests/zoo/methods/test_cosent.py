"""CoSENT, AnglE and Matryoshka: their losses by hand, their pairs, nested vectors; ten steps are in test_loss_ports."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_loss_ports import angle_in_batch

from zoo.encoder import Corpus, Runtime
from zoo.errors import ContractError, TrainingError, UsageError
from zoo.methods.angle import angle_similarity, in_batch_loss
from zoo.methods.cosent import graded_rows
from zoo.methods.matryoshka import Matryoshka
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo.training.losses import ranking_loss

GOLDEN = {
    "angle": {"version": 2, "values": [-1.0, 0.5938, -0.5246, -0.2163, 1.0, -0.45, -0.2037, 0.4714]},
    "cosent": {"version": 2, "values": [-1.0, 0.57, -0.5093, -0.2455, 0.0533, 0.1946, -0.3561, -1.0]},
    "matryoshka": {"version": 2, "values": [0.0791, 0.3416, -1.0, -0.0182, 1.0, -0.2361, -0.2479, -0.1714]},
}

ROOT = Path(__file__).parents[3]
WORDS = "cat dog tree house river stone cloud bird".split()
SENTENCES = [f"the {a} sees a {b} near the {a}" for a in WORDS for b in WORDS]
NLI = Corpus("nli", SENTENCES, ["entailment", "neutral", "contradiction", "entailment"] * 8)


def encoder_of(name: str, folder: Path, **fields: Any) -> Any:
    cls, recipe = parse_methods(name, all_recipes())[0].resolve()
    fields = {"batch_size": 8, "learning_rate": 1e-3, "accumulate": 1, "backbone": str(folder), **fields}
    return cls(dataclasses.replace(recipe, **fields), Runtime())


def test_the_losses_by_hand() -> None:
    """Two pairs in the wrong order by 0.1: log(1 + e^2); equal grades lose nothing."""
    cosines, grades = torch.tensor([0.5, 0.4]), torch.tensor([0.0, 1.0])
    assert float(ranking_loss(cosines, grades, 0.05)) == pytest.approx(np.log(1 + np.exp(2.0)), abs=1e-6)
    assert float(ranking_loss(cosines, torch.ones(2), 0.05)) == 0
    z, w = np.array([1 + 2j, 3 - 1j]), np.array([2 - 1j, 1 + 1j])
    quotient = (z * w.conj()).sum() / np.linalg.norm(w) / np.linalg.norm(z)
    u, v = (torch.tensor(np.concatenate([x.real, x.imag]))[None] for x in (z, w))
    assert float(angle_similarity(u, v)) == pytest.approx(abs(quotient.real + quotient.imag))
    same = torch.eye(4)[:2]
    assert float(in_batch_loss(same, same, torch.tensor([1.0, 0.5]), 0.05)) == pytest.approx(0.0, abs=1e-6)


def test_scores_from_0_to_5_as_in_the_released_code() -> None:
    """The figures that angle.yaml states; for scores 0 and 1 both losses are equal."""
    rows = torch.randn(16, 16, generator=torch.Generator().manual_seed(0))
    rows[1::2] = rows[::2] + 0.7 * rows[1::2]
    scores = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 5.0, 2.5])
    ours = [in_batch_loss(rows[::2], rows[1::2], grades, 0.05) for grades in (scores / 5, (scores >= 4).float())]
    theirs = angle_in_batch(rows, scores), angle_in_batch(rows, (scores >= 4).float())
    assert (round(float(theirs[0]), 3), round(float(ours[0]), 3)) == (8.957, 0.001)
    torch.testing.assert_close(ours[1], theirs[1])
    text = (ROOT / "configs" / "methods" / "angle.yaml").read_text(encoding="utf-8")
    assert "8.957 there, 0.001 here" in text


def test_the_library_s_angle_similarity() -> None:
    util = pytest.importorskip("sentence_transformers.util")
    u, v = torch.randn(6, 8), torch.randn(6, 8)
    torch.testing.assert_close(angle_similarity(u, v), util.pairwise_angle_sim(u, v))


def test_grades_come_from_scores_or_labels() -> None:
    rows, grades = graded_rows(Corpus("x", ["a"] * 6, scores=[5.0, 0.0, 2.5]), None)
    assert rows.tolist() == [0, 1, 2] and grades.tolist() == [1.0, 0.0, 0.5]
    rows, grades = graded_rows(NLI, None)
    assert rows.tolist()[:3] == [0, 2, 3] and grades.tolist()[:3] == [1.0, 0.0, 1.0]
    assert graded_rows(NLI, 0.25)[1].tolist()[:4] == [1.0, 0.25, 0.0, 1.0]
    with pytest.raises(ContractError, match="--pairs STSBenchmark or nli"):
        graded_rows(Corpus("x", ["a"] * 6), 0.5)
    with pytest.raises(TrainingError, match="fewer than two different"):
        graded_rows(Corpus("x", ["a"] * 6, scores=[1.0, 1.0, 1.0]), None)


def test_a_nested_vector_is_the_start_of_the_whole_one(tiny_bert: Path) -> None:
    full, cut = (encoder_of("matryoshka", tiny_bert, width=width) for width in (None, 8))
    assert cut.dim == 8 and Matryoshka.traits(full.recipe).exports and not Matryoshka.traits(cut.recipe).exports
    np.testing.assert_array_equal(cut.encode(SENTENCES[:3]), full.encode(SENTENCES[:3])[:, :8])
    with pytest.raises(UsageError, match="width 64 is more than the 32 dimensions"):
        encoder_of("matryoshka", tiny_bert, width=64)
    with pytest.raises(ValueError, match="shares of the dimensions"):
        Matryoshka.Recipe(nested=(2.0,))


@pytest.mark.parametrize(("stated", "steps"), [(100, 4), (5, 4), (3, 3)])
def test_a_warm_up_takes_at_most_half_of_the_steps(stated: int, steps: int, tiny_bert: Path) -> None:
    """Ten pairs in batches of four, three times: nine steps."""
    encoder = encoder_of("cosent", tiny_bert, batch_size=4, epochs=3, warmup_steps=stated)
    encoder.rows = 10
    assert encoder.settings().warmup_steps == steps
