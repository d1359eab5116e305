"""How often the comparisons err, on real predictions: `python -m tools.studies.comparisons leaderboards/zoo-mini`.

The rows of a results folder are the world: their pairs are all pairs there are, their seeds span all seeds. Each draw
is a new experiment in it: pairs drawn with replacement (one of several tasks is drawn for all of them), and new seeds,
each the mean of a row's predictions plus a random combination of its seeds' deviations, of the same covariance. The
truth is then known, and two things are counted:

- `seeds`: every trained row against itself with other seeds. How many comparisons have p < 0.05?
- `best`: forty rows made equally good: to each row's predictions so much of the gold is added (or taken away) that all
  have the same expected score in every task. Each of the forty is then the truly best with equal right. Counted is how
  often it is in the set of the best: of one row named before the draw (the first row in draw 0, the second in draw 1),
  of all forty together, and of the row that is in it least often.

A draw depends on `--seed` and its number alone: a long run can be cut into parts (`--first`). `--out` keeps a line of
JSON per draw; the draws that it has are read and not made again, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from benchmark.metrics.correlation import ranks
from benchmark.records.folder import Records
from benchmark.stats.bootstrap import Scored, influences, resample_together
from benchmark.stats.mcb import Sample, best_set, differences, sample
from benchmark.tasks.overlap import Pool, pool_of
from benchmark.tasks.suites import suite

Scores = NDArray[np.float64]
Measure = Callable[[list[list[Scores]], np.random.Generator], Sample]


@dataclass
class World:
    """Gold scores and places in the pool by task; predictions (seeds, n) of rows by task."""

    gold: dict[str, Scores]
    places: dict[str, NDArray[np.intp]]
    size: int
    rows: dict[str, list[Scores]]
    scores: dict[str, float]


def read(folder: Path, tasks: tuple[str, ...]) -> World:
    """Return the world of the rows that have pair scores of all tasks for all their seeds."""
    store = Records(folder, set_aside=False)
    by_row: dict[str, dict[str, dict[int | None, Scores]]] = defaultdict(lambda: defaultdict(dict))
    gold: dict[str, Scores] = {}
    digests: dict[str, str] = {}
    for record in store.all():
        task = record["task"]["name"]
        if task in tasks and record["status"] == "ok" and record["limit"] is None and (pairs := record.get("pairs")):
            predicted, gold_scores = store.pair_scores(record)
            gold.setdefault(task, gold_scores.astype(np.float64))
            digests.setdefault(task, pairs["gold_sha256"])
            name = f"{record['method']['name']} [{record['row_key'][:8]}]"
            by_row[name][task][record["seed"]] = predicted.astype(np.float64)
    gold = {task: gold[task] for task in tasks}
    places, size = {}, 0
    for task in tasks:
        pooled = pool_of(task, digests[task])
        places[task] = np.arange(len(gold[task])) if pooled is None else pooled[1]
        if pooled is None:
            places[task] = places[task] + 10**9 + size
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
    return 100 * _correlations(Scored(predicted, gold))


def new_seeds(row: list[Scores], count: int, generator: np.random.Generator) -> list[Scores]:
    """Return predictions (count, n) by task of `count` new seeds; a row without several seeds has its own."""
    have = len(row[0])
    if have == 1:
        return row
    weights = generator.normal(size=(count, have)) / np.sqrt(have - 1)
    return [one.mean(axis=0) + weights @ (one - one.mean(axis=0)) for one in row]


def directions(predicted: Scores) -> Scores:
    """Return orthogonal directions (seeds - 1, n): `new_seeds` adds standard normal multiples of them to the mean."""
    have = len(predicted)
    contrasts: Scores = scipy.linalg.helmert(have) @ predicted / np.sqrt(have - 1)
    return contrasts


def expected(predicted: Scores, gold: Scores) -> float:
    """Return the mean score over all seeds that a row with predictions (seeds, n) may have (see `new_seeds`).

    By Gauss-Hermite quadrature with three nodes in each direction of its seeds.
    """
    if len(predicted) == 1:
        return float(_score(predicted, gold)[0])
    points, weights = np.polynomial.hermite_e.hermegauss(3)
    at, by = (np.array(list(itertools.product(one, repeat=len(predicted) - 1))) for one in (points, weights))
    by = by.prod(axis=1) / by.prod(axis=1).sum()
    return float(by @ _score(predicted.mean(axis=0) + at @ directions(predicted), gold))


def drawn_pairs(world: World, generator: np.random.Generator) -> dict[str, tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return, by task, the rows of a new data set and their places among the pairs drawn."""
    drawn = generator.integers(0, world.size, world.size)
    rows_and_places = {}
    for task, places in world.places.items():
        order = np.argsort(places, kind="stable")
        first, last = (np.searchsorted(places[order], drawn, side=side) for side in ("left", "right"))
        times = last - first
        offsets = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        rows_and_places[task] = order[np.repeat(first, times) + offsets], np.repeat(np.arange(world.size), times)
    return rows_and_places


