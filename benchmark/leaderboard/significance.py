"""Finds the rows of a table that may be the best, from the pair scores in the records, without encoding again."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmark.metrics.bootstrap import Pool, Scored, resample_together
from benchmark.metrics.significance import (
    LEVEL,
    POWER,
    Differences,
    Sample,
    SeedNoise,
    detectable,
    differences,
    median_noise,
    not_told_apart,
    pooled_noise,
    sample,
    seeds_needed,
)
from benchmark.records.folder import Records
from benchmark.records.record import Record, main_score, pairs_of
from benchmark.tasks.overlap import pool_of
from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import read_arrays, sha256_json, write_arrays
from zoo.paths import cache_folder

if TYPE_CHECKING:
    from benchmark.leaderboard.rows import Row
    from benchmark.tasks.base import PairScores

RESAMPLES = 2_000

_Scored = tuple["Row", dict[str, list[Record]]]  # a row, and its records with pair scores by task
_Drawn = dict[str, NDArray[np.float32]]  # resampled correlations by sha256 of the pair scores
_METHOD = 2  # increased when the same pair scores would give other draws


def mark_best(
    rows: Sequence[Row], records: Mapping[tuple[str, str], list[Record]], store: Records, borrow: bool = False
) -> str:
    """Set `among_best` of those rows (sorted, best first) that can be compared; returns the legend of the mark.

    `records` are the rows' records by name and row key. A row is left out if it has one seed (with `borrow`: and no
    other row of its backbone has several), or if a record has no pair scores, damaged ones (stated in its notes), or
    other gold scores than the best row. If the best row lacks comparable ones, no row is compared. The legend also
    says what differences so many seeds find. It is "" where there is nothing to say.
    """
    lacking = [row for row in rows if row.rank is not None and row.missing_seeds]
    ranked = [row for row in rows if row.rank is not None and not row.missing_seeds]
    mine = {id(row): _scored(row, records[row.identity, row.row_key], store) for row in ranked}
    noise = _one_seed_noise(ranked, records, borrow)
    alone = [row for row in ranked if row.name in noise and not noise[row.name].df]
    known = [row for row in ranked if row.name not in noise or noise[row.name].df]
    about_seeds = " ".join(filter(None, [_about_one_seed(alone, noise), _about_missing_seeds(lacking)]))
    first = mine[id(known[0])] if known else None
    if len(ranked) < 2 or first is None:
        return about_seeds if len(ranked) + len(lacking) > 1 else ""
    golds = {task: _golds(of_task) for task, of_task in first.items()}
    comparable = [
        (row, of_row)
        for row in known
        if (of_row := mine[id(row)]) is not None
        and row.about["protocol"] == known[0].about["protocol"]
        and all(_golds(of_task) == golds[task] for task, of_task in of_row.items())
    ]
    comparable, drawn = _averages(comparable, store)
    if not comparable or comparable[0][0] is not known[0]:
        return about_seeds
    pairs = sum(of_task[0]["task"]["rows"] or 0 for of_task in comparable[0][1].values())
    borrowed = {i: noise[row.name] for i, (row, _) in enumerate(comparable) if row.name in noise}
    by_seed = [_by_seed(of_row) for _, of_row in comparable]
    one = sample(by_seed, drawn, pairs, borrowed)
    best = not_told_apart(one)
    for (row, _), among in zip(comparable, best.tolist(), strict=True):
        row.among_best = among
        row.mark = "≈" if among and best.sum() > 1 else ""
    return " ".join(filter(None, [_legend(known), about_seeds, _power(one, [len(scores) for scores in by_seed])]))


def _one_seed_noise(
    rows: Sequence[Row], records: Mapping[tuple[str, str], list[Record]], borrow: bool
) -> dict[str, SeedNoise]:
    """Return, by name, the rows of one seed with the noise that stands in for theirs: not known, or pooled."""
    scores: dict[str, list[list[float]]] = defaultdict(list)  # by backbone
    alone: list[Row] = []
    for row in rows:
        mine = [
            r for r in records[row.identity, row.row_key] if r["task"]["name"] in row.values and r["status"] == "ok"
        ]
        seeds = {r["seed"] for r in mine}
        if len(seeds) == 1 and None not in seeds:
            alone.append(row)
        elif borrow and len(seeds) > 1 and row.about["backbone"]:
            scores[row.about["backbone"]].append(_by_seed({"": mine}))
    return {row.name: pooled_noise(scores.get(row.about["backbone"], [])) for row in alone}


def _about_one_seed(alone: Sequence[Row], noise: Mapping[str, SeedNoise]) -> str:
    """Return which rows have no mark for want of seeds, and which have the noise of other rows."""
    parts = []
    if alone:
        names = ", ".join(row.name for row in alone)
        parts.append(f"One seed, so the noise of seeds is unknown and there is no mark (run --seeds 3): {names}.")
    borrowed = [
        f"{name} ({100 * one.variance**0.5:.2f}, {one.df:.0f} degrees of freedom)"
        for name, one in noise.items()
        if one.df
    ]
    if borrowed:
        parts.append(
            "One seed, with the pooled standard deviation over seeds of the other trained rows of its backbone in place"
            f" of its own: {', '.join(borrowed)}."
        )
    return " ".join(parts)


def _about_missing_seeds(lacking: Sequence[Row]) -> str:
    """Return which rows have no mark because the table lacks seeds that were planned."""
    names = ", ".join(f"{row.name} ({row.missing_seeds})" for row in lacking)
    return f"Seeds are missing, so there is no mark (run the same command again): {names}." if names else ""


def _power(one: Sample, seeds: Sequence[int]) -> str:
    """Return what differences the table's noise lets comparisons find; "" where no row has several seeds."""
    noise = median_noise(one, seeds)
    if noise is None:
        return ""
    found, needed = detectable(noise, 3), seeds_needed(noise, 0.01)
    takes = "is not found so often even with 100 seeds" if needed is None else f"takes {needed} seeds"
    return (
        f"Power: with 3 seeds each, a difference of {100 * found:.2f} between two rows is found (p < {LEVEL:g}) in"
        f" {POWER:.0%} of repetitions; 1.0 {takes}. The two rows have this table's median noise: standard deviations of"
        f" {100 * noise.seeds:.2f} over seeds, and of {100 * noise.pairs:.2f} of a difference over the pairs."
    )


