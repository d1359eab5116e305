"""Is one correlation with the gold scores really higher than another? Paired bootstrap over pairs; Williams' test."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zoo.errors import ContractError

RESAMPLES = 10_000
LEVEL = 0.05  # below it a difference counts as significant; intervals hold 1 - LEVEL

_BLOCK = 1 << 14  # counts (8 bytes) that one block of resamples holds: all of it stays in a core's cache

Metric = Literal["spearman", "pearson"]
_Statistic = Callable[[NDArray[np.int64]], NDArray[np.float64]]  # counts (resamples, n) -> (methods, resamples)


class _Ranking:
    """The ranks of one variable in any resample, from one sort."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.order = np.argsort(values, kind="stable")
        ordered = values[self.order]
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        self.group = np.empty(len(values), np.intp)
        self.group[self.order] = np.cumsum(new) - 1
        self.last = np.append(np.flatnonzero(new)[1:], len(values)) - 1  # where each group of equal values ends

    def __call__(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the average ranks (resamples, n), twice and centred, and the sums of their squares (resamples,).

        `counts` (resamples, n) says how often each row was drawn. Twice a centred rank is a whole number, so that all
        sums are exact.
        """
        inside = np.take(counts, self.order, axis=1)
        upto = np.cumsum(inside, axis=1)
        if len(self.last) < counts.shape[1]:
            upto = np.take(upto, self.last, axis=1)
            inside = np.diff(upto, axis=1, prepend=0)
        ranks = 2 * upto
        ranks -= inside
        ranks -= counts.shape[1]
        return np.take(ranks, self.group, axis=1), np.einsum("bg,bg,bg->b", inside, ranks, ranks)


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
        weights = counts.T / counts.shape[1]
        variance = (values**2) @ weights - (values @ weights) ** 2
        variance = np.where(variance < 1e-12, np.nan, variance)  # constant in this resample
        covariance = (x * y) @ weights - (x @ weights) * (y @ weights)
        result: NDArray[np.float64] = covariance / np.sqrt(variance[1:] * variance[0])
        return result

    return statistic


_STATISTICS = {"spearman": _spearman, "pearson": _pearson}


def resample(
    predicted: NDArray[Any],
    gold: NDArray[Any],
    *,
    metric: Metric = "spearman",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return correlations (methods, resamples) of predicted (methods, n) with gold (n,) in resamples of the n pairs.

    The draws depend on `seed` and `gold` alone: all methods on a task share them, also over several calls; two tasks of
    equal size do not. Ranks are made anew in each resample, ties at their average. NaN where a side is constant.
    """
    n = len(gold)
    statistic = _STATISTICS[metric](predicted, gold)
    digest = hashlib.sha256(gold.astype(np.float64).tobytes()).digest()
    generator = np.random.default_rng([seed, *np.frombuffer(digest, np.uint32).tolist()])
    samples = np.empty((len(predicted), resamples))
    block = max(1, _BLOCK // n)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = generator.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        samples[:, start : start + rows] = statistic(counts)
    return samples


@dataclass(frozen=True)
class Bootstrap:
    """Percentile intervals of methods, and of the difference of every two (row minus column) with its p-value."""

    value: NDArray[np.float64]  # (methods,), as measured
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    difference: NDArray[np.float64]  # (methods, methods)
    difference_low: NDArray[np.float64]
    difference_high: NDArray[np.float64]
    p: NDArray[np.float64]


def paired_bootstrap(
    predicted: NDArray[Any],
    gold: NDArray[Any],
    *,
    metric: Metric = "spearman",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Bootstrap:
    """Compare methods by the correlations of predicted (methods, n) with gold (n,) over resamples of the n pairs."""
    once = np.ones((1, len(gold)), np.int64)
    value = _STATISTICS[metric](predicted, gold)(once)[:, 0]
    return summarise(value, resample(predicted, gold, metric=metric, resamples=resamples, seed=seed))


def summarise(value: NDArray[np.float64], samples: NDArray[np.float64]) -> Bootstrap:
    """Return intervals and p-values from measured values (methods,) and their samples (methods, resamples).

    Raises ContractError where there is no resample in which every method has a value.
    """
    samples = samples[:, np.isfinite(samples).all(axis=0)]
    if not samples.shape[1]:
        raise ContractError("no resample in which every method has a correlation: the scores of one are all equal.")
    tails = [LEVEL / 2, 1 - LEVEL / 2]
    low, high = np.quantile(samples, tails, axis=1)
    rows = [samples[row] - samples for row in range(len(samples))]  # one method against all at a time: memory
    lows, highs = np.stack([np.quantile(row, tails, axis=1) for row in rows], axis=1)
    p = np.stack([p_value(row) for row in rows])
    return Bootstrap(value, low, high, value[:, None] - value, lows, highs, p)


def p_value(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return two-sided p-values (...) of sampled differences (..., resamples): twice the smaller side of zero.

    One is added to both counts (Davison and Hinkley 1997, section 4.2.5), so that no p is 0.
    """
    count = differences.shape[-1] + 1
    below, above = ((side.sum(axis=-1) + 1) / count for side in (differences <= 0, differences >= 0))
    result: NDArray[np.float64] = np.minimum(1.0, 2 * np.minimum(below, above))
    return result


def tied_with(best: int, samples: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which methods (methods,) do not differ significantly from method `best`, by samples (methods, resamples).

    At 5%, two-sided, every method by itself: with many methods, more is asked of the best than of any one pair.
    """
    samples = samples[:, np.isfinite(samples).all(axis=0)]
    tied: NDArray[np.bool_] = p_value(samples[best] - samples) >= LEVEL
    return tied


@dataclass(frozen=True)
class Williams:
    """Williams' test: t, its degrees of freedom, and the two-sided p."""

    t: float
    df: int
    p: float


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> Williams:
    """Test whether two methods' correlations with one gold, over the same n pairs, are equal.

    `r_ab` is the correlation of the two methods' scores. Williams (1959); Steiger (1980) recommends it and calls it T2.
    For Spearman's rho it is an approximation. Raises ContractError for fewer than four pairs, or correlations that
    cannot occur together.
    """
    from scipy import stats

    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    if n < 4 or determinant < -1e-9:
        raise ContractError(f"Williams' test: n={n} with correlations {r_a}, {r_b} and {r_ab} cannot be tested.")
    if r_a == r_b:
        return Williams(0.0, n - 3, 1.0)
    mean = (r_a + r_b) / 2
    spread = 2 * (n - 1) / (n - 3) * max(determinant, 0.0) + mean**2 * (1 - r_ab) ** 3
    t = (r_a - r_b) * float(np.sqrt((n - 1) * (1 + r_ab) / spread)) if spread else float(np.copysign(np.inf, r_a - r_b))
    return Williams(t, n - 3, float(2 * stats.t.sf(abs(t), n - 3)))
