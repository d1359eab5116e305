"""Correlations against scipy and numpy; undefined stays undefined."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmark.metrics.correlation import aggregate, correlations, cosine, undefined
from benchmark.reasons import reason


def ranks(values: np.ndarray) -> np.ndarray:
    """Average ranks, counted directly."""
    below = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    return below + (equal + 1) / 2


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))


@pytest.mark.parametrize("seed", range(5))
def test_against_scipy_and_the_definition(seed: int) -> None:
    """With ties on both sides (gold scores are rounded)."""
    generator = np.random.default_rng(seed)
    gold = np.round(generator.uniform(0, 5, 300), 1)
    predicted = np.round(gold / 5 + generator.normal(0, 0.3, 300), 2)
    result = correlations(predicted, gold)
    assert result["spearman"] == pytest.approx(stats.spearmanr(predicted, gold).statistic, abs=1e-12)
    assert result["pearson"] == pytest.approx(stats.pearsonr(predicted, gold).statistic, abs=1e-12)
    assert result["spearman"] == pytest.approx(pearson(ranks(predicted), ranks(gold)), abs=1e-12)
    assert result["pearson"] == pytest.approx(pearson(predicted, gold), abs=1e-12)


def test_cosine_is_the_cosine() -> None:
    """Against the definition, for any scale, in float64."""
    generator = np.random.default_rng(0)
    u, v = generator.normal(size=(50, 7)), generator.normal(size=(50, 7))
    expected = [float(a @ b / np.sqrt((a @ a) * (b @ b))) for a, b in zip(u, v, strict=True)]
    for scale in (1e-20, 1.0, 1e20):
        result = cosine(u * scale, v)
        assert result.dtype == np.float64
        assert result == pytest.approx(expected, abs=1e-8)
    assert cosine(np.eye(3), -np.eye(3)).tolist() == [-1, -1, -1]


def test_aggregates_against_numpy() -> None:
    """all, mean and wmean by their definitions, on subsets of different sizes and levels."""
    generator = np.random.default_rng(1)
    subsets = {}
    for name, size, level in (("a", 50, 0.0), ("b", 200, 1.0), ("c", 750, 3.0)):
        gold = generator.uniform(0, 2, size) + level
        subsets[name] = (gold / 5 + generator.normal(0, 0.2, size) - level / 10, gold)
    result = aggregate(subsets)
    for metric, function in (("spearman", stats.spearmanr), ("pearson", stats.pearsonr)):
        each = np.array([function(p, g).statistic for p, g in subsets.values()])
        together = function(*(np.concatenate(side) for side in zip(*subsets.values(), strict=True))).statistic
        assert result["all"][metric] == pytest.approx(together, abs=1e-12)
        assert result["mean"][metric] == pytest.approx(each.sum() / 3, abs=1e-12)
        weighted = (50 * each[0] + 200 * each[1] + 750 * each[2]) / 1000
        assert result["wmean"][metric] == pytest.approx(weighted, abs=1e-12)
        assert [part[metric] for part in result["subsets"].values()] == pytest.approx(each, abs=1e-12)
    assert {name: part["n"] for name, part in result["subsets"].items()} == {"a": 50, "b": 200, "c": 750}
    levels = [result[kind]["spearman"] for kind in ("all", "mean", "wmean")]
    assert len({round(level, 3) for level in levels}) == 3, "the three must differ here, or the test shows nothing"


def test_constant_predictions_have_no_correlation() -> None:
    """Undefined is None (never NaN, never 0), for either side, and a mean over it is None."""
    gold = np.array([1.0, 2.0, 3.0, 4.0])
    nothing = {"spearman": None, "pearson": None}
    assert correlations(np.full(4, 0.7), gold) == nothing
    assert correlations(np.full(4, 0.7) + np.array([0, 1e-16, 0, 2e-16]), gold) == nothing
    assert correlations(np.zeros(4), gold) == nothing
    assert correlations(gold, np.ones(4)) == nothing
    assert correlations(gold[:1], gold[:1]) == nothing
    result = aggregate({"bad": (np.full(4, 0.7), gold), "good": (gold, gold)})
    assert result["mean"] == result["wmean"] == nothing
    assert result["subsets"]["good"]["spearman"] == pytest.approx(1)
    assert result["all"]["spearman"] is not None


def test_equal_vectors_at_any_scale_are_constant() -> None:
    """Every vector the same: rounding must not make a correlation out of nothing."""
    generator = np.random.default_rng(2)
    row = generator.normal(size=384).astype(np.float32)
    vectors = np.tile(row, (500, 1))
    assert correlations(cosine(vectors, vectors), generator.uniform(0, 5, 500))["spearman"] is None


def test_half_precision_vectors_are_scored_in_full() -> None:
    """Vectors rounded to float16 keep distinct scores, and rho stays within 1e-3 of float32's."""
    generator = np.random.default_rng(3)
    base = generator.normal(size=(3000, 64))
    gold = generator.uniform(0, 5, 3000)
    other = base * (gold[:, None] / 5) + generator.normal(size=(3000, 64))
    full = cosine(base.astype(np.float32), other.astype(np.float32))
    half = cosine(base.astype(np.float16), other.astype(np.float16))
    assert half.dtype == np.float64
    assert len(np.unique(half)) > 2990
    assert len(np.unique(half.astype(np.float16))) < 2500, "scored in float16 most would tie"
    rho, half_rho = (correlations(scores, gold)["spearman"] for scores in (full, half))
    assert rho is not None
    assert half_rho == pytest.approx(rho, abs=1e-3)


def test_a_zero_vector_has_cosine_zero() -> None:
    """As SentEval, which turns its NaN into 0."""
    u = np.ones((4, 3))
    u[1] = u[3] = 0
    assert cosine(u, np.ones((4, 3))).tolist() == cosine(np.ones((4, 3)), u).tolist() == [1, 0, 1, 0]


def test_each_undefined_correlation_has_its_own_reason() -> None:
    """No pair, one pair, equal gold scores, no known text, constant vectors: five faults of different people."""
    two, equal = np.array([1.0, 2.0]), np.array([3.0, 3.0])
    reasons = [
        undefined(two[:0], two[:0]),
        undefined(two[:1], two[:1]),
        undefined(two, equal),
        undefined(np.zeros(2), two, known=0),
        undefined(equal, two, known=2),
    ]
    assert None not in reasons and len({*reasons}) == 5
    assert reasons[4] == reason("constant") and "3" in str(reasons[2])
    assert undefined(two, two, known=1) is None


def test_equal_texts_tie_exactly() -> None:
    """Cosine of a vector with itself is 1 in the last bits only; such pairs must share a rank."""
    generator = np.random.default_rng(4)
    vectors = generator.normal(size=(2000, 384)).astype(np.float32)
    scale = generator.uniform(0.1, 10, 2000)[:, None]
    for same in (vectors, vectors * 2, vectors.astype(np.float64) * scale):
        assert set(cosine(vectors, same).tolist()) == {1.0}


def test_close_scores_stay_apart() -> None:
    """What makes equal texts tie merges no scores that differ by more than float noise."""
    angles = np.pi / 4 + np.arange(100) * 1e-8
    u = np.tile([1.0, 0.0], (100, 1))
    assert len(np.unique(cosine(u, np.stack([np.cos(angles), np.sin(angles)], axis=1)))) == 100
