"""How often `choose` errs, by simulation, for docs/choose.md: `python tests/benchmark/choosing/simulate.py`."""

from __future__ import annotations

import sys

import numpy as np

from benchmark.choosing.data import Kind, Texts, may_be_best, sampled, threshold

_SHAPES = {  # cosines of unequal and of equal pairs: mean and spread of normal distributions; the share of equal pairs
    "equal spreads": ((0.4, 0.15), (0.7, 0.15), 0.5),
    "few equal pairs": ((0.4, 0.15), (0.7, 0.15), 0.2),
    "unequal spreads": ((0.4, 0.2), (0.75, 0.1), 0.5),
}


def wrong_winners(kind: Kind, draws: int = 2_000, units: int = 100, encoders: int = 2) -> float:
    """Return the share of draws in which one of equally good encoders is told apart from all others."""
    wrong = 0
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        truth = generator.normal(size=units)
        gold = (truth > 0).astype(float) if kind == "binary" else truth
        shared = generator.normal(size=units)  # encoders err on the same texts
        values = [truth + shared + generator.normal(size=units) for _ in range(encoders)]
        if kind == "retrieval":
            values = [1 / (1 + np.exp(-one)) for one in values]
        places = np.arange(units)
        sample = sampled(Texts(kind, "", [], places, places, gold), values)
        wrong += int(may_be_best(sample).sum() == 1)
    return wrong / draws


def coverage(draws: int = 2_000, pairs: int = 300) -> dict[str, float]:
    """Return how often the interval of a threshold holds the best one of the population, by the shape of cosines.

    The intervals are of 400 resamples, not 2,000, which takes a fifth of the time.
    """
    from scipy import stats

    found = {}
    at = np.linspace(0, 1.2, 12_001)
    for name, (low, high, share) in _SHAPES.items():
        best = at[(share * stats.norm.sf(at, *high) + (1 - share) * stats.norm.cdf(at, *low)).argmax()]
        inside = 0
        for seed in range(draws):
            generator = np.random.default_rng(seed)
            gold = (generator.random(pairs) < share).astype(float)
            cosines = np.where(gold > 0, generator.normal(*high, pairs), generator.normal(*low, pairs))
            one = threshold(cosines, gold, seed, resamples=400)
            inside += (one["threshold low"] or 0) <= best <= (one["threshold high"] or 0)
        found[name] = inside / draws
    return found


if __name__ == "__main__":
    number = int(sys.argv[1]) if sys.argv[1:] else 2_000
    for one in ("retrieval", "binary", "score"):
        print(f"{one}: a wrong winner in {wrong_winners(one, number):.2%} of {number:,} draws", flush=True)
    for name, share in coverage(number).items():
        print(f"thresholds, {name}: the interval holds the best one in {share:.1%} of {number:,} draws", flush=True)
