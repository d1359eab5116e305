"""Detectable differences, and the seeds or pairs needed to show a difference, from the noise of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmark.stats.mcb import LEVEL, Sample, mixed_df, seeds_df

POWER = 0.8  # the share of repetitions in which `detectable` differences are significant
MOST_SEEDS = 100  # that anybody is told to train


@dataclass(frozen=True)
class Noise:
    """Standard deviations: of a difference by pairs, and of a score by seeds.

    `sides` is 2 if both methods have noise of seeds, else 1.
    """

    pairs: float
    seeds: float
    pairs_df: int
    sides: int = 2


def median_noise(sample: Sample, seeds: Sequence[int]) -> Noise | None:
    """Return the median noise of the methods; `seeds` (methods,) are their numbers of seeds, 0 to leave a method out.

    The noise of seeds is that of the methods with several. None for fewer than two methods. Half of all variances over
    n seeds lie below the true variance times chi-square's median, so this factor is taken out.
    """
    from scipy.special import chdtri

    number = np.array(seeds)
    has = (number > 1) & (sample.seed_df > 0)
    of = has if has.sum() > 1 else number > 0
    if of.sum() < 2:
        return None
    df = sample.seed_df[has]
    variance = np.median(sample.seed_variance[has] * number[has] * df / chdtri(df, 0.5)) if has.any() else 0.0
    between = np.sqrt(sample.between[np.ix_(of, of)][np.triu_indices(of.sum(), 1)])
    return Noise(float(np.median(between)), float(np.sqrt(variance)), sample.pairs_df)


def detectable(noise: Noise, seeds: int, draws: int = 4000) -> float:
    """Return the difference of two methods, of 2 or more seeds each, with p < 0.05 in 80% of simulated tests."""
    from scipy.special import stdtrit

    generator, df = np.random.default_rng(0), np.full((2, draws), seeds - 1.0)
    drawn = noise.seeds**2 / seeds * generator.chisquare(seeds - 1.0, (2, draws)) / (seeds - 1.0)
    if noise.sides == 1:
        drawn[1], df[1] = 0.0, np.inf
    of_pairs = np.full(draws, noise.pairs**2)
    quantile = stdtrit(mixed_df(of_pairs, noise.pairs_df, drawn.sum(axis=0), seeds_df(*drawn, *df)), 1 - LEVEL / 2)
    error = np.sqrt(noise.pairs**2 + noise.sides * noise.seeds**2 / seeds) * generator.standard_normal(draws)
    return float(np.quantile(quantile * np.sqrt(of_pairs + drawn.sum(axis=0)) - error, POWER))


def seeds_needed(noise: Noise, difference: float, most: int = MOST_SEEDS) -> int | None:
    """Return the least number of seeds for a `detectable` difference; None above `most`."""
    low, high = 1, most
    if detectable(noise, high) > difference:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if detectable(noise, middle) <= difference else (middle, high)
    return high


def seen_without_seeds(noise: Noise) -> float:
    """Return the difference of two methods without seeds with p < 0.05 in 80% of repetitions."""
    from scipy.special import stdtrit

    return noise.pairs * float(stdtrit(noise.pairs_df, 1 - LEVEL / 2) + stdtrit(noise.pairs_df, POWER))


def pairs_needed(noise: Noise, pairs: int, difference: float) -> int:
    """Return how many pairs of the same kind show a difference of two methods without seeds."""
    return math.ceil(pairs * (seen_without_seeds(noise) / difference) ** 2)
