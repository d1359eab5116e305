"""The comparison of two rows on the same items, with the noise of items and seeds."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmark.metrics.correlation import ranks as rank
from benchmark.records.conflicts import two_versions
from benchmark.records.folder import Records
from benchmark.records.items import items_identity
from benchmark.records.query import PairTexts, Ranks, RowScores, label, of_task
from benchmark.records.record import Record, plain, scores_of
from benchmark.stats.draws import (
    ByTask,
    by_seed,
    comparable,
    finished,
    item_noise,
    sample_of,
    seed_correlation,
    share_draws,
    unit_of,
)
from benchmark.stats.mcb import LEVEL, Sample, differences, equivalence, pooled_noise
from benchmark.stats.power import Noise, pairs_needed, seeds_needed
from benchmark.tasks.overlap import pool_of, shared_with
from benchmark.tasks.suites import Suite, known_suites
from zoo.errors import ContractError, CorruptError, MissingError, UsageError


@dataclass(frozen=True)
class Williams:
    t: float
    df: int
    p: float


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> Williams:
    """Test the equality of two methods' correlations with the same gold scores over the same n pairs.

    It covers the noise of pairs only, not that of seeds. `r_ab` is the correlation of the two methods' scores.
    Williams (1959); Steiger (1980) recommends the test and calls it T2. For Spearman's rho it is an approximation.
    Raises ContractError for fewer than four pairs, or correlations that cannot occur together.
    """
    from scipy.special import stdtr

    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    if n < 4 or determinant < -1e-9:
        raise ContractError(f"Williams' test: n={n} with correlations {r_a}, {r_b} and {r_ab} cannot be tested.")
    if r_a == r_b:
        return Williams(0.0, n - 3, 1.0)
    mean = (r_a + r_b) / 2
    spread = 2 * (n - 1) / (n - 3) * max(determinant, 0.0) + mean**2 * (1 - r_ab) ** 3
    t = (r_a - r_b) * float(np.sqrt((n - 1) * (1 + r_ab) / spread)) if spread else float(np.copysign(np.inf, r_a - r_b))
    return Williams(t, n - 3, float(2 * stdtr(n - 3, -abs(t))))


AVERAGE = "Avg."
Seeds = Literal["none", "one", "several"]  # none: no noise of seeds; one: it cannot be measured


@dataclass(frozen=True)
class Line:
    """Scores x100 of both rows (means over seeds), A - B, and the noise of the difference.

    `pairs_error` and `seeds_error` are standard errors; low and high (95%) and p (two-sided) include both, with `df`
    degrees of freedom. All but the first are None for a single seed without lent noise. Williams' test covers the noise
    of pairs only.
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
    williams: Williams | None  # None: an average, an accuracy, fewer than four pairs, or no p for want of seeds
    seed_by_seed: bool = False  # the noise of seeds is that of the differences of each seed
    unrelated: float | None = None  # the number of pairs without a common text that say as much; None: not known
    seeds_sd: tuple[float | None, float | None] = (None, None)  # of A and of B over their seeds
    within: float | None = None  # p of two one-sided tests that the difference is inside a stated margin
    needed: str = ""  # how many seeds or pairs would show a difference of this size, where p shows none


@dataclass(frozen=True)
class Comparison:
    title: str
    lines: list[Line]
    average: Line | None
    correlation: tuple[float, int] | None = None  # of the seeds of the folder's rows that share draws, and their pairs
    unit: str = "pairs"  # of which the scores are made; "items" where some are right or wrong


Others = Sequence[Sequence[Sequence[Record]]]  # for A and for B: the rows whose noise of seeds may stand in


def seeds_of(records: Sequence[Record]) -> Seeds:
    seeds = {record["seed"] for record in records}
    return "none" if seeds == {None} else "one" if len(seeds) == 1 else "several"


def suites_in_common(
    a: list[Record], b: list[Record], named: Sequence[Suite] = (), results: Path | None = None
) -> list[Suite]:
    measured = {r["task"]["name"] for r in a} & {r["task"]["name"] for r in b}
    kept = {r["task"]["name"] for r in (*a, *b) if r.get("pairs") or r.get("items")}
    # Suites without item scores are returned only if there are no others, so that the error can say what is missing.
    candidates = named or [
        suite for suite in known_suites(results).values() if (measured & kept or measured) & set(suite.tasks)
    ]
    return [suite.narrowed(measured) for suite in candidates]


