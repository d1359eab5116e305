"""Significance of differences between methods, and the set of possibly best methods, with the noise of pairs and seeds.

A method's score is a mean over seeds of a correlation over pairs. The variance from pairs comes from their influences
(`benchmark.stats.draws`), or from a bootstrap with shared resamples. The variance from seeds is the sample variance;
a method without seeds has none. For one seed it is unknown: nothing is said of its differences, unless other methods
lend theirs. Methods with shared randomness of a seed are compared seed by seed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmark.stats.bootstrap import RESAMPLES, Metric, measured, resample
from zoo.errors import ContractError

LEVEL = 0.05  # p-values below it are significant; the confidence of intervals and sets of the best is 1 - LEVEL

LEADS = 2_000  # simulated leads of a set of the best
_EQUAL = 1e-11  # the difference that rounding of doubles can leave between equal scores x100
_ROUNDING = 1e-12  # the share of the largest variance of a difference that rounding leaves between equal methods
_FAR_APART = 1e30  # the ratio of a lead without any noise; quantiles of infinite ones are not numbers
_FAR = LEVEL / 20  # the error of leaving out methods that are far below another, part of LEVEL
_NO_WIDTH = 1e-5  # ends of an interval x100 that are nearer have no width between them
_BALANCE = 0.99  # the quantile of a lead by itself in whose multiples leads are compared with one another

Matrix = NDArray[np.float64]


def with_width(low: Matrix, high: Matrix) -> tuple[Matrix, Matrix]:
    """Return ends of intervals, NaN for those without width: items that are all alike show no noise."""
    # Ends may be infinite.
    with np.errstate(invalid="ignore"):
        flat = high - low < _NO_WIDTH
    return np.where(flat, np.nan, low), np.where(flat, np.nan, high)


@dataclass(frozen=True)
class SeedNoise:
    """The variance of a single seed's score, and its degrees of freedom; NaN and 0 if unknown."""

    variance: float = float("nan")
    df: float = 0.0


@dataclass(frozen=True)
class Sample:
    """Scores of methods (methods,), and the variances of their differences.

    Args:
        between: The variance (methods, methods) of a difference from the pairs.
        between_df: Its degrees of freedom.
        seed_variance: The sample variance (methods,) over seeds, divided by their number; NaN for one seed.
        seed_df: The number of seeds less 1; 0 without such a variance.
        pairs: The number of pairs.
        shared: The variance (methods, methods) over seeds of the difference of methods with shared randomness, else
            NaN.
        drawn: Values (methods, resamples) in resamples, if any.
    """

    value: Matrix
    between: Matrix
    between_df: Matrix
    seed_variance: Matrix
    seed_df: Matrix
    pairs: int
    shared: Matrix
    drawn: Matrix

    @property
    def pairs_df(self) -> int:
        """Degrees of freedom of the variances from pairs: their median."""
        return max(1, round(float(np.median(self.between_df))))


def sample(
    by_seed: Sequence[Sequence[float] | Matrix],
    drawn: Matrix,
    pairs: int,
    one_seed: Mapping[int, SeedNoise] | None = None,
    *,
    least: float | Matrix = 0.0,
    shared: Collection[tuple[int, int]] = (),
) -> Sample:
    """Return the sample of methods from their scores by seed and the resampled means over seeds.

    Raises ContractError without two resamples of all methods.
    """
    drawn = drawn[:, np.isfinite(drawn).all(axis=0)]
    if drawn.shape[1] < 2:
        raise ContractError("no resample in which every method has a correlation: the scores of one are all equal.")
    df = np.full((len(drawn), len(drawn)), max(1, min(pairs, drawn.shape[1]) - 1))
    return sampled(by_seed, (_variance_of(drawn), df), pairs, one_seed, least=least, shared=shared, drawn=drawn)


