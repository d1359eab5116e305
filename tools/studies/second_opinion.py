"""By simulation: how often the tied set of others' results misses the best model, and rank intervals the true rank.

`python -m tools.studies.second_opinion [REPEATS]` prints a row for each number of models and tasks, with tasks alone
and in groups, for models that are equally good and for models that differ by a tenth of the spread over tasks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmark.interop.second_opinion import ranks, sample_tasks
from benchmark.stats.mcb import differences

_SPREAD = 5.0  # points: of a model's score over tasks, its share of the group included


def drawn_scores(
    truth: NDArray[np.float64], groups: Sequence[str], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return scores (models, tasks): the truth, a task's ease, and noise of which half belongs to a task's group."""
    names = sorted(set(groups) - {""})
    noise = generator.normal(0, _SPREAD, (len(truth), len(groups)))
    for name in names:
        here = np.array(groups) == name
        shared = generator.normal(0, _SPREAD, (len(truth), 1))
        noise[:, here] = np.sqrt(0.5) * noise[:, here] + np.sqrt(0.5) * shared
    scores: NDArray[np.float64] = truth[:, None] + generator.normal(60, 10, len(groups)) + noise
    return scores


def errors(models: int, tasks: int, groups: int, step: float, repeats: int) -> tuple[float, float]:
    """Return how often the set misses the best model, and the share of rank intervals that contain the true ranks."""
    truth, misses, covered = -step * np.arange(float(models)), 0, 0.0
    named = [f"g{task % groups}" if groups else "" for task in range(tasks)]
    better = (truth > truth[:, None]).sum(axis=1)
    worse = (truth < truth[:, None]).sum(axis=1)
    for repeat in range(repeats):
        scores = drawn_scores(truth, named, np.random.default_rng([models, tasks, groups, repeat]))
        sample, units = sample_tasks(scores, named)
        first, last, tied = ranks(sample, units, differences(sample))
        misses += not tied[0]
        covered += float(((first <= 1 + better) & (last >= models - worse)).mean())
    return misses / repeats, covered / repeats


def main(repeats: int = 400) -> None:
    """Print the table."""
    print("models tasks groups  apart  best missed  ranks covered")
    for models in (5, 20, 50):
        for tasks, groups in ((7, 0), (20, 0), (60, 0), (20, 7), (60, 7), (60, 20)):
            for step in (0.0, _SPREAD / 10):
                missed, covered = errors(models, tasks, groups, step, repeats)
                row = (
                    f"{models:6} {tasks:5} {groups or '-':>6} {step:6.1f} {100 * missed:11.1f}% {100 * covered:13.1f}%"
                )
                print(row, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
