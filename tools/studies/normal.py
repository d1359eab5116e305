"""How often the comparisons err where all noise is normal: `python -m tools.studies.normal`.

Scores, noise of pairs and noise of seeds are drawn; no records are needed. `--part normal` counts p < 0.05 of equal
recipes of few and of unlike seeds, how often each of forty equally good rows is in the set of the best, and, for the
power below tables, how often a difference shows. `--part shared` counts p < 0.05 of equal rows whose seeds share noise,
and of rows whose seeds are skewed or collapse.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmark.stats.mcb import Sample, SeedNoise, best_set, differences, sample
from benchmark.stats.power import Noise, detectable, seeds_needed
from tools.floors import least_deviation

Scores = NDArray[np.float64]
# The number of seeds (0: a row without seeds) and their spread.
Side = tuple[int, float]
EQUAL: dict[str, tuple[Side, Side]] = {
    "1/1": ((1, 1), (1, 1)),
    "1/3": ((1, 1), (3, 1)),
    "2/0": ((2, 1), (0, 0)),
    "3/0": ((3, 1), (0, 0)),
    "2/2": ((2, 1), (2, 1)),
    "2/3": ((2, 1), (3, 1)),
    "2/3, spreads 0.3 : 1": ((2, 0.3), (3, 1)),
    "3/3": ((3, 1), (3, 1)),
    "3/3, spreads 1 : 0.1": ((3, 1), (3, 0.1)),
    "5/5": ((5, 1), (5, 1)),
    "3/5, spreads 1 : 0.1": ((3, 1), (5, 0.1)),
    "5/3, spreads 1 : 0.1": ((5, 1), (3, 0.1)),
}
FORTY: dict[str, list[Side]] = {
    "no seeds": [(0, 0)] * 40,
    "3 seeds": [(3, 1)] * 40,
    "3 seeds, half of spread 0.1, half of 1.2": [(3, 0.1)] * 20 + [(3, 1.2)] * 20,
    "3 seeds, 4 of spread 0.1, 36 of 1.2": [(3, 0.1)] * 4 + [(3, 1.2)] * 36,
    "3 seeds, 36 of spread 0.1, 4 of 1.2": [(3, 0.1)] * 36 + [(3, 1.2)] * 4,
    "10 without seeds, 3 seeds of spread 0.1 and 1.2": [(0, 0)] * 10 + [(3, 0.1)] * 15 + [(3, 1.2)] * 15,
    "5 seeds, half of spread 0.1, half of 1.2": [(5, 0.1)] * 20 + [(5, 1.2)] * 20,
}
# The noise of the pairs in a difference, where a seed's is about 1.
PAIRS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)


def normal(
    truth: Sequence[float], sides: Sequence[Side], pairs: float, generator: np.random.Generator, resamples: int
) -> Sample:
    """Return the sample of rows with normal noise: of a difference over the pairs, and of each row over its seeds."""
    drawn = pairs / np.sqrt(2) * generator.normal(size=(len(sides), resamples))
    measured = truth + pairs / np.sqrt(2) * generator.normal(size=len(sides))
    by_seed = [
        one + spread * generator.normal(size=max(n, 1)) for one, (n, spread) in zip(measured, sides, strict=True)
    ]
    alone = {i: SeedNoise() for i, (n, _) in enumerate(sides) if n == 1}
    return sample(by_seed, drawn + np.array([[one.mean()] for one in by_seed]), 5000, alone)


def equal_share(sides: tuple[Side, Side], pairs: float, draws: int, generator: np.random.Generator) -> float:
    """Return the share of comparisons of two equal rows that have p < 0.05; a comparison without a p has none."""
    ps = (differences(normal([0, 0], sides, pairs, generator, 300)).p[0, 1] for _ in range(draws))
    return float(np.mean([p < 0.05 for p in ps]))


def coverage(sides: list[Side], pairs: float, draws: int, generator: np.random.Generator) -> float:
    """Return how often a row of equally good ones is in the set of the best: of rows of one spread, the least often."""
    inside = np.array([best_set(normal([0] * len(sides), sides, pairs, generator, 2000)) for _ in range(draws)])
    return min(float(inside[:, [side == kind for side in sides]].mean()) for kind in set(sides))


# The correlation of two rows' scores over seeds.
SHARED = (-0.5, 0.0, 0.5, 0.9, 0.99)
SHAPES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Scores]] = {
    "normal": lambda generator, shape: generator.normal(size=shape),
    "skewed": lambda generator, shape: generator.exponential(size=shape) - 1,
    "one seed in seven collapses": lambda generator, shape: (
        0.4 * generator.normal(size=shape) - 3 * ((generator.random(shape) < 1 / 7) - 1 / 7)
    ),
}


def shared_shares(
    seeds: int, spreads: tuple[float, float], correlation: float, draws: int, generator: np.random.Generator
) -> tuple[list[float], list[float]]:
    """Return p < 0.05 of two equal rows whose seeds share noise, taken as independent and seed by seed.

    The second list has the mean widths of both intervals. A difference's noise over the pairs is a fifth of a seed's.
    """
    wrong, width = np.zeros(2), np.zeros(2)
    for _ in range(draws):
        common = generator.normal(size=(2, seeds))
        common[1] = correlation * common[0] + np.sqrt(1 - correlation**2) * common[1]
        by_seed = [spread * one for spread, one in zip(spreads, common, strict=True)]
        by_seed[0] = by_seed[0] + 0.2 * generator.normal()
        drawn = 0.2 / np.sqrt(2) * generator.normal(size=(2, 300))
        for way, shared in enumerate(((), ((0, 1),))):
            result = differences(sample(by_seed, drawn, 5000, shared=shared))
            wrong[way] += result.p[0, 1] < 0.05
            width[way] += result.high[0, 1] - result.low[0, 1]
    return (wrong / draws).tolist(), (width / draws).tolist()


def floored_share(shape: str, others: Sequence[float], draws: int, generator: np.random.Generator) -> list[float]:
    """Return p < 0.05 of a row of three seeds against an equal one of a tenth of its spread, without and with a floor.

    `others` are the spreads of the other rows of the table, with three seeds each, by which the floor is set.
    """
    wrong = np.zeros(2)
    for _ in range(draws):
        by_seed = [SHAPES[shape](generator, (1, 3))[0], 0.1 * generator.normal(size=3)]
        by_seed[0] = by_seed[0] + 0.1 * generator.normal()
        drawn = 0.1 / np.sqrt(2) * generator.normal(size=(2, 300))
        floor = least_deviation([*by_seed, *(spread * generator.normal(size=3) for spread in others)]) ** 2
        for way, least in enumerate((0.0, floor)):
            wrong[way] += differences(sample(by_seed, drawn, 5000, least=least)).p[0, 1] < 0.05
    return [float(share) for share in wrong / draws]


def print_shared(draws: int, seed: int) -> None:
    """Print the errors for seeds that share noise, as a table, and those for seeds that are not normal."""
    generator = np.random.default_rng(seed)
    print("| seeds | spreads | correlation | as independent | seed by seed | width, seed by seed |")
    print("|--:|:--|--:|--:|--:|--:|")
    for seeds, spreads, correlation in itertools.product((2, 3, 5), ((1.0, 1.0), (1.0, 0.3)), SHARED):
        (apart, paired), widths = shared_shares(seeds, spreads, correlation, draws, generator)
        line = f"| {seeds} | {spreads[0]:g} : {spreads[1]:g} | {correlation:g} | {apart:.1%} | {paired:.1%}"
        print(f"{line} | {widths[1] / widths[0]:.2f} |", flush=True)
    tables = {"all of spread 1": [1.0] * 20, "spreads 0.05 to 2": np.geomspace(0.05, 2, 20).tolist()}
    for shape, (what, others) in itertools.product(SHAPES, tables.items()):
        before, after = floored_share(shape, others, draws, generator)
        print(f"{shape}, other rows {what}: p < 0.05 in {before:.1%}, with the floor {after:.1%}", flush=True)


def found_share(noise: Noise, seeds: int, apart: float, draws: int, generator: np.random.Generator) -> float:
    """Return the share of comparisons of two rows that differ by so much that have p < 0.05."""
    sides = [(seeds, noise.seeds)] * 2
    ps = (differences(normal([apart, 0], sides, noise.pairs, generator, 300)).p[0, 1] for _ in range(draws))
    return float(np.mean([p < 0.05 for p in ps]))


def print_normal(draws: int, seed: int) -> None:
    """Print the counts of the part `normal`; sets of the best take a tenth of the draws."""
    generator = np.random.default_rng(seed)
    for name, sides in EQUAL.items():
        shares = [equal_share(sides, pairs, draws, generator) for pairs in PAIRS]
        print(f"equal recipes, seeds {name}: p < 0.05 in at most {max(shares):.1%}", flush=True)
    for seeds, of_pairs in ((0.3, 0.2), (0.5, 0.3), (1.0, 0.2)):
        noise = Noise(of_pairs, seeds, 299)
        apart, needed = detectable(noise, 3), seeds_needed(noise, 1.0)
        shares = [found_share(noise, 3, apart, draws, generator)]
        shares += [found_share(noise, needed, 1.0, draws, generator)] if needed else []
        texts = [f"{apart:.2f} with 3 seeds is found in {shares[0]:.1%}"]
        texts += [f"1.0 with {needed} seeds in {share:.1%}" for share in shares[1:]]
        print(f"power, noise {seeds} of seeds and {of_pairs} of pairs: {', '.join(texts)}", flush=True)
    for what, of_rows in FORTY.items():
        covered = [coverage(of_rows, pairs, max(1, draws // 10), generator) for pairs in (0.05, 0.5)]
        print(f"forty equal rows, {what}: in the set at least {min(covered):.1%}", flush=True)


def main() -> None:
    """Print the counts of a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["normal", "shared"], required=True)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    (print_normal if options.part == "normal" else print_shared)(options.draws, options.seed)


if __name__ == "__main__":
    main()
