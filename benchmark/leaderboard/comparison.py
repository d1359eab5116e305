"""Compares two rows on the same pairs: differences with intervals and p-values from the noise of pairs and seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmark.metrics.bootstrap import RESAMPLES, Scored, resample_together
from benchmark.metrics.significance import SeedNoise, Williams, differences, pooled_noise, sample, williams
from benchmark.records.folder import Records
from benchmark.records.query import label, of_task
from benchmark.records.record import Record, main_score, pairs_of, scores_of
from benchmark.tasks.overlap import pool_of, shared_with
from benchmark.tasks.suites import all_suites
from zoo.errors import UsageError

Seeds = Literal["none", "one", "several"]  # none: no noise of seeds; one: it cannot be measured


@dataclass(frozen=True)
class Line:
    """Scores x100 of both rows (means over seeds), A - B, and the noise of the difference.

    `pairs_error` and `seeds_error` are the standard errors from pairs and from seeds; low and high (95%) and p
    (two-sided) include both, with `df` degrees of freedom; all but the first are None where a row has one seed and no
    noise of other rows' seeds stands in. Williams' test covers the noise of pairs only.
    """

    task: str
    pairs: int
    shared: int  # number of pairs that also occur in another task of the comparison
    a: float
    b: float
    difference: float
    pairs_error: float
    seeds_error: float | None
    df: float | None
    low: float | None
    high: float | None
    p: float | None
    williams: Williams | None  # None: an average, fewer than four pairs, or no p for want of seeds


@dataclass(frozen=True)
class Comparison:
    """The lines of a suite's tasks, and of their average if there are several tasks."""

    title: str
    lines: list[Line]
    average: Line | None


Others = Sequence[Sequence[Sequence[Record]]]  # for A and for B: the rows whose noise of seeds may stand in


@dataclass(frozen=True)
class _Task:
    """A task's records of both rows, and the scores of its pairs."""

    name: str
    sides: tuple[list[Record], list[Record]]
    scored: Scored
    pool: Any

    def by_seed(self) -> list[NDArray[np.float64]]:
        """Return the scores x100 of each side (seeds,)."""
        return [np.array([100 * main_score(r) for r in _sorted(side)]) for side in self.sides]


def seeds_of(records: Sequence[Record]) -> Seeds:
    """Return whether a row has no seed, one seed (its noise of seeds is unknown) or several."""
    seeds = {record["seed"] for record in records}
    return "none" if seeds == {None} else "one" if len(seeds) == 1 else "several"


def suites_in_common(a: list[Record], b: list[Record]) -> list[tuple[str, tuple[str, ...]]]:
    """Return title and tasks of the suites in which both rows have scores."""
    measured = {r["task"]["name"] for r in a} & {r["task"]["name"] for r in b}
    kept = {r["task"]["name"] for r in (*a, *b) if r.get("pairs")}
    # Suites without pair scores are returned only if there are no others, so that the error can say what is missing.
    return [(one.title, one.tasks) for one in all_suites().values() if (measured & kept or measured) & set(one.tasks)]


def without_pairs(a: list[Record], b: list[Record]) -> set[str]:
    """Return the tasks measured for both rows whose kind of score has no pair scores (accuracies)."""
    accuracies = [{r["task"]["name"] for r in row if r["status"] == "ok" and not _of_pairs(r)} for row in (a, b)]
    return accuracies[0] & accuracies[1]


def _of_pairs(record: Record) -> bool:
    return bool(record.get("pairs")) or scores_of(record)["main_metric"] == "all_spearman"


def compare(
    title: str,
    tasks: Sequence[str],
    a: list[Record],
    b: list[Record],
    store: Records,
    resamples: int = RESAMPLES,
    others: Others = ((), ()),
) -> Comparison:
    """Compare two rows on tasks; raises MissingError without scores or pair scores, UsageError where pairs differ.

    A pair of several tasks is drawn for all of them together, so that the noise of their average is right. The pooled
    noise of the seeds of `others` stands in for that of a row with one seed.
    """

    def noise(names: Sequence[str]) -> dict[int, SeedNoise]:
        alone = [side for side, row in enumerate((a, b)) if seeds_of(row) == "one"]
        return {side: pooled_noise([_by_seed(row, names) for row in others[side]]) for side in alone}

    read = [_read(task, of_task(a, task, store), of_task(b, task, store), store) for task in tasks]
    drawn = _draw(read, resamples)
    lines = []
    for task in read:
        pairs = len(task.scored.gold)
        shared = shared_with(task.name, tasks) if task.pool is not None else 0
        lines.append(
            _line(task.name, pairs, shared, task.by_seed(), drawn[task.name], noise([task.name]), _williams(task))
        )
    if len(lines) == 1:
        return Comparison(title, lines, None)
    by_seed = [np.mean([task.by_seed()[side] for task in read], axis=0) for side in (0, 1)]
    averages = np.mean([drawn[task.name] for task in read], axis=0)
    pairs, shared = sum(line.pairs for line in lines), sum(line.shared for line in lines)
    return Comparison(title, lines, _line("Avg.", pairs, shared, by_seed, averages, noise(tasks), None))


