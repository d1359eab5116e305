"""How often the comparisons err, on real predictions: `python tests/calibration.py leaderboards/zoo-mini`.

The rows of a results folder are the world: their pairs are all pairs there are, their seeds span all seeds. Each draw
is a new experiment in it: pairs drawn with replacement (one of several tasks is drawn for all of them), and new seeds,
each the mean of a row's predictions plus a random combination of its seeds' deviations, of the same covariance. The
truth is then known, and two things are counted:

- `seeds`: every trained row against itself with other seeds. How many comparisons have p < 0.05?
- `best`: forty rows made equally good (of each task's scores so much of the gold is added or taken away). How often is
  one of them, the truly best above all, left out of the set of the best?
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmark.metrics.bootstrap import Pool, Scored, resample_together
from benchmark.metrics.correlation import ranks
from benchmark.metrics.significance import Sample, differences, not_told_apart, sample
from benchmark.records.store import Records
from benchmark.tasks.overlap import pool_of
from benchmark.tasks.suites import suite

Scores = NDArray[np.float64]


@dataclass
class World:
    """Gold scores and places in the pool by task; predictions (seeds, n) of rows by task."""

    gold: dict[str, Scores]
    places: dict[str, NDArray[np.intp]]
    size: int
    rows: dict[str, list[Scores]]  # by row, in the order of the tasks
    scores: dict[str, float]  # measured averages x100


def read(folder: Path, tasks: tuple[str, ...]) -> World:
    """Return the world of the rows that have pair scores of all tasks for all their seeds."""
    store = Records(folder, set_aside=False)
    by_row: dict[str, dict[str, dict[int | None, Scores]]] = defaultdict(lambda: defaultdict(dict))
    gold: dict[str, Scores] = {}
    digests: dict[str, str] = {}
    for record in store.all():
        task = record["task"]["name"]
        if task in tasks and record["status"] == "ok" and record["limit"] is None and record.get("pairs"):
            predicted, found = store.pair_scores(record)
            gold.setdefault(task, found.astype(np.float64))
            digests.setdefault(task, record["pairs"]["gold_sha256"])
            name = f"{record['method']['name']} [{record['row_key'][:8]}]"
            by_row[name][task][record["seed"]] = predicted.astype(np.float64)
    gold = {task: gold[task] for task in tasks}
    places, size = {}, 0
    for task in tasks:
        pooled = pool_of(task, digests[task])
        places[task] = np.arange(len(gold[task])) if pooled is None else pooled[1]
        if pooled is None:
            places[task] = places[task] + 10**9 + size  # apart from the pool's
            size += len(gold[task])
    everything, inverse = np.unique(np.concatenate([places[task] for task in tasks]), return_inverse=True)
    ends = np.cumsum([len(places[task]) for task in tasks])[:-1]
    places = dict(zip(tasks, np.split(inverse, ends), strict=True))
    rows, scores = {}, {}
    for name, of_row in by_row.items():
        seeds = {frozenset(of_row[task]) for task in tasks}
        if len(seeds) == 1 and all(of_row[task] for task in tasks):
            order = sorted(next(iter(seeds)), key=lambda seed: -1 if seed is None else seed)
            rows[name] = [np.stack([of_row[task][seed] for seed in order]) for task in tasks]
            scores[name] = float(np.mean([_score(p, gold[t]).mean() for p, t in zip(rows[name], tasks, strict=True)]))
    return World(gold, places, len(everything), rows, scores)


def _score(predicted: Scores, gold: Scores) -> Scores:
    """Return Spearman's correlations x100 (seeds,)."""
    own = np.array([ranks(one) for one in predicted])
    found: Scores = 100 * np.corrcoef(np.vstack([own, ranks(gold)]))[-1, :-1]
    return found