def have_mean(tasks: Collection[str], records: Sequence[Record], suites: Iterable[Suite]) -> bool:
    """Whether the tasks have one measure, or a suite has their mean."""
    measures = {scores_of(r)["main_metric"] for r in records if r["task"]["name"] in tasks and r["scores"] is not None}
    return len(measures) == 1 or any(suite.average and {*tasks} <= {*suite.tasks} for suite in suites)


def without_items(a: list[Record], b: list[Record]) -> set[str]:
    """Return the common tasks without item scores of a row, as accuracies once were."""

    def keeps(record: Record) -> bool:
        kept = record.get("pairs") or record.get("items")
        return bool(kept) or scores_of(record)["main_metric"] == "all_spearman"

    finished_of = [[r for r in row if r["status"] == "ok"] for row in (a, b)]
    both = set.intersection(*({r["task"]["name"] for r in row} for row in finished_of))
    return {r["task"]["name"] for row in finished_of for r in row if not keeps(r)} & both


def compare(
    title: str,
    tasks: Sequence[str],
    a: list[Record],
    b: list[Record],
    store: Records,
    others: Others = ((), ()),
    folder: Sequence[Sequence[Record]] = (),
    texts: PairTexts | None = None,
    margin: float | None = None,
    average: bool = True,
) -> Comparison:
    """Compare two rows on tasks.

    A pair of several tasks is in all of them together, so that the noise of their average is right, and so are pairs
    with a common text. `texts` reads those of tasks outside `overlap.json`. The pooled seed noise of `others` is lent
    to a row with a single seed. `folder` has the folder's rows, for correlated seeds. `margin`: see `Line.within`.
    Tasks of different measures have no `average`.

    Raises:
        MissingError: Scores or item scores are missing.
        UsageError: The items differ.
    """
    rows: list[ByTask] = [{task: of_task(row, task, store) for task in tasks} for row in (a, b)]
    for task in tasks:
        if len(comparable([{task: row[task]} for row in rows])) < 2:
            raise UsageError(f"{task}: {label(a)} and {label(b)} were measured on different pairs (--limit, say).")
        if mixed := two_versions([*rows[0][task], *rows[1][task]]):
            raise UsageError(f"{label(a)} and {label(b)} on {task}: {mixed}")
    noise, damaged = item_noise(rows, store, texts)
    if damaged:
        raise CorruptError(next(iter(damaged.values()))[0])
    every = [finished(row, tasks) for row in folder]

    def of(names: Sequence[str]) -> Sample:
        alone = [side for side, row in enumerate((a, b)) if seeds_of(row) == "one"]
        pooled = {side: [list(by_seed(finished(row, names), names).values()) for row in others[side]] for side in alone}
        return sample_of(rows, noise, names, {side: pooled_noise(scores) for side, scores in pooled.items()})

    unit = unit_of(of_task for row in rows for of_task in row.values())
    paired = share_draws(*rows)
    line = functools.partial(_line, paired=paired, unit=unit, margin=margin)
    correlation = seed_correlation(every, tasks) if paired else None
    lines = []
    for task in tasks:
        first = rows[0][task][0]
        shared = shared_with(task, tasks) if pool_of(task, items_identity(first).gold_sha256) is not None else 0
        spreads = [list(by_seed(row, [task]).values()) for row in rows]
        test = _williams([row[task] for row in rows], store)
        lines.append(replace(line(task, shared, spreads, of([task]), test), unrelated=noise.unrelated(task)))
    if len(lines) == 1 or not average:
        return Comparison(title, lines, None, correlation, unit)
    spreads = [list(by_seed(row, tasks).values()) for row in rows]
    mean = line(AVERAGE, sum(task_line.shared for task_line in lines), spreads, of(tasks), None)
    return Comparison(title, lines, mean, correlation, unit)


