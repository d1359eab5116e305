"""Resampled correlations against loops over scipy; clusters of pairs; seeds and pairs that are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmark.stats import bootstrap, clusters
from benchmark.stats.bootstrap import Scored, influences, measured, resample, resample_together
from benchmark.stats.clusters import clusters_of
from benchmark.tasks.overlap import Pool
from tools.studies.shared_texts import wrong_share
from zoo.errors import ContractError

# Resampled correlations against loops over scipy; first-order ones against derivatives and against ranks made anew.


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
            drawn_rows = self.generator.integers(*arguments)
            rows.extend(drawn_rows.copy())
            return drawn_rows

        def __getattr__(self, name: str) -> Any:
            return getattr(self.generator, name)

    monkeypatch.setattr(bootstrap.np.random, "default_rng", Recording)
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["spearman", "pearson"])
def test_against_a_loop_over_scipy(metric: Any, drawn: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method in every resample, ties on both sides, resamples in several blocks and chunks."""
    monkeypatch.setattr(bootstrap, "_BLOCK", 70 * 15)
    monkeypatch.setattr(clusters, "_CHUNK", 70 * 50)
    predicted, gold = correlated(np.random.default_rng(0), [0.9, 0.5, 0.1, -0.6], 70)
    gold, predicted[1], predicted[2] = np.round(gold, 1), np.round(predicted[1], 1), predicted[2] > 0
    samples = resample(predicted, gold, metric=metric, resamples=130)
    assert len(drawn) == 130
    function = stats.spearmanr if metric == "spearman" else stats.pearsonr
    expected = [[function(row[index], gold[index]).statistic for index in drawn] for row in predicted]
    assert samples == pytest.approx(np.array(expected), abs=1e-10)
    assert measured(predicted, gold, metric) == pytest.approx(
        [function(row, gold).statistic for row in predicted], abs=1e-10
    )


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


@pytest.mark.parametrize("metric", ["spearman", "pearson"])
def test_shared_pairs_are_drawn_together(metric: Any, drawn: list[np.ndarray]) -> None:
    """Two tasks of one pool against loops over scipy: each takes its own of the pairs that were drawn."""
    generator = np.random.default_rng(2)
    first, gold = correlated(generator, [0.8, 0.3], 60)
    second, gold_b = correlated(generator, [0.6], 50)
    second[0, 20:], gold_b[20:] = first[0, 30:], gold[30:]  # thirty pairs stand in both
    places = np.arange(60), np.concatenate([np.arange(60, 80), np.arange(30, 60)])
    tasks = [Scored(first, gold, places[0]), Scored(second, gold_b, places[1])]
    samples = resample_together(tasks, Pool(80, "these"), metric=metric, resamples=50)
    function = stats.spearmanr if metric == "spearman" else stats.pearsonr
    for task, task_samples in zip(tasks, samples, strict=True):
        row_of = dict(zip(task.places.tolist(), range(len(task.gold)), strict=True))
        for number, pairs in enumerate(drawn):
            rows = [row_of[pair] for pair in pairs.tolist() if pair in row_of]
            expected = [function(row[rows], task.gold[rows]).statistic for row in task.predicted]
            assert task_samples[:, number] == pytest.approx(expected, abs=1e-10)
    alone = resample_together(tasks[1:], Pool(80, "these"), metric=metric, resamples=50)
    assert np.array_equal(alone[0], samples[1])
    assert not np.array_equal(
        resample_together(tasks[1:], Pool(80, "others"), metric=metric, resamples=50)[0], alone[0]
    )
    with pytest.raises(ContractError, match="pool"):
        resample_together(tasks)


def test_shared_pairs_make_averages_wider() -> None:
    """A task twice has the spread of one, where independent draws would give the half of its variance."""
    predicted, gold = correlated(np.random.default_rng(3), [0.7], 300)
    task = Scored(predicted, gold, np.arange(300))
    first, second = resample_together([task, task], Pool(300, "x"), resamples=2000)
    assert np.array_equal(first, second)
    apart = resample(predicted, gold, resamples=2000), resample(predicted, gold, resamples=2000, seed=1)
    assert ((first + second) / 2).std() == pytest.approx(first.std())
    assert ((apart[0] + apart[1]) / 2).std() == pytest.approx(first.std() / np.sqrt(2), rel=0.08)


def weighted_spearman(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Spearman's correlation of a distribution on the rows: from the definition of mid-ranks, in n^2 steps."""
    share = weights / weights.sum()
    u = ((x[:, None] > x) + 0.5 * (x[:, None] == x)) @ share
    v = ((y[:, None] > y) + 0.5 * (y[:, None] == y)) @ share
    u, v = u - share @ u, v - share @ v
    return float(share @ (u * v) / np.sqrt((share @ u**2) * (share @ v**2)))


def weighted_score(metric: str, x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """A score of a distribution on the rows, from its definition."""
    if metric == "spearman":
        return weighted_spearman(x, y, weights)
    if metric == "accuracy":
        return float((weights * y) @ x / (weights @ y))
    covariance = np.cov(x, y, aweights=weights, ddof=0)
    return float(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]))


