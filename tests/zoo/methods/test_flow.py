"""BERT-flow: the likelihood rises, its loss is in bits, and each task of a target flow has the run's seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.encoder import Corpus, FitReport, Run, Runtime
from zoo.methods.flow import Flow, NegativeLogLikelihood

GOLDEN = {
    "flow": {"version": 2, "tolerance": 0.04, "values": [1.0, -0.8219, 0.58, -0.4389, 0.1372, -0.1616, 0.0458, -1.0]}
}

FAST = {"epochs": 4.0, "learning_rate": 1e-3, "batch_size": 16}


def make(folder: Path | str, runtime: Runtime | None = None, **recipe: object) -> Flow:
    return Flow(Flow.Recipe(backbone=str(folder), **recipe), runtime or Runtime())


def weights(encoder: Any) -> dict[str, torch.Tensor]:
    return dict(encoder.glow.state_dict())


def same(a: Any, b: Any) -> bool:
    return all(torch.equal(value, weights(b)[name]) for name, value in weights(a).items())


def bits(encoder: Any, vectors: np.ndarray) -> float:
    with torch.inference_mode():
        return float(-encoder.glow.log_prob(torch.from_numpy(vectors)).mean() / (math.log(2) * vectors.shape[1]))


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[Flow, FitReport, np.ndarray, np.ndarray]]:
    """A flow learned on 600 real sentence vectors of zoo-mini; those, and 200 it has not seen."""
    sentences = Path(__file__).parents[3] / "benchmark" / "data" / "pocket" / "sentences.txt"
    texts = sentences.read_text(encoding="utf-8").splitlines()[:800]
    encoder = make("zoo-mini", epochs=3.0, learning_rate=1e-3, batch_size=32)
    report = encoder.fit(Corpus("pocket", texts[:600]), run=Run(seed=0))
    vectors = encoder.base.encode(texts)
    yield encoder, report, vectors[:600], vectors[600:]


def test_likelihood_rises_in_training_and_on_unseen_sentences(
    real: tuple[Flow, FitReport, np.ndarray, np.ndarray],
) -> None:
    encoder, report, seen, unseen = real
    assert report.fitted and report.steps == 3 * math.ceil(600 / 32)
    assert report.facts["bits_per_dim"] < report.facts["bits_per_dim_start"] - 0.05
    assert report.facts["bits_per_dim"] == pytest.approx(bits(encoder, seen), abs=1e-4)
    # Against the best Gaussian without correlations, which is where the actnorms start.
    mean, deviation = seen.mean(0), seen.std(0)
    gaussian = (np.log(deviation) + 0.5 * np.log(2 * np.pi) + ((unseen - mean) / deviation) ** 2 / 2).mean() / np.log(2)
    assert bits(encoder, unseen) < gaussian - 0.05


def test_loss_is_bits_per_dimension_in_float32_under_bf16(tiny_bert: Path) -> None:
    encoder = make(tiny_bert)
    vectors = torch.randn(9, 32)
    loss = NegativeLogLikelihood(encoder.glow)
    z, log_det = encoder.glow(vectors)
    log_p = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1) + log_det
    assert float(loss(vectors).detach()) == pytest.approx(float(-log_p.mean().detach()) / (math.log(2) * 32), rel=1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(loss(vectors), loss(vectors.double()))
        assert loss(vectors).dtype == torch.float32


def test_a_part_of_an_epoch_and_a_constant_rate(tiny_bert: Path, tmp_path: Path, pocket_sentences: list[str]) -> None:
    seen: list[tuple[int, float]] = []
    encoder = make(tiny_bert, epochs=0.25, batch_size=4, learning_rate=7e-4)
    run = Run(seed=0, log_values=lambda step, values: seen.append((step, values["learning_rate"])))
    report = encoder.fit(Corpus("pocket", pocket_sentences[:200]), run=run)
    assert report.steps == 12  # a quarter of 50, to even
    assert seen == [(10, 7e-4), (12, 7e-4)]


@pytest.mark.slow
def test_a_target_flow_learns_each_task_with_the_runs_seed(
    tiny_bert: Path, tmp_path: Path, pocket_sentences: list[str]
) -> None:
    encoder = make(tiny_bert, fit_on="target", **FAST)
    before = encoder.fingerprint()
    assert not encoder.fit(None, run=Run(seed=4)).fitted
    first, second = encoder.adapt(pocket_sentences[:60]), encoder.adapt(pocket_sentences[60:120])
    assert not same(first, second) and not same(first, encoder) and encoder.facts() == {}
    assert first.facts()["bits_per_dim"] < first.facts()["bits_per_dim_start"]
    fitted = make(tiny_bert, **FAST)
    fitted.fit(Corpus("same", pocket_sentences[:60]), run=Run(seed=4))
    assert same(first, fitted)
    # The seed travels with the saved encoder: it matters to flows that are yet to come.
    assert encoder.fingerprint() != before
    encoder.save(tmp_path)
    assert same(Flow.load(tmp_path).adapt(pocket_sentences[:60]), first)