def noise_of_move(
    before: Sequence[Record], after: Sequence[Record], first: Records, second: Records
) -> tuple[float | None, float | None, float | None]:
    """Return the interval of B - A and its p; None without item scores or a noise of seeds."""
    unknown = None, None, None
    try:
        if len({items_identity(r).gold_sha256 for r in (*before, *after)}) > 1:
            return unknown
        rows: list[ByTask] = [{records[0]["task"]["name"]: records} for records in (before, after)]
        noise, damaged = item_noise(rows, (first, second))
    except MissingError:
        return unknown
    if damaged:
        return unknown
    result = differences(sample_of(rows, noise, list(rows[0])))
    low, high, p = (plain(float(part[1, 0])) for part in (result.low, result.high, result.p))
    return low, high, p


def _line(
    task: str,
    shared: int,
    by_seed: Sequence[Sequence[float]],
    sample: Sample,
    test: Williams | None,
    *,
    paired: bool,
    unit: str,
    margin: float | None,
) -> Line:
    result = differences(sample)
    of_pairs = float(result.pairs_error[0, 1])
    known = bool(np.isfinite(result.p[0, 1]))
    names = ("seeds_error", "df", "low", "high", "p")
    of = {name: plain(float(getattr(result, name)[0, 1])) if known else None for name in names}
    return Line(
        task,
        sample.pairs,
        shared,
        a=float(sample.value[0]),
        b=float(sample.value[1]),
        difference=float(result.value[0, 1]),
        pairs_error=of_pairs,
        williams=test if known else None,
        seed_by_seed=paired,
        seeds_sd=(_sd(by_seed[0]), _sd(by_seed[1])),
        within=equivalence(result, margin)[0, 1] if known and margin is not None else None,
        needed=_needed(sample, abs(float(result.value[0, 1])), result.p[0, 1], of_pairs, paired=paired, unit=unit),
        **of,
    )


def _sd(scores: Sequence[float]) -> float | None:
    return float(np.std(scores, ddof=1)) if len(scores) > 1 else None


def _needed(sample: Sample, difference: float, p: float, of_pairs: float, *, paired: bool, unit: str) -> str:
    """Return how many seeds, or pairs, would show a true difference in 80% of repetitions."""
    if not p >= LEVEL or difference < 0.005:
        return ""
    count = sample.seed_df[sample.seed_df > 0] + 1
    variance = (
        (sample.shared[0, 1] * count[0]) if paired else float(np.sum(sample.seed_variance[sample.seed_df > 0] * count))
    )
    sides = 1 if paired else len(count)
    noise = Noise(float(of_pairs), math.sqrt(variance / max(sides, 1)), sample.pairs_df, sides)
    if sides and (seeds := seeds_needed(noise, difference)) is not None:
        return f"{seeds} seeds"
    return f"{pairs_needed(noise, sample.pairs, difference):,} {unit}" + (" and more seeds" if sides else "")


def _williams(sides: Sequence[Sequence[Record]], store: Records) -> Williams | None:
    records = [record for side in sides for record in side]
    if any(record.get("items") for record in records):
        return None
    scores = [store.pair_scores(record) for record in records]
    gold = scores[0][1]
    if len(gold) < 4:
        return None
    ranks = np.corrcoef([rank(values) for values in (gold, *(predicted for predicted, _ in scores))])
    # The means over all combinations of seeds are again entries of a correlation matrix.
    count = len(sides[0])
    first, second = range(1, 1 + count), range(1 + count, len(ranks))
    between = float(np.mean([ranks[i, j] for i, j in product(first, second)]))
    return williams(float(ranks[0, list(first)].mean()), float(ranks[0, list(second)].mean()), between, len(gold))


def largest(off: Ranks, count: int) -> list[int]:
    """Return the indices of the largest absolute values (n,), in order; ties keep their order."""
    # Means over seeds differ in their last bits, which must not separate equal values.
    return [int(i) for i in np.argsort(-np.round(np.abs(off), 6), kind="stable")[:count]]


def differing_pairs(a: RowScores, b: RowScores, count: int) -> list[dict[str, Any]]:
    first, second = (kept.places.mean(axis=0) for kept in (a, b))
    return [
        {
            "row": i + 1,
            "gold": round(float(a.gold[i]), 6),
            "gold_place": float(a.gold_places[i]),
            "a_place": float(first[i]),
            "b_place": float(second[i]),
            "difference": float(first[i] - second[i]),
        }
        for i in largest(first - second, count)
    ]