@pytest.mark.parametrize("metric", ["spearman", "pearson", "accuracy"])
def test_influences_are_derivatives(metric: Any) -> None:
    """Against differences of a score of weighted rows, ties on both sides."""
    predicted, gold = correlated(np.random.default_rng(4), [0.8, -0.2], 40)
    gold, predicted[1] = np.round(gold), np.round(predicted[1], 1)
    if metric == "accuracy":
        predicted, gold = predicted > 0, 1 + gold**2
    value, influence = influences(predicted, gold, metric)
    for scores, score, estimate in zip(predicted, value, influence, strict=True):
        assert score == pytest.approx(weighted_score(metric, scores, gold, np.ones(40)))
        assert estimate.sum() == pytest.approx(0, abs=1e-9)
        for row in range(40):
            step = np.zeros(40)
            step[row] = 1e-5
            around = [weighted_score(metric, scores, gold, np.ones(40) + sign * step) for sign in (1, -1)]
            assert estimate[row] / 40 == pytest.approx((around[0] - around[1]) / 2e-5, abs=1e-7)


def test_first_order_resamples_follow_the_others() -> None:
    """400 pairs: the same draws, correlated above 0.99, and the spread of differences within 3%."""
    predicted, gold = correlated(np.random.default_rng(5), [0.8, 0.75, 0.4], 400)
    gold = np.round(gold, 1)
    exact = resample(predicted, gold, resamples=3000)
    (first_order,) = resample_together([Scored(predicted, gold)], resamples=3000, expanded=True)
    for row in range(3):
        assert np.corrcoef(exact[row], first_order[row])[0, 1] > 0.99
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert (first_order[i] - first_order[j]).std() == pytest.approx((exact[i] - exact[j]).std(), rel=0.03)
    few = predicted[:, :50], gold[:50]
    (drawn,) = resample_together([Scored(*few)], resamples=100, expanded=True)
    assert np.array_equal(drawn, resample(*few, resamples=100))  # below EXACT_BELOW there is no shortcut


def test_resamples_without_a_correlation_are_nan() -> None:
    """A method that is constant but for one pair has none where that pair was not drawn."""
    predicted, gold = correlated(np.random.default_rng(3), [0.8, 0.8], 20)
    predicted[1] = np.arange(20) == 4
    for metric in ("spearman", "pearson"):
        samples = resample(predicted, gold, metric=metric, resamples=2000)
        assert np.isnan(samples[1]).mean() == pytest.approx((19 / 20) ** 20, abs=0.05)
        assert not np.isnan(samples[0]).any()
    constant = np.ones((1, 300))
    (drawn,) = resample_together([Scored(constant, np.arange(300.0))], resamples=10, expanded=True)
    assert np.isnan(drawn).all()


# Rows that share a text are drawn together; the numbers are worked out by hand.


def test_rows_of_one_text_are_drawn_alike() -> None:
    """Texts 0 and 12 stand in two rows each, those of the last row nowhere else."""
    clusters = clusters_of(np.array([0, 0, 1, 2, 3]), np.array([10, 11, 12, 12, 13]))
    assert clusters.repeated and clusters.size == 3
    assert clusters.effective == pytest.approx(25 / (4 + 4 + 1))
    counts = np.concatenate([*clusters.counts(50, [0])])
    assert (counts[:, 0] == counts[:, 1]).all() and (counts[:, 2] == counts[:, 3]).all()
    assert (counts[:, [0, 2, 4]].sum(axis=1) == 3).all() and (counts[:, 0] != counts[:, 2]).any()


def test_a_row_of_two_repeated_texts_is_drawn_by_both() -> None:
    clusters = clusters_of(np.array([0, 0, 1, 1]), np.array([2, 3, 2, 3]))
    assert clusters.size == 4 and clusters.effective == pytest.approx(16 / 12)
    tables = np.concatenate([*clusters.counts(200, [0])]).reshape(-1, 2, 2)
    assert (tables[:, 0, 0] * tables[:, 1, 1] == tables[:, 0, 1] * tables[:, 1, 0]).all()
    assert (tables[:, 0] != tables[:, 1]).any() and (tables[:, :, 0] != tables[:, :, 1]).any()


def test_rows_without_a_common_text_are_drawn_by_themselves() -> None:
    clusters = clusters_of(np.arange(7), np.arange(7))  # each text beside itself
    assert not clusters.repeated and clusters.effective == 7
    assert not clusters_of(np.arange(7)).repeated and clusters_of(np.array([0, 1, 0])).size == 2


@pytest.mark.parametrize("seed", range(5))
def test_variances_are_those_of_rows_that_share_a_text(seed: int) -> None:
    """Against a loop over all couples of rows, some of the same two texts; never less than that of unrelated rows."""
    generator = np.random.default_rng(seed)
    texts, influence = generator.integers(0, 9, (25, 2)), generator.normal(size=(3, 25))
    clusters = clusters_of(*texts.T)
    alike = np.array([[bool({*map(int, one)} & {*map(int, other)}) for other in texts] for one in texts])
    unrelated, together = clusters.variances(influence)
    for a in range(3):
        for b in range(3):
            apart = influence[a] - influence[b]
            assert unrelated[a, b] == pytest.approx(25 / 24 * apart @ apart)
            assert together[a, b] == pytest.approx(25 / 24 * max(apart @ alike @ apart, apart @ apart))
    assert clusters.effective == pytest.approx(25**2 / alike.sum())


def test_few_clusters_make_resampled_values_too_close() -> None:
    clusters = clusters_of(np.array([0, 0, 1, 1]))
    assert clusters.effective == 2
    np.testing.assert_allclose(clusters.unbiased(np.array([[0.0, 2.0]])), [[1 - 2**0.5, 1 + 2**0.5]])


def test_equal_encoders_are_told_apart_in_about_one_comparison_of_twenty() -> None:
    """Of 10 queries with 30 documents each; as if their rows were unrelated it is one in six (more: docs)."""
    shares = [wrong_share("10 queries x 30 documents", 2.0, 50, together=together) for together in (True, False)]
    assert shares[0] <= 0.14 and shares[1] >= max(0.15, 2 * shares[0])
