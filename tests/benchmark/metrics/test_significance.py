"""The bootstrap against loops over scipy and against the truth; Williams' test against published examples."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmark.metrics import significance
from benchmark.metrics.significance import paired_bootstrap, resample, summarise, tied_with, williams
from zoo.errors import ContractError


def correlated(generator: np.random.Generator, rhos: list[float], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return methods' scores (methods, n) that correlate so with gold (n,), all normal."""
    gold = generator.normal(size=n)
    noise = generator.normal(size=(len(rhos), n))
    return np.array([rho * gold + np.sqrt(1 - rho**2) * e for rho, e in zip(rhos, noise, strict=True)]), gold


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The resamples that are drawn, each the indices of its pairs."""
    rows: list[np.ndarray] = []
    make = np.random.default_rng

    class Recording:
        def __init__(self, seed: Any) -> None:
            self.generator = make(seed)

        def integers(self, *arguments: Any) -> np.ndarray:
            found = self.generator.integers(*arguments)
            rows.extend(found.copy())
            return found

        def __getattr__(self, name: str) -> Any:
            return getattr(self.generator, name)

    monkeypatch.setattr(significance.np.random, "default_rng", Recording)
    return rows


@pytest.mark.parametrize("metric", ["spearman", "pearson"])
def test_against_a_loop_over_scipy(metric: Any, drawn: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method in every resample, ties on both sides and resamples in several blocks."""
    monkeypatch.setattr(significance, "_BLOCK", 70 * 50)
    predicted, gold = correlated(np.random.default_rng(0), [0.9, 0.5, 0.1, -0.6], 70)
    gold, predicted[1], predicted[2] = np.round(gold, 1), np.round(predicted[1], 1), predicted[2] > 0
    samples = resample(predicted, gold, metric=metric, resamples=130)
    assert len(drawn) == 130
    function = stats.spearmanr if metric == "spearman" else stats.pearsonr
    expected = [[function(row[index], gold[index]).statistic for index in drawn] for row in predicted]
    assert samples == pytest.approx(np.array(expected), abs=1e-10)
    result = paired_bootstrap(predicted, gold, metric=metric, resamples=130)
    assert result.value == pytest.approx([function(row, gold).statistic for row in predicted], abs=1e-10)


def test_draws_are_shared_by_methods_and_not_by_tasks(drawn: list[np.ndarray]) -> None:
    """One method alone or among others has the same samples; the seed and the gold scores change them."""
    predicted, gold = correlated(np.random.default_rng(1), [0.8, 0.3], 90)
    together = resample(predicted, gold, resamples=40)
    assert np.array_equal(resample(predicted[1:], gold, resamples=40), together[1:])
    resample(predicted, gold, resamples=40, seed=1)
    resample(predicted, gold[::-1].copy(), resamples=40)
    draws = [np.stack(drawn[start : start + 40]) for start in range(0, 160, 40)]
    assert np.array_equal(draws[0], draws[1])
    for first, second in ((0, 2), (0, 3), (2, 3)):
        assert (draws[first] == draws[second]).mean() < 0.1


def test_intervals_and_p_values_from_samples() -> None:
    """Percentiles of scores and differences; p counts the resamples beyond zero, and never is 0."""
    generator = np.random.default_rng(2)
    samples = generator.normal([[0.5], [0.45], [0.1]], 0.03, (3, 999))
    value = np.array([0.5, 0.45, 0.1])
    result = summarise(value, samples)
    assert result.low == pytest.approx(np.percentile(samples, 2.5, axis=1))
    assert result.high == pytest.approx(np.percentile(samples, 97.5, axis=1))
    for i in range(3):
        for j in range(3):
            difference = samples[i] - samples[j]
            assert result.difference[i, j] == value[i] - value[j]
            ends = (result.difference_low[i, j], result.difference_high[i, j])
            assert ends == pytest.approx(tuple(np.percentile(difference, [2.5, 97.5])))
            smaller = min((difference <= 0).sum(), (difference >= 0).sum())
            assert result.p[i, j] == pytest.approx(min(1.0, 2 * (smaller + 1) / 1000))
    assert result.p[0, 0] == 1
    assert result.p[0, 2] == 0.002
    assert tied_with(0, samples).tolist() == [True, True, False]


