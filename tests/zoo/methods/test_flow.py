"""BERT-flow: the settings reach the flow, the likelihood rises, and what was learned is exact and seeded."""

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
from zoo.methods.pooled import Average
from zoo.recipes import all_recipes

GOLDEN = {"flow": {"version": 1, "values": [1.0, -0.1932, 0.3286, -0.0587, 1.0, -0.0951, 0.2753, -0.2728]}}

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layers", "levels", "mixing", "residual", "rate", "epochs", "decay", "fit_on"),
    [
        ("flow", "top2", 2, "permutation", True, 2e-5, 0.15, 0.0, "corpus"),
        ("flow-nli", "top2", 2, "permutation", True, 2e-5, 0.15, 0.0, "pairs"),
        ("flow-target", "top2", 2, "permutation", True, 1e-3, 1.0, 0.0, "target"),
        ("flow-repo", "first-last-h1", 3, "reversal", False, 1e-3, 1.0, 0.01, "target"),
        ("flow-nli-h0", "first-last-h0", 2, "permutation", True, 2e-5, 0.15, 0.0, "pairs"),
    ],
)
def test_recipes_are_the_papers_table_and_the_released_config(
    name: str,
    layers: str,
    levels: int,
    mixing: str,
    residual: bool,
    rate: float,
    epochs: float,
    decay: float,
    fit_on: str,
    tiny_bert: Path,
) -> None:
    recipe = all_recipes()[name].resolve({"backbone": str(tiny_bert)})[1]
    assert (recipe.layers, recipe.learning_rate, recipe.epochs) == (layers, rate, epochs)
    assert recipe.adam_epsilon == (1e-6 if name == "flow-repo" else 1e-8)
    assert (recipe.weight_decay, recipe.fit_on, recipe.max_length, recipe.batch_size) == (decay, fit_on, 64, 64)
    encoder = Flow(recipe, Runtime())
    average = Average(Average.Recipe(backbone=str(tiny_bert), layers=layers, max_length=64), Runtime())
    np.testing.assert_array_equal(encoder.base.encode(["a dog runs"]), average.encode(["a dog runs"]))
    steps = encoder.glow.steps
    assert [step.dim for step in steps] == [32 >> level for level in range(levels) for _ in range(3)]
    assert all(step.net.first.out_features == 32 and step.net.residual is residual for step in steps)
    assert all((step.order.tolist() == list(range(len(step.order)))[::-1]) == (mixing == "reversal") for step in steps)


def test_a_part_of_an_epoch_and_a_constant_rate(tiny_bert: Path, tmp_path: Path, pocket_sentences: list[str]) -> None:
    seen: list[tuple[int, float]] = []
    encoder = make(tiny_bert, epochs=0.25, batch_size=4, learning_rate=7e-4)
    run = Run(seed=0, log_values=lambda step, values: seen.append((step, values["learning_rate"])))
    report = encoder.fit(Corpus("pocket", pocket_sentences[:200]), run=run)
    assert report.steps == 12  # a quarter of 50, to even
    assert seen == [(10, 7e-4), (12, 7e-4)]


@pytest.mark.slow
def test_the_seed_decides_and_nothing_else(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    def learned(seed: int) -> Flow:
        encoder = make(tiny_bert, **FAST)
        encoder.fit(Corpus("pocket", pocket_sentences[:80]), run=Run(seed=seed))
        torch.randn(3)
        return encoder

    first, again, other = learned(1), learned(1), learned(2)
    assert same(first, again) and first.fingerprint() == again.fingerprint()
    assert not same(first, other)
    assert weights(first)["chain.0.order"].tolist() != weights(other)["chain.0.order"].tolist()


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


def test_bf16_changes_the_vectors_but_not_their_type(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    corpus = Corpus("pocket", pocket_sentences[:48])
    by_precision = {}
    for precision in ("fp32", "bf16"):
        encoder = make(tiny_bert, Runtime(precision=precision), **FAST)
        encoder.fit(corpus, run=Run(seed=0))
        by_precision[precision] = encoder.encode(pocket_sentences[:48])
        assert by_precision[precision].dtype == np.float32 and np.isfinite(by_precision[precision]).all()
        assert all(value.dtype == torch.float32 for name, value in weights(encoder).items() if "order" not in name)
    assert not np.array_equal(by_precision["fp32"], by_precision["bf16"])
    cosine = [(a @ b) / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(*by_precision.values(), strict=True)]
    assert min(cosine) > 0.98