def experiment(
    world: World, rows: list[list[Scores]], generator: np.random.Generator, resamples: int, *, resampled: bool = False
) -> Sample:
    """Return the sample of rows, given with their new seeds, measured on new pairs.

    The averages in resamples of these pairs are drawn from the normal distribution of the covariance that the
    influences of the pairs have: that of so many resamples of so many pairs, for a third of the time. `resampled`
    draws the pairs themselves.
    """
    pairs = drawn_pairs(world, generator)
    ends = np.cumsum([len(row[0]) for row in rows])[:-1]
    tasks, scores, moved = [], [], np.zeros((len(rows), world.size))
    for i, task in enumerate(world.gold):
        chosen, places = pairs[task]
        scored = Scored(np.concatenate([row[i] for row in rows])[:, chosen], world.gold[task][chosen], places)
        value, influence = influences(scored.predicted, scored.gold)
        by_row = np.array([part.mean(axis=0) for part in np.split(influence, ends)]) / len(chosen)
        moved += [np.bincount(places, weights=of_row, minlength=world.size) for of_row in by_row]
        scores.append(value)
        tasks.append(scored)
    mean = 100 * np.mean(scores, axis=0)
    if resampled:
        pool = Pool(world.size, str(generator.integers(2**62)))
        drawn = 100 * np.mean(resample_together(tasks, pool, resamples=resamples, expanded=True), axis=0)
        averages = np.array([part.mean(axis=0) for part in np.split(drawn, ends)])
    else:
        spread = 100 * moved / len(tasks)
        values, vectors = np.linalg.eigh(spread @ spread.T)
        normal = generator.standard_normal((len(rows), resamples))
        averages = (vectors * np.sqrt(np.maximum(values, 0))) @ normal
        averages += np.array([part.mean() for part in np.split(mean, ends)])[:, None]
    return sample(np.split(mean, ends), averages, sum(len(task.gold) for task in tasks))


def _correlations(task: Scored) -> Scores:
    ranked = np.array([ranks(one) for one in task.predicted])
    ranked -= ranked.mean(axis=1, keepdims=True)
    gold = ranks(task.gold) - (len(task.gold) + 1) / 2
    result: Scores = ranked @ gold / np.sqrt((ranked**2).sum(axis=1) * (gold @ gold))
    return result


def seeds_draw(world: World, number: int, measure: Measure, generator: np.random.Generator) -> dict[str, Any]:
    """Compare a trained row with itself under other seeds; say whether p < 0.05, with and without the seeds' noise."""
    trained = [row for row in world.rows.values() if len(row[0]) > 1]
    row = trained[number % len(trained)]
    sides = [new_seeds(row, len(row[0]), generator) for _ in range(2)]
    result = differences(measure(sides, generator))
    by_pairs = abs(result.value[0, 1]) > 1.96 * result.pairs_error[0, 1]
    return {"p < 0.05": bool(result.p[0, 1] < 0.05), "p < 0.05 by pairs alone": bool(by_pairs)}


def seeds_result(draws: list[dict[str, Any]]) -> dict[str, float]:
    """Return the shares of p < 0.05, with and without the seeds' noise."""
    shares = {name: float(np.mean([draw[name] for draw in draws])) for name in ("p < 0.05", "p < 0.05 by pairs alone")}
    return {"comparisons": len(draws), **shares}


def equally_good(world: World, count: int) -> dict[str, list[Scores]]:
    """Return the `count` rows that lie closest together, each task's predictions moved to the same expected score."""
    unlike: dict[float, str] = {round(score, 6): name for name, score in world.scores.items()}
    ordered = sorted(unlike)
    widths = [ordered[i + count - 1] - ordered[i] for i in range(len(ordered) - count + 1)]
    start = int(np.argmin(widths))
    chosen = {unlike[score]: world.rows[unlike[score]] for score in ordered[start : start + count]}
    moved: dict[str, list[Scores]] = {name: [] for name in chosen}
    for i, gold in enumerate(world.gold.values()):
        scaled = {name: _scaled(row[i]) for name, row in chosen.items()}
        target = float(np.mean([expected(one, gold) for one in scaled.values()]))
        by_gold = (gold - gold.mean()) / gold.std()
        for name, scores in scaled.items():
            moved[name].append(scores + _amount(scores, by_gold, gold, target) * by_gold)
    return moved