def test_resamples_without_a_correlation_are_left_out() -> None:
    """A method that is constant but for one pair has none where that pair was not drawn."""
    predicted, gold = correlated(np.random.default_rng(3), [0.8, 0.8], 20)
    predicted[1] = np.arange(20) == 4
    for metric in ("spearman", "pearson"):
        samples = resample(predicted, gold, metric=metric, resamples=2000)
        undefined = np.isnan(samples[1])
        assert undefined.mean() == pytest.approx((19 / 20) ** 20, abs=0.05)
        kept = paired_bootstrap(predicted, gold, metric=metric, resamples=2000)
        assert kept.high[0] == pytest.approx(np.percentile(samples[0][~undefined], 97.5))
    with pytest.raises(ContractError, match="all equal"):
        paired_bootstrap(np.ones((1, 20)), gold, resamples=50)


def test_intervals_cover_the_truth() -> None:
    """95% intervals of scores and differences hold the truth 93-97% of the time.

    1,000 data sets of 150 pairs, 800 resamples each. The truth is the rho of the normal distribution they come from:
    6/pi arcsin(r/2) for a Pearson correlation of r.
    """
    generator = np.random.default_rng(4)
    rhos = [0.7, 0.7, 0.5]
    truth = 6 / np.pi * np.arcsin(np.array(rhos) / 2)
    scores, differences, wrong = [], [], []
    for _ in range(1000):
        result = paired_bootstrap(*correlated(generator, rhos, 150), resamples=800)
        scores.append((result.low <= truth) & (truth <= result.high))
        between = truth[:, None] - truth
        differences.append((result.difference_low <= between) & (between <= result.difference_high))
        wrong.append(result.p[0, 1] < 0.05)
    for coverage in (*np.mean(scores, axis=0), np.mean(differences, axis=0)[0, 1], np.mean(differences, axis=0)[0, 2]):
        assert 0.93 <= coverage <= 0.97
    assert 0.03 <= np.mean(wrong) <= 0.07  # two equally good methods are told apart this often


def test_ten_methods_take_seconds() -> None:
    """SICK-R's 4,927 pairs, 10 methods, 2,000 resamples, on one core: under 4 s of its time (a loop takes over 30)."""
    predicted, gold = correlated(np.random.default_rng(5), [0.7] * 10, 4927)
    started = time.process_time()
    resample(predicted, np.round(gold, 1), resamples=2000)
    assert time.process_time() - started < 4


@pytest.mark.parametrize(
    ("r_a", "r_b", "r_ab", "n", "t", "p"),
    [
        # Howell, Statistical Methods for Psychology, chapter 9, "difference between two nonindependent rs": WISC-R and
        # McCarthy against the WRAT in 26 children (Reilly et al. 1985): t(23) = 1.36, not significant.
        (0.80, 0.72, 0.89, 26, 1.36, None),
        # The documentation of psych::r.test, "Steiger case A": r.test(103, .4, .5, .1), t value -0.89, p < 0.37.
        (0.40, 0.50, 0.10, 103, -0.89, 0.37),
    ],
)
def test_williams_on_published_examples(r_a: float, r_b: float, r_ab: float, n: int, t: float, p: float | None) -> None:
    """And again from the definition, with the determinant of the matrix."""
    result = williams(r_a, r_b, r_ab, n)
    assert result.t == pytest.approx(t, abs=0.005)
    assert result.df == n - 3
    if p is not None:
        assert result.p == pytest.approx(p, abs=0.01)
    determinant = np.linalg.det([[1, r_a, r_b], [r_a, 1, r_ab], [r_b, r_ab, 1]])
    squared = (r_a - r_b) ** 2 * (n - 1) * (1 + r_ab)
    squared /= 2 * determinant * (n - 1) / (n - 3) + ((r_a + r_b) / 2) ** 2 * (1 - r_ab) ** 3
    assert result.t**2 == pytest.approx(squared)
    assert result.p == pytest.approx(stats.f.sf(squared, 1, n - 3))
    swapped = williams(r_b, r_a, r_ab, n)
    assert (swapped.t, swapped.p) == (-result.t, result.p)


def test_williams_errs_as_often_as_it_says() -> None:
    """Two equal correlations of 0.5, 30 pairs, 4,000 data sets: 5% are called different."""
    generator = np.random.default_rng(6)
    found = []
    for _ in range(4000):
        matrix = np.corrcoef(np.vstack([*(pair := correlated(generator, [0.5, 0.5], 30))[0], pair[1]]))
        found.append(williams(matrix[0, 2], matrix[1, 2], matrix[0, 1], 30).p < 0.05)
    assert 0.04 <= np.mean(found) <= 0.06


def test_williams_at_its_edges() -> None:
    """Equal scores do not differ; what cannot be correlated so is refused."""
    assert williams(0.7, 0.7, 1.0, 50).p == 1
    for arguments in ((0.9, 0.1, 0.99, 50), (0.5, 0.6, 0.7, 3)):
        with pytest.raises(ContractError, match="cannot be tested"):
            williams(*arguments)
