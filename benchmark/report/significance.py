"""Marks for rows tied for the best, and the differences a table's noise lets comparisons find."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmark.records.folder import Records
from benchmark.records.items import items_identity
from benchmark.records.query import keeps_items
from benchmark.records.record import Record
from benchmark.report import learned as learning
from benchmark.report.conditions import CONTROL, group, noise_of, role
from benchmark.report.learned import learned_of, starts_of
from benchmark.stats import bootstrap, clusters, draws, marks, mcb
from benchmark.stats.draws import ByTask, by_seed, finished, origin_of, unit_of
from benchmark.stats.marks import TIE, UNTOLD, arrows_against, marked
from benchmark.stats.mcb import LEVEL, Sample, SeedNoise, differences
from benchmark.stats.power import (
    MOST_SEEDS,
    POWER,
    detectable,
    median_noise,
    pairs_needed,
    seeds_needed,
    seen_without_seeds,
)
from benchmark.tasks.overlap import TABLE
from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import read_signed, sha256_json, write_signed
from zoo.paths import cache_folder

if TYPE_CHECKING:
    from benchmark.report.rows import Row


def mark_best(
    rows: Sequence[Row],
    records: Mapping[tuple[str, str], list[Record]],
    store: Records,
    borrow: bool = False,
    trial: bool = False,
    baseline: str = "",
    suite: str = "",
    on: str = "",
) -> tuple[str, str, str]:
    """Mark the rows by `_mark_best`, or from the cache for equal records and code.

    `suite` names the table in the cache, `on` begins the sentence on its findings ("On the mean of all tasks").
    """
    place = cache_folder() / "significance" / f"{sha256_json([str(store.folder.resolve()), suite, trial])[:32]}.json"
    state = _state(rows, records, store, [borrow, trial, baseline, on])
    with contextlib.suppress(MissingError, CorruptError):  # the cache may be deleted or damaged
        kept = read_signed(place)
        if kept["state"] == state:
            for row, (among, mark, sign, gain) in zip(rows, kept["rows"], strict=True):
                row.among_best, row.mark, row.against, row.gain = among, mark, sign, gain
            return kept["legend"], kept["against"], kept["learned"]
    notes = [len(row.notes) for row in rows]
    legend, against, learned = _mark_best(rows, records, store, borrow, trial, baseline, on)
    # Damaged pair scores are named each time.
    if notes == [len(row.notes) for row in rows]:
        marks = [(row.among_best, row.mark, row.against, row.gain) for row in rows]
        texts = {"legend": legend, "against": against, "learned": learned}
        with contextlib.suppress(ZooError):  # a cache that cannot be written is no reason to stop
            write_signed(place, {"state": state, "rows": marks, **texts})
    return legend, against, learned


def _state(
    rows: Sequence[Row],
    records: Mapping[tuple[str, str], list[Record]],
    store: Records,
    options: list[object],
) -> str:
    digest = hashlib.sha256(_code())

    def add(*values: object) -> None:
        digest.update(repr(values).encode("utf-8", "surrogatepass"))

    add(options, [list(row.values) for row in rows[:1]], os.environ.get("ZOO_BENCH_DATA"))
    for row in rows:
        of_row = records[row.identity, row.row_key]
        add(row.name, row.row_key, row.rank, row.average, row.missing_seeds, role(row), group(row))
        add(row.about["backbone"], origin_of(of_row[0]), of_row[0]["method"]["recipe"], of_row[0].get("start_key"))
        for record in of_row:
            task, scores = record["task"], record["scores"]
            kept = items_identity(record) if record.get("pairs") or record.get("items") else None
            add(task["name"], task["rows"], record["seed"], record["status"], record["protocol"], record["limit"])
            add(scores and scores["main"], kept, store.has_items(record))
    return digest.hexdigest()


@functools.cache
def _code() -> bytes:
    """Return the sources and data of marks; a cached mark is never older."""
    modules = (bootstrap, clusters, mcb, draws, marks, learning, sys.modules[__name__])
    files = (*(Path(str(module.__file__)) for module in modules), draws.FLOORS, TABLE)
    return b"".join(file.read_bytes() for file in files)


def _mark_best(
    rows: Sequence[Row],
    records: Mapping[tuple[str, str], list[Record]],
    store: Records,
    borrow: bool = False,
    trial: bool = False,
    baseline: str = "",
    on: str = "",
) -> tuple[str, str, str]:
    """Set `among_best`, `mark` and `gain` of the comparable rows (best first), `against` with a `baseline`.

    Returns legend, meaning of `against`, findings. `records` are by name and row key. With `borrow`, rows of one seed
    have the noise of their backbone's other rows.
    """
    lacking = [row for row in rows if row.rank is not None and row.missing_seeds]
    ranked = [row for row in rows if row.rank is not None and not row.missing_seeds]
    tasks = list(rows[0].values) if rows else []
    by_task = {cell: finished(of, tasks, trial=trial) for cell, of in records.items()}
    scored = {id(row): by_task[row.identity, row.row_key] for row in ranked}
    backbones = [row.about["backbone"] for row in ranked] if borrow else ()
    of_table = marked([scored[id(row)] for row in ranked], store, tasks, backbones)
    alone = [ranked[place] for place, noise in of_table.one_seed.items() if not noise.df]
    lent = {ranked[place].name: noise for place, noise in of_table.one_seed.items() if noise.df}
    known = [ranked[place] for place in of_table.known]
    about_seeds = " ".join(filter(None, [_about_one_seed(alone, lent), _about_missing_seeds(lacking)]))
    for place, reasons in of_table.damaged.items():
        ranked[place].notes += [f"significance: {reason}" for reason in reasons]
    unit = unit_of(records.values())
    without = _why_not(rows, scored, store, alone, known) if baseline else {}
    if of_table.sample is None:
        return about_seeds if len(ranked) + len(lacking) > 1 else "", _not_compared(baseline, without), ""
    kept = [ranked[place] for place in of_table.places]
    for row, among, mark in zip(kept, of_table.best, of_table.marks, strict=True):
        row.among_best, row.mark = among, mark
    seeds = [0 if role(row) == CONTROL else len(by_seed(scored[id(row)])) for row in kept]
    legend = " ".join(filter(None, [_legend(known, unit), about_seeds, _power(of_table.sample, seeds, unit)]))
    against = _set_against(kept, of_table.sample, baseline, without, unit) if baseline else ""
    _set_gains(kept, of_table.sample)
    several = len(kept) > 1 and kept[0].average.mean is not None
    return legend, against, learned_of(kept, of_table.sample, on, unit) if several else ""


def _set_against(rows: Sequence[Row], sample: Sample, baseline: str, without: Mapping[str, str], unit: str) -> str:
    at = next((i for i, row in enumerate(rows) if baseline in (row.name, row.identity)), None)
    if at is None:
        return _not_compared(baseline, without)
    for i, sign in arrows_against(differences(sample), at).items():
        rows[i].against = sign
    return (
        f"↑: above {baseline}, ↓: below it (p < {LEVEL:g}, Holm's procedure over {len(rows) - 1} rows)."
        f" {noise_of(rows, unit)}"
    )


def _set_gains(rows: Sequence[Row], sample: Sample) -> None:
    starts, of = starts_of(rows), differences(sample)
    untrained = next((row for row in rows if role(row) not in ("", CONTROL)), None)
    places = {row.name: place for place, row in enumerate(rows)}
    for place, row in enumerate(rows):
        start = starts.get(row.name, untrained)
        if role(row) or start is None:
            continue
        at = place, places[start.name]
        if np.isfinite(of.low[at]):
            row.gain = start.name, float(of.value[at]), float(of.low[at]), float(of.high[at])


def _not_compared(baseline: str, without: Mapping[str, str]) -> str:
    if not baseline:
        return ""
    return f"No row is compared with {baseline}: {without.get(baseline, 'this table has no row of it')}."


def _why_not(
    rows: Sequence[Row], scored: Mapping[int, ByTask], store: Records, alone: Sequence[Row], known: Sequence[Row]
) -> dict[str, str]:
    """Return, by name, the reasons against rows as the table's baseline."""

    def lacks(row: Row) -> str:
        of_row = scored[id(row)].items()
        tasks = [task for task, records in of_row if not all(store.has_items(record) for record in records)]
        again = " (measure it again: --remeasure)" if all(map(keeps_items, tasks)) else ""
        return f"has no item scores of {', '.join(tasks)}{again}" if tasks else ""

    reasons = {}
    for row in rows:
        if row.rank is None:
            why = "it has no mean of this table's tasks"
        elif row.missing_seeds:
            why = f"it has {row.missing_seeds}"
        elif any(row is other for other in alone):
            why = "it has one seed (run --seeds 3)"
        elif lacking := lacks(row):
            why = f"it {lacking}"
        elif lacking := lacks(known[0]):
            why = f"the best row, {known[0].name}, {lacking}"
        elif len(rows) < 2:
            why = "there is no other row"
        else:
            why = "its item scores are damaged, or of other data than those of the best row"
        reasons[row.name] = why
    return reasons