def sampled(
    by_seed: Sequence[Sequence[float] | Matrix],
    between: tuple[Matrix, Matrix],
    pairs: int,
    one_seed: Mapping[int, SeedNoise] | None = None,
    *,
    least: float | Matrix = 0.0,
    shared: Collection[tuple[int, int]] = (),
    drawn: Matrix | None = None,
) -> Sample:
    """Return the sample of methods from their scores by seed.

    Args:
        by_seed: The scores of each method, by seed.
        between: The variances of their differences from the pairs, and the degrees of freedom (see `Sample`).
        pairs: The number of pairs.
        one_seed: The places of methods trained with one seed, and the noise lent to them, if known; other methods with
            a single score have no seeds. A loan may serve several methods, so each has half its degrees of freedom.
        least: The floor of the variance of a seed's score, for all methods or for each.
        shared: The places of two methods with shared randomness, their seeds in the same order.
        drawn: The values in resamples, if any.
    """
    scores = [np.asarray(of_method, dtype=np.float64) for of_method in by_seed]
    floors = np.broadcast_to(least, len(scores))
    variance = np.array(
        [
            max(of_method.var(ddof=1), floor) / len(of_method) if len(of_method) > 1 else 0.0
            for of_method, floor in zip(scores, floors, strict=True)
        ]
    )
    df = np.array([len(of_method) - 1.0 for of_method in scores])
    for place, noise in (one_seed or {}).items():
        variance[place], df[place] = noise.variance, noise.df / 2
    paired = np.full((len(scores), len(scores)), np.nan)
    for i, j in shared:
        paired[i, j] = paired[j, i] = (scores[i] - scores[j]).var(ddof=1) / len(scores[i])
    value, none = np.array([of_method.mean() for of_method in scores]), np.empty((len(scores), 0))
    return Sample(value, *between, variance, df, pairs, paired, none if drawn is None else drawn)