def new_seeds(row: list[Scores], count: int, generator: np.random.Generator, *, opposite: bool = False) -> list[Scores]:
    """Return predictions (count, n) by task of `count` new seeds; a row without several seeds has its own.

    With `opposite` the second half of them lies on the other side of the mean: their average tells the expected score.
    """
    have = len(row[0])
    if have == 1:
        return row
    weights = generator.normal(size=(count, have)) / np.sqrt(have - 1)
    if opposite:
        weights[count // 2 :] = -weights[: count // 2]
    return [one.mean(axis=0) + weights @ (one - one.mean(axis=0)) for one in row]


def drawn_pairs(world: World, generator: np.random.Generator) -> dict[str, tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return, by task, the rows of a new data set and their places among the pairs drawn."""
    drawn = generator.integers(0, world.size, world.size)
    found = {}
    for task, places in world.places.items():
        order = np.argsort(places, kind="stable")
        first, last = (np.searchsorted(places[order], drawn, side=side) for side in ("left", "right"))
        times = last - first
        offsets = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        found[task] = order[np.repeat(first, times) + offsets], np.repeat(np.arange(world.size), times)
    return found


def experiment(world: World, rows: list[list[Scores]], generator: np.random.Generator, resamples: int) -> Sample:
    """Return the sample of rows, given with their new seeds, measured on new pairs."""
    pairs = drawn_pairs(world, generator)
    tasks, ends = [], np.cumsum([len(row[0]) for row in rows])[:-1]
    for i, task in enumerate(world.gold):
        chosen, places = pairs[task]
        tasks.append(Scored(np.concatenate([row[i] for row in rows])[:, chosen], world.gold[task][chosen], places))
    pool = Pool(world.size, str(generator.integers(2**62)))
    drawn = resample_together(tasks, pool, resamples=resamples, expanded=True)
    average = 100 * np.mean(drawn, axis=0)
    scores = 100 * np.mean([_correlations(task) for task in tasks], axis=0)
    by_row = np.array([part.mean(axis=0) for part in np.split(average, ends)])
    return sample(np.split(scores, ends), by_row, sum(len(task.gold) for task in tasks))


def _correlations(task: Scored) -> Scores:
    own = np.array([ranks(one) for one in task.predicted])
    own -= own.mean(axis=1, keepdims=True)
    gold = ranks(task.gold) - (len(task.gold) + 1) / 2
    result: Scores = own @ gold / np.sqrt((own**2).sum(axis=1) * (gold @ gold))
    return result


def seeds_part(world: World, draws: int, resamples: int, generator: np.random.Generator) -> dict[str, float]:
    """Compare trained rows with themselves under other seeds; return the shares of p < 0.05, with and without seeds."""
    trained = [row for row in world.rows.values() if len(row[0]) > 1]
    below, pairs_only, count = 0, 0, 0
    for number in range(draws):
        row = trained[number % len(trained)]
        sides = [new_seeds(row, len(row[0]), generator) for _ in range(2)]
        found = differences(experiment(world, sides, generator, resamples))
        below += bool(found.p[0, 1] < 0.05)
        pairs_only += bool(abs(found.value[0, 1]) > 1.96 * found.pairs_error[0, 1])
        count += 1
    return {"comparisons": count, "p < 0.05": below / count, "p < 0.05 by pairs alone": pairs_only / count}


def equally_good(world: World, count: int, generator: np.random.Generator) -> dict[str, list[Scores]]:
    """Return the `count` rows that lie closest together, each task's predictions moved to the same expected score."""
    unlike: dict[float, str] = {round(score, 6): name for name, score in world.scores.items()}  # the same vectors: once
    ordered = sorted(unlike)
    widths = [ordered[i + count - 1] - ordered[i] for i in range(len(ordered) - count + 1)]
    start = int(np.argmin(widths))
    chosen = {unlike[score]: world.rows[unlike[score]] for score in ordered[start : start + count]}
    moved: dict[str, list[Scores]] = {name: [] for name in chosen}
    for i, gold in enumerate(world.gold.values()):
        target = float(np.mean([_score(row[i], gold).mean() for row in chosen.values()]))
        by_gold = (gold - gold.mean()) / gold.std()
        for name, row in chosen.items():
            scaled = [(one - one.mean()) / one.mean(axis=0).std() for one in row]
            trial = new_seeds([scaled[i]], 40, generator, opposite=True)[0]
            low, high = -1.0, 1.0
            for _ in range(14):
                middle = (low + high) / 2
                score = _score(trial + middle * by_gold, gold).mean()
                low, high = (middle, high) if score < target else (low, middle)
            moved[name].append(scaled[i] + (low + high) / 2 * by_gold)
    return moved


def truth(world: World, row: list[Scores], generator: np.random.Generator, seeds: int = 200) -> float:
    """Return a row's expected average over seeds on all pairs."""
    every = new_seeds(row, seeds, generator, opposite=True)
    return float(np.mean([_score(one, gold).mean() for one, gold in zip(every, world.gold.values(), strict=True)]))


def best_part(
    world: World, draws: int, resamples: int, generator: np.random.Generator, count: int = 40
) -> dict[str, float]:
    """Return how often equally good rows are in the set of the best: the truly best one, and on average."""
    rows = equally_good(world, count, generator)
    truths = np.array([truth(world, row, generator) for row in rows.values()])
    inside, uncorrected, started = np.zeros(count), np.zeros(count), time.monotonic()
    for number in range(1, draws + 1):
        measured = experiment(world, [new_seeds(r, len(r[0]), generator) for r in rows.values()], generator, resamples)
        inside += not_told_apart(measured)
        found = differences(measured)
        top = int(measured.value.argmax())
        uncorrected += np.abs(found.value[top]) <= 1.96 * found.pairs_error[top]
        if number % 50 == 0:
            at = f"{number} draws, {time.monotonic() - started:.0f} s"
            shares = f"the truly best {inside[truths.argmax()] / number:.4f}, on average {inside.mean() / number:.4f}"
            print(f"{at}: in the set: {shares}", file=sys.stderr, flush=True)
    return {
        "draws": draws,
        "rows": count,
        "of them with seeds": sum(len(row[0]) > 1 for row in rows.values()),
        "sd of the true scores": float(truths.std()),
        "in the set: the truly best": float(inside[truths.argmax()] / draws),
        "in the set: on average": float(inside.mean() / draws),
        "in the set: the row least often": float(inside.min() / draws),
        "not apart from rank 1 by pairs alone, each by itself: on average": float(uncorrected.mean() / draws),
    }


def main() -> None:
    """Print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a results folder with pair scores of the suite")
    parser.add_argument("--suite", default="sts")
    parser.add_argument("--tasks", help="only these of its tasks, comma-separated")
    parser.add_argument("--part", choices=["seeds", "best", "both"], default="both")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tasks = suite(options.suite).tasks if options.tasks is None else tuple(options.tasks.split(","))
    world = read(options.folder, tasks)
    print(f"{len(world.rows)} rows, {world.size:,} different pairs, {sum(map(len, world.gold.values())):,} in all")
    for name, part in (("seeds", seeds_part), ("best", best_part)):
        if options.part in (name, "both"):
            found = part(world, options.draws, options.resamples, np.random.default_rng([options.seed, len(name)]))
            print(f"{name}: " + "; ".join(f"{what} {value:.4g}" for what, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
