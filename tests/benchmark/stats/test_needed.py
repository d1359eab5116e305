"""How many seeds or pairs a comparison asks for: those of rows that share draws are counted seed by seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import make_record
from scipy import stats

from benchmark.records.folder import Records
from benchmark.stats.compare import Line, compare
from benchmark.stats.mcb import differences, sample
from benchmark.stats.power import Noise, detectable, median_noise, seeds_needed

GOLD = np.round(np.random.default_rng(0).uniform(0, 5, 400), 1)


def compared(folder: Path, *, shift: float, seeds: int, start: int) -> tuple[Line, np.ndarray[Any, Any]]:
    """Compare two widths of one method, whose texts have the same noise and whose seeds have other noise."""
    store, scores = Records(folder), []
    texts = np.random.default_rng(start).normal(size=len(GOLD))
    for side, width in enumerate((64, 128)):
        for seed in range(seeds):
            noise = np.random.default_rng([start, seed, side]).normal()
            predicted = GOLD + (1.0 + side * shift + 0.05 * noise) * texts
            main = float(stats.spearmanr(predicted, GOLD).statistic)
            record = make_record("bag", "MEN", seed, main=main, row=str(width))
            record["method"]["recipe"] = {"width": width}
            store.write(record, (predicted, GOLD))
            scores.append(100 * main)
    rows = [[r for r in store.all() if r["method"]["recipe"]["width"] == width] for width in (64, 128)]
    first, second = np.split(np.array(scores), 2)
    return compare("MEN", ["MEN"], *rows, store).lines[0], first - second


@pytest.mark.parametrize(("shift", "seeds", "start"), [(0.05, 3, 1), (0.03, 2, 4), (0.06, 3, 3), (0.03, 3, 1)])
def test_seeds_that_are_paired_are_counted_as_differences(tmp_path: Path, shift: float, seeds: int, start: int) -> None:
    """By the noise of the differences of each seed, which is one side and not two."""
    line, differences = compared(tmp_path, shift=shift, seeds=seeds, start=start)
    assert line.seed_by_seed and line.p is not None and line.p >= 0.05
    of_one_side = Noise(line.pairs_error, float(differences.std(ddof=1)), line.pairs - 1, 1)
    expected = seeds_needed(of_one_side, abs(line.difference))
    assert line.needed == f"{expected} seeds" if expected else line.needed.endswith(" pairs and more seeds")


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_median_noise_of_a_table_is_the_true_one(seeds: int) -> None:
    """Of rows of a few seeds, more than half of whose variances lie below it; rows without seeds have none."""
    generator = np.random.default_rng(seeds)
    rows = [*generator.normal(50, 2.0, (200, seeds)), np.array([50.0])]
    drawn = np.array([[of.mean()] for of in rows]) + generator.normal(size=(201, 400)) / np.sqrt(2)
    noise = median_noise(sample(rows, drawn, 5000), [seeds] * 200 + [0])
    assert noise is not None and noise.sides == 2
    assert (noise.pairs, noise.seeds) == (pytest.approx(1.0, rel=0.1), pytest.approx(2.0, rel=0.1))


@pytest.mark.parametrize(
    ("sides", "pairs", "of_seeds", "seeds"), [(1, 0.5, 1.0, 4), (2, 0.5, 1.0, 4), (2, 0.01, 1.0, 8)]
)
def test_a_detectable_difference_is_seen_in_four_of_five_tests(
    sides: int, pairs: float, of_seeds: float, seeds: int
) -> None:
    """Simulated: the second method of one side has no seeds."""
    generator = np.random.default_rng(7)
    apart, seen = detectable(Noise(pairs, of_seeds, 399, sides), seeds), []
    for _ in range(1000):
        scores = [generator.normal(0, of_seeds, seeds), generator.normal(0, of_seeds, seeds if sides == 2 else 1)]
        scores = [scores[0] + apart, scores[1] if sides == 2 else np.zeros(1)]
        shared = pairs * generator.normal(size=(2, 1)) / np.sqrt(2)
        drawn = pairs * generator.normal(size=(2, 400)) / np.sqrt(2)
        of_rows = [of + shift for of, shift in zip(scores, shared, strict=True)]
        seen.append(differences(sample(of_rows, drawn, 400)).p[0, 1] < 0.05)
    assert 0.76 <= np.mean(seen) <= 0.85


@pytest.mark.parametrize(("of_seeds", "gap"), [(0.5, 0.9), (1.0, 1.2), (0.3, 0.7)])
def test_the_seeds_that_are_needed_are_the_fewest(of_seeds: float, gap: float) -> None:
    noise = Noise(0.2, of_seeds, 1000)
    seeds = seeds_needed(noise, gap)
    assert seeds is not None and seeds > 2
    assert detectable(noise, seeds) <= gap < detectable(noise, seeds - 1)
