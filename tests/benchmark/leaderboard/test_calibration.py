"""The command that counts errors of comparisons, on a small world of its own."""

from __future__ import annotations

import numpy as np
import pytest
from calibration import World, drawn_pairs, new_seeds, seeds_part


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
    return World({task: gold[place] for task, place in places.items()}, places, 230, rows, {})


def test_a_shared_pair_is_drawn_for_both_tasks(world: World) -> None:
    """Every draw of it is a row of each task, at one place; other pairs are in one task."""
    found = drawn_pairs(world, np.random.default_rng(1))
    pair_at = [dict(zip(at.tolist(), world.places[task][rows], strict=True)) for task, (rows, at) in found.items()]
    both = set(pair_at[0]) & set(pair_at[1])
    assert both and all(pair_at[0][at] == pair_at[1][at] for at in both)
    assert {pair_at[0][at] for at in both} <= set(range(110, 150))
    assert set(pair_at[0]) | set(pair_at[1]) == set(range(230))


def test_new_seeds_have_the_covariance_of_the_old(world: World) -> None:
    """Their mean and their sample covariance, of the first twenty pairs."""
    row = [world.rows["a"][0][:, :20]]
    (made,) = new_seeds(row, 20_000, np.random.default_rng(2))
    assert made.mean(axis=0) == pytest.approx(row[0].mean(axis=0), abs=0.1)
    assert np.cov(made.T) == pytest.approx(np.cov(row[0].T), abs=0.3)


@pytest.mark.slow
def test_seeds_left_out_are_seen_as_differences(world: World) -> None:
    """A row against itself: by the pairs alone it differs far more often than with the seeds."""
    found = seeds_part(world, 60, 200, np.random.default_rng(3))
    assert found["p < 0.05"] <= 0.15
    assert found["p < 0.05 by pairs alone"] > found["p < 0.05"] + 0.1