def _about_one_seed(alone: Sequence[Row], lent: Mapping[str, SeedNoise]) -> str:
    parts = []
    if alone:
        names = ", ".join(row.name for row in alone)
        parts.append(f"One seed, so the noise of seeds is unknown and there is no mark (run --seeds 3): {names}.")
    if lent:
        borrowed = [
            f"{name} ({noise.variance**0.5:.2f}, {noise.df:.0f} degrees of freedom)" for name, noise in lent.items()
        ]
        parts.append(
            "One seed, with the pooled standard deviation over seeds of the other trained rows of its backbone in place"
            f" of its own: {', '.join(borrowed)}."
        )
    return " ".join(parts)


def _about_missing_seeds(lacking: Sequence[Row]) -> str:
    names = ", ".join(f"{row.name} ({row.missing_seeds})" for row in lacking)
    return f"Seeds are missing, so there is no mark (run the same command again): {names}." if names else ""


def _power(sample: Sample, seeds: Sequence[int], unit: str) -> str:
    """`seeds` are 0 for controls."""
    noise = median_noise(sample, seeds)
    if noise is None:
        return ""
    if not noise.seeds:
        seen = seen_without_seeds(noise)
        return (
            f"Power: no row but controls depends on a seed. With these {sample.pairs:,} {unit}, a difference of"
            f" {seen:.2f} between two rows is found (p < {LEVEL:g}) in {POWER:.0%} of repetitions; 1.0 takes"
            f" {pairs_needed(noise, sample.pairs, 1.0):,} {unit}. The two rows have this table's median noise: a"
            f" standard deviation of {noise.pairs:.2f} of a difference over the {unit}."
        )
    difference, needed = detectable(noise, 3), seeds_needed(noise, 1.0)
    takes = f"is not found so often even with {MOST_SEEDS} seeds" if needed is None else f"takes {needed} seeds"
    return (
        f"Power: with 3 seeds each, a difference of {difference:.2f} between two rows is found (p < {LEVEL:g}) in"
        f" {POWER:.0%} of repetitions; 1.0 {takes}. The two rows have this table's median noise: standard deviations of"
        f" {noise.seeds:.2f} over seeds, and of {noise.pairs:.2f} of a difference over the {unit}."
    )


def _legend(known: Sequence[Row], unit: str) -> str:
    marks = {row.mark for row in known} - {""}
    parts = []
    if marks:
        named = " or ".join(mark for mark in (TIE, UNTOLD) if mark in marks)
        parts.append(
            f"{named}: tied for the best. With {1 - LEVEL:.0%} confidence the truly best of the compared rows is"
            " one of those with a mark. All rows were compared with the best at once. A pair of several tasks, and"
            f" pairs that share a text, are drawn together."
        )
    if UNTOLD in marks:
        parts.append(
            f"{UNTOLD}: undecided. Only the row's own seeds keep it there: they are fewer or more spread than the"
            " median of this table's rows, with which it would be out."
        )
    if len(known) > 1:
        parts.append(noise_of(known, unit))
    unknown = [row.name for row in known if row.among_best is None]
    if unknown:
        parts.append(f"Not compared, because comparable {unit[:-1]} scores are missing: {', '.join(unknown)}.")
    return " ".join(parts)
