"""Bootstrap over items; pairs of several tasks are resampled together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmark.stats.clusters import Clusters, independent
from benchmark.tasks.overlap import Pool
from zoo.errors import ContractError

RESAMPLES = 10_000
EXACT_BELOW = 200  # pairs: with fewer, `expanded` is up to a tenth off, and computing the ranks again is cheap

_BLOCK = 1 << 14  # counts (8 bytes each) in one block of resamples, which then fits into a core's cache

Metric = Literal["spearman", "pearson", "auc", "accuracy"]
_Statistic = Callable[[NDArray[Any]], NDArray[np.float64]]  # counts (resamples, n) -> (methods, resamples)


@dataclass(frozen=True)
class Scored:
    """Scores of several methods (methods, n) on the pairs of a task, and the gold scores (n,).

    For right or wrong items, `predicted` is each item's share of right answers, `gold` its weight. `places` (n,) are
    the pairs' positions in a `Pool`. `identity` names the test set of shared resamples; default: the gold scores.
    """

    predicted: NDArray[Any]
    gold: NDArray[Any]
    places: NDArray[np.intp] | None = None
    metric: Metric | None = None
    identity: str = ""


class _Ranking:
    def __init__(self, values: NDArray[Any]) -> None:
        self.order = np.argsort(values)
        ordered = values[self.order]
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        self.group = np.empty(len(values), np.intp)
        self.group[self.order] = np.cumsum(new) - 1
        self.first = np.flatnonzero(new)  # where each group of equal values begins
        self.last = np.append(self.first[1:], len(values)) - 1  # and where it ends

    def __call__(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return twice the centred average ranks (resamples, n), and the sums of their squares (resamples,).

        Twice a centred rank is an integer, so all sums are exact.
        """
        inside = np.take(counts, self.order, axis=1)
        upto = np.cumsum(inside, axis=1)
        total = upto[:, -1:].copy()
        if len(self.last) < counts.shape[1]:
            upto = np.take(upto, self.last, axis=1)
            inside = np.diff(upto, axis=1, prepend=0)
        ranks = 2 * upto
        ranks -= inside
        ranks -= total
        return np.take(ranks, self.group, axis=1), np.einsum("bg,bg,bg->b", inside, ranks, ranks)

    def above(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of the weights (n,) of larger values; equal values count half."""
        inside = weights[self.order]
        if len(self.first) < len(inside):
            inside = np.add.reduceat(inside, self.first)
        return (np.cumsum(inside[::-1])[::-1] - inside / 2)[self.group]


def _spearman(predicted: NDArray[Any], gold: NDArray[Any]) -> _Statistic:
    rank_gold, rankings = _Ranking(gold), [_Ranking(row) for row in predicted]

    def statistic(counts: NDArray[np.int64]) -> NDArray[np.float64]:
        gold_ranks, gold_squares = rank_gold(counts)
        weighted = counts * gold_ranks
        result = np.empty((len(rankings), len(counts)))
        for row, ranking in enumerate(rankings):
            ranks, squares = ranking(counts)
            norm = np.sqrt(squares.astype(np.float64) * gold_squares.astype(np.float64))
            result[row] = np.einsum("bn,bn->b", weighted, ranks) / np.where(norm == 0, np.nan, norm)
        return result

    return statistic


def _pearson(predicted: NDArray[Any], gold: NDArray[Any]) -> _Statistic:
    values = np.vstack([gold, predicted]).astype(np.float64)
    values -= values.mean(axis=1, keepdims=True)
    values /= np.where(np.ptp(values, axis=1) == 0, 1, values.std(axis=1))[:, None]
    y, x = values[0], values[1:]

    def statistic(counts: NDArray[np.int64]) -> NDArray[np.float64]:
        weights = counts.T / counts.sum(axis=1)
        variance = (values**2) @ weights - (values @ weights) ** 2
        variance = np.where(variance < 1e-12, np.nan, variance)  # constant in this resample
        covariance = (x * y) @ weights - (x @ weights) * (y @ weights)
        result: NDArray[np.float64] = covariance / np.sqrt(variance[1:] * variance[0])
        return result

    return statistic


def _auc(predicted: NDArray[Any], gold: NDArray[Any]) -> _Statistic:
    """Areas under the ROC curve as rank sums (Mann and Whitney 1947); gold scores are 0 and 1."""
    rankings, positive = [_Ranking(row) for row in predicted], gold > 0

    def statistic(counts: NDArray[np.int64]) -> NDArray[np.float64]:
        of_positives = counts * positive
        number = of_positives.sum(axis=1)
        pairs = (number * (counts.sum(axis=1) - number)).astype(np.float64)
        sums = np.array([np.einsum("bn,bn->b", of_positives, ranking(counts)[0]) for ranking in rankings])
        result: NDArray[np.float64] = 0.5 + sums / (2 * np.where(pairs == 0, np.nan, pairs))
        return result

    return statistic


def _accuracy(predicted: NDArray[Any], gold: NDArray[Any]) -> _Statistic:
    """Weighted shares of right items, exact, by a single matrix product."""
    weighted = predicted * gold

    def statistic(counts: NDArray[Any]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = (weighted @ counts.T) / (counts @ gold)
        return result

    return statistic


_STATISTICS = {"spearman": _spearman, "pearson": _pearson, "auc": _auc, "accuracy": _accuracy}


def influences(
    predicted: NDArray[Any], gold: NDArray[Any], metric: Metric = "spearman"
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scores (methods,) against gold (n,), and each item's influence on them (methods, n).

    An influence is the derivative of the score by the item's weight, times n (Hampel 1974; Efron 1982, chapter 6). To
    first order, a resample has the score plus the mean influence of its items. NaN for a constant; not for "auc".
    """
    if metric == "accuracy":
        weights = gold / gold.mean()
        shares = (predicted @ weights) / len(gold)
        return shares, weights * (predicted - shares[:, None])
    if metric == "pearson":
        x, y = (
            values - values.mean(axis=-1, keepdims=True) for values in (predicted.astype(float), gold.astype(float))
        )
        x, y = (values / np.sqrt(_positive((values**2).mean(axis=-1, keepdims=True))) for values in (x, y))
        value = (x * y).mean(axis=1)
        return value, x * y - value[:, None] * (x**2 + y**2) / 2
    n = len(gold)
    by_gold = _Ranking(gold)
    v = _shares(by_gold)
    gold_variance = _positive(v @ v / n)
    moved_gold = v**2 + 2 * by_gold.above(v) / n
    value, result = np.empty(len(predicted)), np.empty((len(predicted), n))
    for row, scores in enumerate(predicted):
        by_score = _Ranking(scores)
        u = _shares(by_score)
        variance = _positive(u @ u / n)
        norm = np.sqrt(variance * gold_variance)
        value[row] = u @ v / n / norm
        # One more copy of a pair adds its own product of ranks and shifts the ranks of the pairs above it on each side:
        # u * v + (by_score.above(v) + by_gold.above(u)) / n to the covariance, u**2 + 2 * by_score.above(u) / n to u's.
        half = value[row] / (2 * variance)
        change = u * (v / norm - half * u) + by_score.above(v / (norm * n) - u * (2 * half / n))
        change += by_gold.above(u / (norm * n)) - value[row] / (2 * gold_variance) * moved_gold
        result[row] = change - change.mean()
    return value, result


def _shares(ranking: _Ranking) -> NDArray[np.float64]:
    """Return the centred average ranks (n,) as shares of n."""
    middle = (ranking.first + ranking.last + 1) / 2
    result: NDArray[np.float64] = (middle / len(ranking.group) - 0.5)[ranking.group]
    return result


def _positive(variance: Any) -> Any:
    """Return variances, NaN for a constant."""
    return np.where(variance > 1e-12, variance, np.nan)


def resample_together(
    tasks: Sequence[Scored],
    pool: Pool | None = None,
    *,
    metric: Metric = "spearman",
    resamples: int = RESAMPLES,
    seed: int = 0,
    expanded: bool = False,
    clusters: Clusters | None = None,
) -> list[NDArray[np.float64]]:
    """Return, for each task, the correlations (methods, resamples) with its gold scores in resamples of its pairs.

    With a pool, a pair of several tasks is in all of them or in none, and a task's number of pairs is random too.
    Without a pool there must be a single task. Resamples depend only on `seed` and the pool (or the gold scores): all
    methods share them, also over several calls; two tasks of equal size do not. Each resample is ranked again, with
    average ranks for ties. NaN for a constant.

    Pairs of a text in `clusters` are resampled together. With `expanded`, tasks of `EXACT_BELOW` pairs or more use
    influences: a single matrix product for all methods, with a spread within 3% of that of the exact correlations.
    """
    if pool is None and len(tasks) != 1:
        raise ContractError("several tasks are resampled together only with the pool of their pairs.")
    named = tasks[0].identity.encode() or tasks[0].gold.astype(np.float64).tobytes()
    digest = hashlib.sha256(named).digest()
    if pool is not None:
        digest = hashlib.sha256(pool.digest.encode()).digest()
    size = len(tasks[0].gold) if pool is None else pool.size
    makers = [_maker(task, task.metric or metric, expanded) for task in tasks]
    samples = [np.empty((len(task.predicted), resamples)) for task in tasks]
    start, key = 0, [seed, *np.frombuffer(digest, np.uint32).tolist()]
    for counts in (clusters or independent(size)).counts(resamples, key):
        as_float = counts.astype(np.float32)  # exact: a count is far below 2^24
        for task, (statistic, first_order), result in zip(tasks, makers, samples, strict=True):
            given: NDArray[Any] = as_float if first_order else counts
            drawn = given if task.places is None else np.take(given, task.places, axis=1)
            result[:, start : start + len(counts)] = statistic(drawn)
        start += len(counts)
    return samples


def _maker(task: Scored, metric: Metric, expanded: bool) -> tuple[_Statistic, bool]:
    n = len(task.gold)
    if metric == "accuracy":
        return _accuracy(task.predicted, task.gold), True
    if expanded and metric == "spearman" and n >= EXACT_BELOW:
        value, influence = influences(task.predicted, task.gold)
        small = influence.astype(np.float32)

        def first_order(counts: NDArray[Any]) -> NDArray[np.float64]:
            moved = small @ counts.T / counts.sum(axis=1, dtype=np.float64)
            result: NDArray[np.float64] = value[:, None] + moved
            return result

        return first_order, True
    statistic, block = _STATISTICS[metric](task.predicted, task.gold), max(1, _BLOCK // n)

    def in_blocks(counts: NDArray[Any]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            parts = [statistic(counts[start : start + block]) for start in range(0, len(counts), block)]
        return np.concatenate(parts, axis=1)

    return in_blocks, False


def statistic_of(predicted: NDArray[Any], gold: NDArray[Any], metric: Metric = "spearman") -> _Statistic:
    """Map counts (resamples, n) to correlations (methods, resamples) with gold."""
    return _maker(Scored(predicted, gold), metric, expanded=False)[0]


def resample(
    predicted: NDArray[Any],
    gold: NDArray[Any],
    *,
    metric: Metric = "spearman",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return correlations in bootstrap resamples of the pairs: `resample_together` for a single task.

    Args:
        predicted: Scores (methods, n) of n pairs.
        gold: Gold scores (n,).
        metric: The statistic: spearman, pearson, auc or accuracy.
        resamples: The number of resamples.
        seed: The seed of the resamples.

    Returns:
        Correlations (methods, resamples); NaN if a resample has none.

    Examples:
        >>> resample(np.eye(2, 9), np.arange(9.0), resamples=100).shape
        (2, 100)
    """
    return resample_together([Scored(predicted, gold)], metric=metric, resamples=resamples, seed=seed)[0]


def measured(predicted: NDArray[Any], gold: NDArray[Any], metric: Metric = "spearman") -> NDArray[np.float64]:
    """Return the correlations (methods,) of predicted (methods, n) with gold (n,)."""
    return _STATISTICS[metric](predicted, gold)(np.ones((1, len(gold)), np.int64))[:, 0]