def _scaled(scores: Scores) -> Scores:
    result: Scores = (scores - scores.mean()) / scores.mean(axis=0).std()
    return result


def _amount(scores: Scores, by_gold: Scores, gold: Scores, target: float) -> float:
    """Return how much of the gold gives predictions the expected score wanted."""
    amount: float = scipy.optimize.brentq(lambda x: expected(scores + x * by_gold, gold) - target, -1.0, 1.0, xtol=1e-6)
    return amount


def truth(world: World, row: list[Scores]) -> float:
    """Return a row's expected average over seeds on all pairs."""
    return float(np.mean([expected(one, gold) for one, gold in zip(row, world.gold.values(), strict=True)]))


def best_draw(rows: list[list[Scores]], measure: Measure, generator: np.random.Generator) -> dict[str, Any]:
    """Return which of the rows are in the set of the best of a new experiment, and which with uncorrected intervals."""
    measured = measure([new_seeds(row, len(row[0]), generator) for row in rows], generator)
    result = differences(measured)
    top = int(measured.value.argmax())
    uncorrected = np.abs(result.value[top]) <= 1.96 * result.pairs_error[top]
    return {"inside": best_set(measured).astype(int).tolist(), "uncorrected": uncorrected.astype(int).tolist()}


def best_result(draws: list[dict[str, Any]]) -> dict[str, float]:
    """Return how often rows are in the set of the best; see the top of this file."""
    inside = np.array([draw["inside"] for draw in draws])
    named = [draw["inside"][draw["number"] % inside.shape[1]] for draw in draws]
    return {
        "draws": len(draws),
        "in the set: the row named before": float(np.mean(named)),
        "in the set: all rows": float(inside.mean()),
        "in the set: the row least often": float(inside.mean(axis=0).min()),
        "rows in a set": float(inside.sum(axis=1).mean()),
        "not apart from rank 1 by pairs alone, each by itself: all rows": float(
            np.mean([draw["uncorrected"] for draw in draws])
        ),
    }


def counted(numbers: range, out: Path | None, draw: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the draws of these numbers, those that a file has from it; new ones are written there at once."""
    lines = [] if out is None or not out.is_file() else out.read_text(encoding="utf-8").splitlines()
    done = {one["number"]: one for one in map(json.loads, lines)}
    started, count = time.monotonic(), 0
    for number in numbers:
        if number in done:
            continue
        done[number] = {"number": number, **draw(number)}
        count += 1
        if out is not None:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[number]) + "\n")
        if count % 50 == 0:
            print(f"{count} draws, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return [done[number] for number in sorted(done)]


def main() -> None:
    """Print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a results folder with pair scores of the suite")
    parser.add_argument("--suite", default="sts")
    parser.add_argument("--tasks", help="only these of its tasks, comma-separated")
    parser.add_argument("--part", choices=["seeds", "best"], required=True)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--out", type=Path, help="file of draws, one a line; results are of all draws in it")
    parser.add_argument("--rows", type=int, default=40, help="how many equally good rows")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--resampled", action="store_true", help="draw pairs in resamples, not their normal limit")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tasks = suite(options.suite).tasks if options.tasks is None else tuple(options.tasks.split(","))
    world = read(options.folder, tasks)
    print(f"{len(world.rows)} rows, {world.size:,} different pairs, {sum(map(len, world.gold.values())):,} in all")

    def generator(number: int) -> np.random.Generator:
        return np.random.default_rng([options.seed, len(options.part), number])

    def measure(rows: list[list[Scores]], generator: np.random.Generator) -> Sample:
        return experiment(world, rows, generator, options.resamples, resampled=options.resampled)

    numbers = range(options.first, options.first + options.draws)
    if options.part == "seeds":
        draws = counted(numbers, options.out, lambda n: seeds_draw(world, n, measure, generator(n)))
        results = seeds_result(draws)
    else:
        rows = list(equally_good(world, options.rows).values())
        truths = [truth(world, row) for row in rows]
        seeds = sum(len(row[0]) > 1 for row in rows)
        print(f"{len(rows)} rows, {seeds} with seeds; expected scores {min(truths):.3f} to {max(truths):.3f}")
        draws = counted(numbers, options.out, lambda n: best_draw(rows, measure, generator(n)))
        results = best_result(draws)
    print(f"{options.part}: " + "; ".join(f"{what} {value:.4g}" for what, value in results.items()), flush=True)


if __name__ == "__main__":
    main()