def sample_pairs(
    predicted: Sequence[NDArray[np.floating]],
    gold: NDArray[np.floating],
    *,
    metric: Metric = "spearman",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Sample:
    """Return the sample of methods on the pairs of a task.

    Args:
        predicted: Scores (seeds, n) of each method, or (n,) without seeds; for (1, n) the noise of seeds is unknown.
        gold: Gold scores (n,).
        metric: The statistic: spearman, pearson, auc or accuracy.
        resamples: The number of bootstrap resamples.
        seed: The seed of the resamples.
    """
    every = np.concatenate([np.atleast_2d(scores) for scores in predicted])
    ends = np.cumsum([len(np.atleast_2d(scores)) for scores in predicted])[:-1]
    drawn = resample(every, gold, metric=metric, resamples=resamples, seed=seed)
    means = np.array([part.mean(axis=0) for part in np.split(drawn, ends)])
    one_seed = {place: SeedNoise() for place, scores in enumerate(predicted) if scores.ndim == 2 and len(scores) == 1}
    return sample(np.split(measured(every, gold, metric), ends), means, len(gold), one_seed)


def pooled_noise(by_seed: Sequence[Sequence[float] | Matrix]) -> SeedNoise:
    scores = [np.asarray(row, dtype=np.float64) for row in by_seed if len(row) > 1]
    df = sum(len(score) - 1 for score in scores)
    return (
        SeedNoise(float(sum(((score - score.mean()) ** 2).sum() for score in scores)) / df, df) if df else SeedNoise()
    )


@dataclass(frozen=True)
class Differences:
    """Row minus column (methods, methods): standard errors, degrees of freedom, 95% intervals and two-sided p.

    All but `value` and `pairs_error` are NaN if the noise of a method's seeds is unknown; the ends also where no item
    differs from another.
    """

    value: Matrix
    pairs_error: Matrix  # standard error from the pairs alone
    seeds_error: Matrix  # standard error from the seeds alone
    error: Matrix  # standard error from both
    df: Matrix
    low: Matrix
    high: Matrix
    p: Matrix


def differences(sample: Sample) -> Differences:
    """Compare every two methods by a t-test with the degrees of freedom of their own comparison (see `mixed_df`).

    Args:
        sample: The scores of all methods, and their noise.

    Returns:
        The differences, their errors, 95% intervals and p-values, each (methods, methods).
    """
    from scipy.special import stdtr, stdtrit

    value = sample.value[:, None] - sample.value
    of_pairs, df = sample.between, np.where(sample.seed_df > 0, sample.seed_df, np.inf)
    alike = np.isfinite(sample.shared)
    of_seeds = np.where(alike, sample.shared, sample.seed_variance[:, None] + sample.seed_variance)
    np.fill_diagonal(of_seeds, 0.0)
    variance = of_pairs + of_seeds
    of_seeds_df = np.where(alike, df, seeds_df(sample.seed_variance[:, None], sample.seed_variance, df[:, None], df))
    df = mixed_df(of_pairs, sample.between_df, of_seeds, of_seeds_df)
    np.fill_diagonal(df, np.diagonal(sample.between_df))
    error = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where((np.abs(value) < _EQUAL) & np.isfinite(error), 0.0, value / error)
    few, places = np.unique(df, return_inverse=True)
    margin = stdtrit(few, 1 - LEVEL / 2)[places].reshape(df.shape) * error
    # Each pair once: A - B has the p of B - A.
    p, upper = np.empty_like(t), np.triu_indices(len(t))
    p[upper] = p.T[upper] = 2 * stdtr(df[upper], -np.abs(t[upper]))
    low, high = with_width(value - margin, value + margin)
    return Differences(value, np.sqrt(of_pairs), np.sqrt(of_seeds), error, df, low, high, p)


def own_noise(sample: Sample) -> tuple[Matrix, Matrix]:
    """Return the standard errors (methods,) of scores by themselves from resampled pairs, and t's 97.5% quantiles.

    The quantiles are those of pairs and seeds together (see `mixed_df`).
    """
    from scipy.special import stdtrit

    error = sample.drawn.std(axis=1, ddof=1)
    df = mixed_df(error**2, float(sample.pairs_df), sample.seed_variance, np.maximum(sample.seed_df, 1))
    return error, stdtrit(df, 1 - LEVEL / 2)


def equivalence(result: Differences, margin: float) -> Matrix:
    """Return p (methods, methods) of two one-sided tests for a difference within a margin (Schuirmann 1987)."""
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        p: Matrix = stdtr(result.df, (np.abs(result.value) - margin) / result.error)
    return p


def seeds_df(first: Matrix, second: Matrix, one_df: Matrix, other_df: Matrix) -> Matrix:
    """Return the degrees of freedom of both sides' variances over seeds together; infinite if there are none.

    They are Satterthwaite's (1946), but at most twice those of the side with fewer seeds: its large variance may be
    small by chance.
    """
    parts = first**2 / one_df + second**2 / other_df
    together = np.divide((first + second) ** 2, parts, out=np.full(parts.shape, np.inf), where=parts > 0)
    result: Matrix = np.minimum(together, 2 * np.minimum(one_df, other_df))
    return result


def mixed_df(of_pairs: Matrix, pairs_df: Matrix | float, of_seeds: Matrix, seeds_df: Matrix | float) -> Matrix:
    """Return the degrees of freedom of differences, from their variances of pairs and of seeds.

    The 97.5% quantile of t is the mean of the pairs' and the seeds', weighted by their variances (Cochran 1964); the
    degrees of freedom are those of that quantile. Satterthwaite's would be too many if a large variance over few seeds
    is small by chance: two seeds against none would err in 13% of comparisons.
    """
    from scipy.special import stdtridf, stdtrit

    variance = of_pairs + of_seeds
    share = np.divide(of_seeds, variance, out=np.zeros(variance.shape), where=variance != 0)  # NaN stays NaN
    if not share.any():
        return np.broadcast_to(pairs_df, share.shape).copy()
    seeds_df = np.where(share > 0, seeds_df, pairs_df)
    quantile = (1 - share) * stdtrit(pairs_df, 1 - LEVEL / 2) + share * stdtrit(seeds_df, 1 - LEVEL / 2)
    mixed = np.array(stdtridf(1 - LEVEL / 2, quantile))
    result: Matrix = np.where(share == 0, pairs_df, np.where(share == 1, seeds_df, mixed))
    return result


def best_set(sample: Sample, seed: int = 0, only: Collection[int] | None = None) -> NDArray[np.bool_]:
    """Return which methods (methods,) may be the best: a set with the truly best method 95% of the time.

    These are comparisons with the best (Hsu's MCB; Edwards and Hsu 1983). A method is left out if another method's lead
    over it exceeds the 95% quantile of the largest chance lead of equally good methods.

    A lead is divided by its standard error and by the 99% quantile of that ratio, the mean of those of the t of pairs
    and of the seeds of both sides, weighted by their variances (Cochran 1964): leads between methods of few seeds do
    not widen the set for others. Simulated leads give the chance. Each has resampled pairs, for each method a variance
    over seeds from the fiducial distribution of the measured variance, normal noise of that variance, and a newly
    measured variance.

    Methods far below the method in question are left out of its quantile: those with a negative lead beyond what chance
    gives in 99.75% of draws to the largest of all leads. The quantile is then that of 95.25%, so that both errors
    together are 5% (Romano, Shaikh and Wolf 2014).

    Seeds count as independent here: shared seeds make leads smaller, and the set no smaller than it must be.
    A method's draws follow its score and its noise, so that the order of methods decides nothing.

    Args:
        sample: The scores of all methods, and their noise.
        seed: The seed of the simulated leads.
        only: The methods in question, by default all; the others are given as possibly best.

    Raises:
        ContractError: The noise of a method's seeds is unknown.
    """
    from scipy.special import stdtrit

    if not np.isfinite(sample.seed_variance).all():
        raise ContractError("a method has one seed, and its noise is not known; leave it out, or train more seeds.")
    methods, resamples = len(sample.value), sample.drawn.shape[1] or LEADS
    df, seeds = np.maximum(sample.seed_df, 1), sample.seed_variance
    largest = sample.between.max()
    between = np.where(sample.between > _ROUNDING * largest, sample.between, 0.0)
    content = np.stack([-sample.value, seeds, df, between.sum(axis=0) / (largest or 1.0)], axis=1).round(9)
    order = np.lexsort(content.T[::-1])
    drawn_at = np.argsort(order)

    def ratios(lead: Matrix, i: int, of_seeds: Matrix, level: float) -> Matrix:
        """Return leads (methods, any) over method i in multiples of their own quantiles."""
        quantiles = stdtrit(df, level)[:, None]
        of_pairs = between[i][:, None]
        scale = (
            of_pairs * stdtrit(sample.between_df[i][:, None], level) + of_seeds * quantiles + of_seeds[i] * quantiles[i]
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = lead * np.sqrt(of_pairs + of_seeds + of_seeds[i]) / scale
        without_noise = np.copysign(_FAR_APART, lead)
        return np.where(np.abs(lead) < _EQUAL, 0.0, np.where(scale > 0, ratio, without_noise))

    def chi_square() -> Matrix:
        return generator.chisquare(df[order, None], (methods, resamples))[drawn_at] / df[:, None]

    generator = np.random.default_rng([seed, methods])
    noise = _noise(sample, generator, resamples, drawn_at)
    true = seeds[:, None] / chi_square()
    noise += np.sqrt(true) * generator.standard_normal((methods, resamples))[drawn_at]
    redrawn = true * chi_square()
    result = np.ones(methods, np.bool_)
    known: dict[bytes, np.bool_] = {}
    for i in range(methods) if only is None else only:
        if (place := content[i].tobytes()) in known:
            result[i] = known[place]
            continue
        lead = (sample.value - sample.value[i])[:, None]
        if ratios(lead, i, seeds[:, None], 1 - _FAR / methods).max() > 1:  # by Bonferroni, without a simulation
            result[i] = False
        elif (measured_ratios := ratios(lead, i, seeds[:, None], _BALANCE)[:, 0]).max() > 0:
            # Methods without any noise between them have the same draws, up to rounding.
            noisy = between[i][:, None] + redrawn + redrawn[i] > 0
            chance = ratios(np.where(noisy, noise - noise[i], 0.0), i, redrawn, _BALANCE)
            near = measured_ratios >= -np.quantile(chance.max(axis=0), 1 - _FAR)
            result[i] = measured_ratios.max() <= np.quantile(chance[near].max(axis=0), 1 - LEVEL + _FAR)
        known[place] = result[i]
    return result


def unsettled(sample: Sample, best: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the methods (methods,) kept among the possibly best only by their own seeds.

    With the median number of seeds, and at most the median variance, they would be left out.
    """
    trained = sample.seed_df > 0
    result = np.zeros(len(best), np.bool_)
    if best.sum() < 2 or not trained.any():
        return result
    variance, df = np.median(sample.seed_variance[trained]), np.median(sample.seed_df[trained])
    for i in np.flatnonzero(best & trained & ((sample.seed_variance > variance) | (sample.seed_df < df))):
        of_seeds, of_df = sample.seed_variance.copy(), sample.seed_df.copy()
        of_seeds[i], of_df[i] = min(of_seeds[i], variance), max(of_df[i], df)
        result[i] = not best_set(replace(sample, seed_variance=of_seeds, seed_df=of_df), only=[int(i)])[i]
    return result


def _variance_of(drawn: Matrix) -> Matrix:
    """Return (methods, methods) over resamples of the pairs."""
    centred = drawn - drawn.mean(axis=1, keepdims=True)
    products = centred @ centred.T / (centred.shape[1] - 1)
    variances = np.diagonal(products)
    result: Matrix = np.maximum(variances[:, None] + variances - 2 * products, 0.0)
    np.fill_diagonal(result, 0.0)
    return result


def _noise(sample: Sample, generator: np.random.Generator, resamples: int, drawn_at: NDArray[np.intp]) -> Matrix:
    """Return noise of the pairs (methods, resamples), from resamples or from t; `drawn_at` places the draws."""
    if sample.drawn.size:
        noise: Matrix = sample.drawn - sample.drawn.mean(axis=1, keepdims=True)
        return noise
    centred = sample.between - sample.between.mean(axis=0)
    values, vectors = np.linalg.eigh((centred - centred.mean(axis=1, keepdims=True)) / -2)
    # Of all roots the symmetric one, which no sign or order of eigenvectors changes.
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    normal = root @ generator.standard_normal((len(values), resamples))[drawn_at]
    result: Matrix = normal * np.sqrt(sample.pairs_df / generator.chisquare(sample.pairs_df, resamples))
    return result