def _by_seed(records: Sequence[Record], tasks: Sequence[str]) -> list[float]:
    """Return a row's mean x100 over tasks for each seed that has a score of all of them."""
    scores: dict[int | None, dict[str, float]] = defaultdict(dict)
    for record in records:
        if record["status"] == "ok" and record["limit"] is None and record["task"]["name"] in tasks:
            scores[record["seed"]][record["task"]["name"]] = 100 * main_score(record)
    return [float(np.mean(list(of_seed.values()))) for of_seed in scores.values() if len(of_seed) == len(set(tasks))]


def _sorted(records: Sequence[Record]) -> list[Record]:
    """Return records sorted by seed, so that one seed has the same index in every task."""
    return sorted(records, key=lambda r: -1 if r["seed"] is None else r["seed"])


def _read(task: str, a: list[Record], b: list[Record], store: Records) -> _Task:
    sides = _sorted(a), _sorted(b)
    every = [*sides[0], *sides[1]]
    scores = [store.pair_scores(record) for record in every]
    if len({(pairs_of(record)["gold_sha256"], record["protocol"]) for record in every}) > 1:
        raise UsageError(f"{task}: {label(a)} and {label(b)} were measured on different pairs (--limit, say).")
    pool, places = pool_of(task, pairs_of(every[0])["gold_sha256"]) or (None, None)
    return _Task(task, sides, Scored(np.stack([predicted for predicted, _ in scores]), scores[0][1], places), pool)


def _draw(tasks: Sequence[_Task], resamples: int) -> dict[str, NDArray[np.float64]]:
    """Return the scores x100 (2, resamples) of both sides in resamples of the pairs, by task."""
    together: dict[object, list[_Task]] = defaultdict(list)
    for task in tasks:
        together[task.pool or task.name].append(task)
    drawn = {}
    for group in together.values():
        found = resample_together([task.scored for task in group], group[0].pool, resamples=resamples)
        for task, samples in zip(group, found, strict=True):
            first = len(task.sides[0])
            drawn[task.name] = 100 * np.stack([samples[:first].mean(axis=0), samples[first:].mean(axis=0)])
    return drawn


def _line(
    task: str,
    pairs: int,
    shared: int,
    by_seed: Sequence[NDArray[np.float64]],
    drawn: NDArray[np.float64],
    one_seed: dict[int, SeedNoise],
    test: Williams | None,
) -> Line:
    one = sample(by_seed, drawn, pairs, one_seed)
    found = differences(one)
    known = bool(np.isfinite(found.p[0, 1]))

    def of(matrix: NDArray[np.float64]) -> float | None:
        return float(matrix[0, 1]) if known else None

    return Line(
        task,
        pairs,
        shared,
        a=float(one.value[0]),
        b=float(one.value[1]),
        difference=float(found.value[0, 1]),
        pairs_error=float(found.pairs_error[0, 1]),
        seeds_error=of(found.seeds_error),
        df=of(found.df),
        low=of(found.low),
        high=of(found.high),
        p=of(found.p),
        williams=test if known else None,
    )


def _williams(task: _Task) -> Williams | None:
    from scipy.stats import rankdata

    gold = task.scored.gold
    if len(gold) < 4:
        return None
    ranks = np.corrcoef(rankdata([gold, *task.scored.predicted], axis=1))
    # The means over all combinations of seeds are again entries of a correlation matrix.
    count = len(task.sides[0])
    first, second = range(1, 1 + count), range(1 + count, len(ranks))
    between = float(np.mean([ranks[i, j] for i, j in product(first, second)]))
    return williams(float(ranks[0, list(first)].mean()), float(ranks[0, list(second)].mean()), between, len(gold))
