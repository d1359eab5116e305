"""The command that counts errors of comparisons, on a small world of its own."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from benchmark.stats.mcb import Sample, differences, pooled_noise, sample
from tools.studies.comparisons import (
    World,
    drawn_pairs,
    equally_good,
    experiment,
    new_seeds,
    seeds_draw,
    seeds_result,
    truth,
)
from tools.studies.normal import EQUAL, FORTY, coverage, equal_share


@pytest.fixture
def world() -> World:
    """Two tasks of 150 and 120 pairs, 40 of them in both, and three rows of three seeds that differ much."""
    generator = np.random.default_rng(0)
    gold = generator.uniform(0, 5, 230)
    places = {"one": np.arange(150), "two": np.arange(110, 230)}
    rows = {}
    for name in "abc":
        base = gold + generator.normal(size=230)
        seeds = base + 1.5 * generator.normal(size=(3, 230)) * (gold > 2.5)
        seeds += np.array([0, 1, 2])[:, None] * generator.normal(size=230)
        rows[name] = [seeds[:, place] for place in places.values()]
    return World({task: gold[place] for task, place in places.items()}, places, 230, rows, {"a": 1, "b": 2, "c": 3})


def test_a_shared_pair_is_drawn_for_both_tasks(world: World) -> None:
    """Every draw of it is a row of each task, at one place; other pairs are in one task."""
    drawn = drawn_pairs(world, np.random.default_rng(1))
    pair_at = [dict(zip(at.tolist(), world.places[task][rows], strict=True)) for task, (rows, at) in drawn.items()]
    both = set(pair_at[0]) & set(pair_at[1])
    assert both and all(pair_at[0][at] == pair_at[1][at] for at in both)
    assert {pair_at[0][at] for at in both} <= set(range(110, 150))
    assert set(pair_at[0]) | set(pair_at[1]) == set(range(230))


def test_new_seeds_have_the_covariance_of_the_old(world: World) -> None:
    """Their mean and their sample covariance, of the first twenty pairs."""
    row = [world.rows["a"][0][:, :20]]
    (seeds,) = new_seeds(row, 20_000, np.random.default_rng(2))
    assert seeds.mean(axis=0) == pytest.approx(row[0].mean(axis=0), abs=0.1)
    assert np.cov(seeds.T) == pytest.approx(np.cov(row[0].T), abs=0.3)


@pytest.mark.slow
def test_rows_are_made_equally_good(world: World) -> None:
    """Before, their expected scores lie apart; after, they are the same, and their seeds still differ."""
    before = [truth(world, row) for row in world.rows.values()]
    rows = equally_good(world, 3)
    after = [truth(world, row) for row in rows.values()]
    assert np.ptp(before) > 1 > 0.1 > np.ptp(after)
    assert min(row[0].std(axis=0).mean() for row in rows.values()) > 0.1


@pytest.mark.slow
def test_seeds_left_out_are_seen_as_differences(world: World) -> None:
    """A row against itself: by the pairs alone it differs far more often than with the seeds."""
    generator = np.random.default_rng(3)

    def measure(rows: list[list[np.ndarray]], generator: np.random.Generator) -> Sample:
        return experiment(world, rows, generator, 200)

    shares = seeds_result([seeds_draw(world, number, measure, generator) for number in range(60)])
    assert shares["p < 0.05"] <= 0.15
    assert shares["p < 0.05 by pairs alone"] > shares["p < 0.05"] + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seeds", EQUAL)
def test_equal_recipes_differ_seldom(seeds: str) -> None:
    """1,000 comparisons at the noise of pairs where Satterthwaite's degrees of freedom alone err most: at most 7%."""
    share = equal_share(EQUAL[seeds], 0.2, 1000, np.random.default_rng(1))
    assert share <= 0.07
    assert (share == 0) == seeds.startswith("1/")


@pytest.mark.slow
@pytest.mark.parametrize("other", [0, 1, 3])
def test_equal_recipes_with_borrowed_noise_differ_seldom(other: int) -> None:
    """One seed against none, one or three, with the noise of five other rows of three seeds: at most 7%."""
    generator, ps = np.random.default_rng(4), []
    for _ in range(1000):
        noise = pooled_noise([generator.normal(size=3) for _ in range(5)])
        second = generator.normal(size=other) if other else np.zeros(1)
        by_seed = [generator.normal(size=1), second]
        alone = {0: noise, 1: noise} if other == 1 else {0: noise}
        drawn = np.array([[one.mean()] for one in by_seed]) + 0.05 * generator.normal(size=(2, 100))
        ps.append(differences(sample(by_seed, drawn, 5000, alone)).p[0, 1] < 0.05)
    assert np.mean(ps) <= 0.07


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["3 seeds", "3 seeds, half of spread 0.1, half of 1.2"])
def test_forty_equal_rows_are_in_the_set(rows: str) -> None:
    """In 25 draws; `--part normal` makes a hundred and more."""
    assert coverage(FORTY[rows], 0.3, 25, np.random.default_rng(2)) >= 0.94


def test_usif_is_not_marked() -> None:
    """It is 1.89 below the best row without seeds, far above most others, which widened the set before."""
    with (Path(__file__).parents[3] / "leaderboards/zoo-mini/sts.csv").open(encoding="utf-8", newline="") as file:
        marked = {row["method"]: row["among best"] for row in csv.DictReader(file)}
    assert (marked["sif-tokens"], marked["usif"]) == ("True", "False")