def of_row(row: Row, records: Sequence[Record], trial: bool) -> dict[str, list[Record]]:
    """Return a row's finished records by task, either those of trials (cut data) or those of whole data."""
    found: dict[str, list[Record]] = defaultdict(list)
    for r in records:
        named = r["method"]["name"] == row.identity
        if named and r["row_key"] == row.row_key and r["status"] == "ok" and (r["limit"] is not None) == trial:
            found[r["task"]["name"]].append(r)
    return dict(found)


def row_differences(
    rows: Sequence[tuple[Row, dict[str, list[Record]]]], store: Records
) -> tuple[list[Row], NDArray[np.float64], Differences]:
    """Compare every two rows on the mean of their tasks, which all of them have with pair scores.

    Returns the compared rows, their means (fractions) and the differences, whose intervals are NaN for rows of one
    seed. Left out are rows with other gold scores or another protocol than the first row, and damaged ones.
    """
    first = rows[0][1]
    golds = {task: (_golds(of_task), of_task[0]["protocol"]) for task, of_task in first.items()}
    alike = [
        (row, of_tasks)
        for row, of_tasks in rows
        if all((_golds(of), of[0]["protocol"]) == golds[task] for task, of in of_tasks.items())
    ]
    alike, drawn = _averages(alike, store)
    pairs = sum(of_task[0]["task"]["rows"] or 0 for of_task in first.values())
    alone = [
        i
        for i, (_, of_tasks) in enumerate(alike)
        if all(len(of) == 1 and of[0]["seed"] is not None for of in of_tasks.values())
    ]
    one = sample([_by_seed(of_tasks) for _, of_tasks in alike], drawn, pairs, dict.fromkeys(alone, SeedNoise()))
    return [row for row, _ in alike], one.value, differences(one)


def _legend(compared: Sequence[Row]) -> str:
    """Return the meaning of the mark, if any row has it, and the rows that could not be compared."""
    parts = []
    if any(row.mark for row in compared):
        parts.append(
            f"≈: may truly be the best. With {1 - LEVEL:.0%} confidence the truly best of the compared rows is one of"
            " those with this mark. All rows were compared with the best at once. The comparison contains the noise of"
            f" pairs ({RESAMPLES:,} bootstrap resamples; a pair that is in several tasks is drawn for all of them) and"
            " the noise of seeds."
        )
    unknown = [row.name for row in compared if row.among_best is None]
    if unknown:
        parts.append(f"Not compared, because comparable pair scores are missing: {', '.join(unknown)}.")
    return " ".join(parts)


