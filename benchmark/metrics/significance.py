"""Significance of differences between methods, and the set of possibly best ones, with the noise of pairs and seeds.

A method's score is a mean over seeds of a correlation over pairs; other pairs and other seeds would give another score.
The variance from pairs comes from a bootstrap whose draws all methods share, the variance from seeds from the sample
variance over a method's seeds. A method with no seed or one seed has no variance from seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.metrics.bootstrap import RESAMPLES, Metric, measured, resample
from zoo.errors import ContractError

LEVEL = 0.05  # p-values below it are significant; the confidence of intervals and sets of the best is 1 - LEVEL

_EQUAL = 1e-11  # the difference that rounding of doubles can leave between equal scores x100
_FAR = 6.0  # standard deviations: a lead larger than chance gives, however many methods are compared
_SHRINKAGE_DF = 2.0  # degrees of freedom of the median variance over seeds, added to those of a method's own

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Scores of methods (methods,), their values in resamples of the pairs (methods, resamples), and seed variances.

    `seed_variance` (methods,) is the variance of the mean: the sample variance over seeds, divided by their number.
    `seed_df` is their number less one; 0 where there is no such variance. `pairs` is the number of pairs.
    """

    value: Matrix
    drawn: Matrix
    seed_variance: Matrix
    seed_df: Matrix
    pairs: int


def sample(by_seed: Sequence[Sequence[float] | Matrix], drawn: Matrix, pairs: int) -> Sample:
    """Return the sample of methods from their scores by seed and the resampled means over seeds.

    Raises ContractError unless at least two resamples have a value for every method.
    """
    drawn = drawn[:, np.isfinite(drawn).all(axis=0)]
    if drawn.shape[1] < 2:
        raise ContractError("no resample in which every method has a correlation: the scores of one are all equal.")
    scores = [np.asarray(one, dtype=np.float64) for one in by_seed]
    variance = [one.var(ddof=1) / len(one) if len(one) > 1 else 0.0 for one in scores]
    mean = np.array([one.mean() for one in scores])
    return Sample(mean, drawn, np.array(variance), np.array([len(one) - 1.0 for one in scores]), pairs)


