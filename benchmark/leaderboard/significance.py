"""Which rows of a table are tied with the best: from the records' pair scores, without encoding anything again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmark.metrics.significance import LEVEL, resample, tied_with
from benchmark.records.store import Record, Records
from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import read_arrays, sha256_json, write_arrays
from zoo.paths import cache_folder

if TYPE_CHECKING:
    from benchmark.leaderboard.table import Row
    from benchmark.tasks.base import PairScores

RESAMPLES = 2_000  # p is known to 0.001; `zoo-bench compare` takes more
_QUICK, _FAR = 100, 5  # rows that so few resamples put so many standard deviations below the best need no more

_Scored = tuple["Row", dict[str, list[Record]]]  # a row, and its records with pair scores by task


def mark_ties(rows: Sequence[Row], records: Mapping[tuple[str, str], list[Record]], store: Records) -> str:
    """Set `tied` of the rows, best first, that can be compared with the best; returns a line that says how, or "".

    `records` are the rows' by name and row key. A row is left out where a record has no pair scores, damaged ones (said
    in its notes) or other gold scores than the best row's; where that is the best row, so is every other.
    """
    ranked = [row for row in rows if row.rank is not None]
    mine = [_scored(row, records[row.name, row.row_key], store) for row in ranked]
    if len(ranked) < 2 or mine[0] is None:
        return ""
    golds = {task: _golds(of_task) for task, of_task in mine[0].items()}
    comparable = [
        (row, of_row)
        for row, of_row in zip(ranked, mine, strict=True)
        if of_row is not None
        and row.about["protocol"] == ranked[0].about["protocol"]
        and all(_golds(of_task) == golds[task] for task, of_task in of_row.items())
    ]
    comparable, drawn = _averages(comparable, store, _QUICK)
    if not comparable or comparable[0][0] is not ranked[0]:
        return ""
    lead = drawn[0] - drawn
    near = ~(lead.mean(axis=1) > _FAR * lead.std(axis=1))  # NaN, from a resample without a correlation, decides nothing
    close, drawn = _averages([scored for scored, keep in zip(comparable, near, strict=True) if keep], store, RESAMPLES)
    tied = tied_with(0, drawn).tolist()
    for row, _ in comparable:
        row.tied = False
    for (row, _), value in zip(close, [any(tied[1:]), *tied[1:]], strict=True):  # the best alone is tied with none
        row.tied = value
    unknown = [row.name for row in ranked if row.tied is None]
    return (
        f"≈: not significantly different from rank 1 (p ≥ {LEVEL}, two-sided; paired bootstrap over the pairs of every"
        f" task, {RESAMPLES:,} resamples, mean over seeds; each method by itself, spread over seeds not counted)."
        + (f" Not known, for want of comparable pair scores: {', '.join(unknown)}." if unknown else "")
    )


def _averages(rows: list[_Scored], store: Records, resamples: int) -> tuple[list[_Scored], NDArray[np.float64]]:
    """Return the rows whose pair scores are whole, and their averages (rows, resamples): over seeds, then tasks."""
    samples: dict[str, NDArray[np.float32]] = {}
    for task in rows[0][1]:
        samples |= _samples(task, [(row, r) for row, of_row in rows for r in of_row[task]], store, resamples)
    whole = [
        (row, of_row)
        for row, of_row in rows
        if all(r["key"] in samples for of_task in of_row.values() for r in of_task)
    ]
    # Every task has every seed, so that this is the table's average, whichever mean comes first.
    averages = [
        np.mean([np.mean([samples[r["key"]] for r in of_task], axis=0) for of_task in of_row.values()], axis=0)
        for _, of_row in whole
    ]
    return whole, np.array(averages, dtype=np.float64).reshape(len(whole), resamples)


def _scored(row: Row, records: list[Record], store: Records) -> dict[str, list[Record]] | None:
    """Return a row's records by task, or None where one has no pair scores."""
    mine = [r for r in records if r["task"]["name"] in row.values and r["status"] == "ok"]
    if not all(store.pairs_file(record) for record in mine):
        return None
    return {task: [r for r in mine if r["task"]["name"] == task] for task in row.values}


def _golds(records: list[Record]) -> set[str]:
    return {record["pairs"]["gold_sha256"] for record in records}


def _samples(
    task: str, records: Sequence[tuple[Row, Record]], store: Records, resamples: int
) -> dict[str, NDArray[np.float32]]:
    """Return the resampled correlations (resamples,) of records on one gold, by record key; damaged ones are noted.

    They depend on a record's pair file alone, so cached ones serve for as long as the file is the same.
    """
    gold_sha256 = records[0][1]["pairs"]["gold_sha256"]
    place = sha256_json(["spearman", 1, resamples, str(store.folder.resolve()), task, gold_sha256])
    path = cache_folder() / "significance" / f"{place[:32]}.safetensors.gz"
    known: dict[str, NDArray[np.float32]] = {}
    with contextlib.suppress(MissingError, CorruptError):  # a cache may be gone or damaged
        known = read_arrays(path)
    new: dict[str, PairScores] = {}
    for row, record in records:
        if record["pairs"]["sha256"] not in known:
            try:
                new[record["pairs"]["sha256"]] = store.pair_scores(record)
            except (MissingError, CorruptError) as error:
                row.notes.append(f"significance: {error}")
    if new:
        predicted, golds = zip(*new.values(), strict=True)
        drawn = resample(np.stack(predicted), golds[0], resamples=resamples).astype(np.float32)
        known |= dict(zip(new, drawn, strict=True))
    found = {record["key"]: record["pairs"]["sha256"] for _, record in records if record["pairs"]["sha256"] in known}
    if new:
        with contextlib.suppress(ZooError):  # one that cannot be written is no reason to stop
            write_arrays(path, {sha256: known[sha256] for sha256 in found.values()})
    return {key: known[sha256] for key, sha256 in found.items()}