def _by_seed(of_row: dict[str, list[Record]]) -> list[float]:
    """Return a row's average over tasks for each seed: every task has every seed."""
    scores: dict[int | None, list[float]] = defaultdict(list)
    for of_task in of_row.values():
        for record in of_task:
            scores[record["seed"]].append(main_score(record))
    return [float(np.mean(of_seed)) for of_seed in scores.values()]


def _averages(rows: list[_Scored], store: Records) -> tuple[list[_Scored], NDArray[np.float64]]:
    """Return the rows with undamaged pair scores, and their averages (rows, resamples) over seeds, then tasks."""
    drawn = _draw({task: [(row, r) for row, of_row in rows for r in of_row[task]] for task in rows[0][1]}, store)
    whole = [
        (row, of_row)
        for row, of_row in rows
        if all(pairs_of(r)["sha256"] in drawn[task] for task, of_task in of_row.items() for r in of_task)
    ]
    # Every task has every seed, so that the order of the two means does not matter: this is the table's average.
    averages = [
        np.mean(
            [np.mean([drawn[task][pairs_of(r)["sha256"]] for r in of], axis=0) for task, of in of_row.items()], axis=0
        )
        for _, of_row in whole
    ]
    return whole, np.array(averages, dtype=np.float64).reshape(len(whole), RESAMPLES)


def _scored(row: Row, records: list[Record], store: Records) -> dict[str, list[Record]] | None:
    """Return a row's records by task, or None where one has no pair scores."""
    mine = [r for r in records if r["task"]["name"] in row.values and r["status"] == "ok"]
    if not all(store.has_pairs(record) for record in mine):
        return None
    return {task: [r for r in mine if r["task"]["name"] == task] for task in row.values}


def _golds(records: list[Record]) -> set[str]:
    return {pairs_of(record)["gold_sha256"] for record in records}


def _draw(wanted: Mapping[str, Sequence[tuple[Row, Record]]], store: Records) -> dict[str, _Drawn]:
    """Return the resampled correlations (resamples,) of records, by task and sha256; damaged ones are noted.

    They depend only on a record's pair scores, so that cached ones are used as long as these are the same.
    """
    drawn: dict[str, _Drawn] = {}
    missing: dict[Pool | str, dict[str, tuple[Scored, list[str]]]] = defaultdict(dict)  # by what is drawn together
    for task, records in wanted.items():
        gold_sha256 = pairs_of(records[0][1])["gold_sha256"]
        pooled = pool_of(task, gold_sha256)
        drawn[task] = _cached(_place(task, gold_sha256, store))
        new = _unread(records, drawn[task], store)
        if new:
            predicted, golds = zip(*new.values(), strict=True)
            pool, places = pooled if pooled is not None else (task, None)
            missing[pool][task] = Scored(np.stack(predicted), golds[0], places), list(new)
    for pool, tasks in missing.items():
        scored = [one for one, _ in tasks.values()]
        found = resample_together(scored, pool if isinstance(pool, Pool) else None, resamples=RESAMPLES, expanded=True)
        for (task, (_, names)), samples in zip(tasks.items(), found, strict=True):
            drawn[task] |= dict(zip(names, samples.astype(np.float32), strict=True))
            kept = {pairs_of(record)["sha256"] for _, record in wanted[task]} & set(drawn[task])
            with contextlib.suppress(ZooError):  # a cache that cannot be written is no reason to stop
                place = _place(task, pairs_of(wanted[task][0][1])["gold_sha256"], store)
                write_arrays(place, {sha256: drawn[task][sha256] for sha256 in sorted(kept)}, level=0)  # noise
    return drawn


def _place(task: str, gold_sha256: str, store: Records) -> Path:
    pooled = pool_of(task, gold_sha256)
    pool = pooled[0].digest if pooled is not None else None
    name = sha256_json([_METHOD, RESAMPLES, str(store.folder.resolve()), task, gold_sha256, pool])
    return cache_folder() / "significance" / f"{name[:32]}.safetensors.gz"


def _cached(path: Path) -> _Drawn:
    try:
        return read_arrays(path)
    except (MissingError, CorruptError):  # the cache may be deleted or damaged
        return {}


def _unread(records: Sequence[tuple[Row, Record]], known: _Drawn, store: Records) -> dict[str, PairScores]:
    """Return, by sha256, the pair scores of records without draws; damaged ones are noted in their row."""
    new: dict[str, PairScores] = {}
    for row, record in records:
        if pairs_of(record)["sha256"] not in known:
            try:
                new[pairs_of(record)["sha256"]] = store.pair_scores(record)
            except (MissingError, CorruptError) as error:
                row.notes.append(f"significance: {error}")
    return new