def sample_pairs(
    predicted: Sequence[NDArray[Any]],
    gold: NDArray[Any],
    *,
    metric: Metric = "spearman",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Sample:
    """Return the sample of methods, each with predictions (seeds, n) for n pairs with gold scores (n,)."""
    every = np.concatenate([np.atleast_2d(one) for one in predicted])
    ends = np.cumsum([len(np.atleast_2d(one)) for one in predicted])[:-1]
    drawn = resample(every, gold, metric=metric, resamples=resamples, seed=seed)
    means = np.array([part.mean(axis=0) for part in np.split(drawn, ends)])
    return sample(np.split(measured(every, gold, metric), ends), means, len(gold))


@dataclass(frozen=True)
class Differences:
    """Row minus column (methods, methods): standard errors, degrees of freedom, 95% intervals and two-sided p."""

    value: Matrix
    pairs_error: Matrix  # standard error from the pairs alone
    seeds_error: Matrix  # standard error from the seeds alone
    error: Matrix  # standard error from both
    df: Matrix
    low: Matrix
    high: Matrix
    p: Matrix


def differences(one: Sample) -> Differences:
    """Compare every two methods by Welch's t (1947), with Satterthwaite's degrees of freedom (1946)."""
    from scipy.special import stdtr, stdtrit

    value = one.value[:, None] - one.value
    of_pairs, of_seeds = _pair_variance(one), one.seed_variance[:, None] + one.seed_variance
    np.fill_diagonal(of_seeds, 0.0)
    variance, df = _welch(of_pairs, one.seed_variance[:, None], one.seed_variance, one.seed_df[:, None], one)
    np.fill_diagonal(variance, 0.0)
    error = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(np.abs(value) < _EQUAL, 0.0, value / error)
    margin = stdtrit(df, 1 - LEVEL / 2) * error
    p = 2 * stdtr(df, -np.abs(t))
    return Differences(value, np.sqrt(of_pairs), np.sqrt(of_seeds), error, df, value - margin, value + margin, p)


def not_told_apart(one: Sample, seed: int = 0) -> NDArray[np.bool_]:
    """Return which methods (methods,) may be the best: a set that contains the truly best one 95% of the time.

    These are comparisons with the best (Hsu's MCB; Edwards and Hsu 1983). A method is left out where another method's
    lead over it exceeds the 95% quantile of the largest lead over it that equally good methods have by chance. Leads
    are measured in Welch's t, made comparable by a normal approximation at their own degrees of freedom (Wallace 1959).

    With few seeds, the largest t is larger than the distribution of t implies, for two reasons. First, a variance over
    three seeds is often small by chance, and then its t is large; therefore each variance is shrunk towards the median
    of all methods, which counts as two more seeds. Second, the true noise of the seeds is known just as poorly;
    therefore each simulated lead uses the resampled pairs, a seed variance drawn from the fiducial distribution of the
    measured one, normal noise of that variance, and a newly drawn measured variance.
    """
    methods, resamples = one.drawn.shape
    between, df = _pair_variance(one), np.maximum(one.seed_df, 1)[:, None]
    generator = np.random.default_rng([seed, methods])
    noise = one.drawn - one.drawn.mean(axis=1, keepdims=True)
    true = one.seed_variance[:, None] * df / generator.chisquare(df, (methods, resamples))
    noise += np.sqrt(true) * generator.standard_normal((methods, resamples))
    redrawn = _shrunk(one, true * generator.chisquare(df, (methods, resamples)) / df)
    seeds = _shrunk(one, one.seed_variance[:, None])[:, 0]
    shrunk = replace(one, seed_df=np.where(one.seed_df > 0, one.seed_df + _SHRINKAGE_DF, 0))
    result = np.ones(methods, np.bool_)
    for i in range(methods):
        lead = _normal(one.value - one.value[i], *_welch(between[i], seeds, seeds[i], shrunk.seed_df, shrunk, i))
        if lead.max() > _FAR:
            result[i] = False
        elif lead.max() > 0:
            variance, freedom = _welch(between[i][:, None], redrawn, redrawn[i], shrunk.seed_df[:, None], shrunk, i)
            result[i] = lead.max() <= np.quantile(_normal(noise - noise[i], variance, freedom).max(axis=0), 1 - LEVEL)
    return result


def _shrunk(one: Sample, variance: Matrix) -> Matrix:
    """Return variances over seeds (methods, any), each shrunk towards the median of all methods that have seeds."""
    has = one.seed_df > 0
    if not has.any():
        return variance
    df = one.seed_df[has, None]
    result = np.zeros_like(variance)
    result[has] = (_SHRINKAGE_DF * np.median(one.seed_variance[has]) + df * variance[has]) / (_SHRINKAGE_DF + df)
    return result


def _pair_variance(one: Sample) -> Matrix:
    """Return the variance of the difference of every two methods (methods, methods) that comes from the pairs."""
    centred = one.drawn - one.drawn.mean(axis=1, keepdims=True)
    products = centred @ centred.T / (centred.shape[1] - 1)
    own = np.diagonal(products)
    result: Matrix = np.maximum(own[:, None] + own - 2 * products, 0.0)
    np.fill_diagonal(result, 0.0)
    return result


def _welch(
    of_pairs: Matrix, first: Matrix, second: Matrix, df: Matrix, one: Sample, i: int | None = None
) -> tuple[Matrix, Matrix]:
    """Return the variance of differences and its degrees of freedom by Satterthwaite.

    `first` and `second` are the seed variances of the two sides, and `df` the degrees of freedom of the first; those of
    the second are method `i`'s, or without `i` those of every method.
    """
    pairs_df = max(1, min(one.pairs, one.drawn.shape[1]) - 1)
    other_df = np.maximum(one.seed_df if i is None else one.seed_df[i], 1)
    variance = of_pairs + first + second
    parts = of_pairs**2 / pairs_df + first**2 / np.maximum(df, 1) + second**2 / other_df
    return variance, np.where(parts > 0, variance**2 / np.where(parts > 0, parts, 1), pairs_df)


def _normal(difference: Matrix, variance: Matrix, df: Matrix) -> Matrix:
    """Return t as the normal quantile of about the same probability (Wallace 1959), 0 for equal values."""
    equal = np.abs(difference) < _EQUAL
    squared = difference**2 / np.where(equal | (variance <= 0), 1, variance)
    result = np.sign(difference) * (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(squared / df))
    return np.where(equal, 0.0, np.where(variance <= 0, np.copysign(np.inf, difference), result))


@dataclass(frozen=True)
class Williams:
    """Williams' test: t, its degrees of freedom, and the two-sided p."""

    t: float
    df: int
    p: float


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> Williams:
    """Test whether two methods' correlations with the same gold scores, over the same n pairs, are equal.

    The test covers the noise of pairs only, not that of seeds. `r_ab` is the correlation of the two methods' scores.
    Williams (1959); Steiger (1980) recommends the test and calls it T2. For Spearman's rho it is an approximation.
    Raises ContractError for fewer than four pairs, or correlations that cannot occur together.
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
