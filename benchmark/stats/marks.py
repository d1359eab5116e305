"""The rows tied for the best of a table, and the rows beyond noise of a given row. Rows stand best first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from benchmark.records.conflicts import two_versions
from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.stats.draws import ByTask, by_seed, compared, finished, is_alone
from benchmark.stats.mcb import LEVEL, Differences, Sample, SeedNoise, best_set, pooled_noise, unsettled
from zoo.errors import ContractError

TIE, UNTOLD = "≈", "?"


@dataclass(frozen=True)
class Marks:
    """The rows compared with the best of a table, and the mark of each.

    Args:
        one_seed: The noise lent to a row of one seed; without degrees of freedom, it is unknown.
        known: The rows with known noise of seeds.
        places: The compared rows, in the order of the sample; none if the best row cannot be compared.
        sample: Their sample on the mean of all tasks.
        best: For each compared row, True if it may be the best.
        marks: For each compared row, `TIE`, `UNTOLD` if only its own seeds keep it among the best, or "".
        damaged: The reasons for unreadable item scores.
    """

    one_seed: Mapping[int, SeedNoise]
    known: Sequence[int]
    places: Sequence[int] = ()
    sample: Sample | None = None
    best: Sequence[bool] = ()
    marks: Sequence[str] = ()
    damaged: Mapping[int, Sequence[str]] = field(default_factory=dict)


def marked(
    rows: Sequence[ByTask],
    store: Records,
    tasks: Collection[str],
    backbones: Sequence[str] = (),
) -> Marks:
    """Compare the rows of a table with its best, the first.

    A row is left out if its noise of seeds is unknown, if item scores are missing or damaged, or if its gold scores are
    not the best row's. `backbones` has, by place, the backbone with rows to lend their noise ("": none); () to lend
    none.
    """
    one_seed = _one_seed_noise(rows, backbones)
    known = [place for place in range(len(rows)) if place not in one_seed or one_seed[place].df]
    kept = [place for place in known if all(map(store.has_items, chain.from_iterable(rows[place].values())))]
    if len(rows) < 2 or not kept or kept[0] != known[0]:
        return Marks(one_seed, known)
    lent = {number: one_seed[place] for number, place in enumerate(kept) if place in one_seed}
    numbers, sample, reasons = compared([rows[place] for place in kept], store, tasks, lent)
    damaged = {kept[number]: texts for number, texts in reasons.items()}
    if sample is None or numbers[0] != 0:
        return Marks(one_seed, known, damaged=damaged)
    best = best_set(sample)
    several, undecided = best.sum() > 1, unsettled(sample, best)
    marks = [
        "" if not among or not several else UNTOLD if alone else TIE
        for among, alone in zip(best, undecided, strict=True)
    ]
    return Marks(one_seed, known, [kept[number] for number in numbers], sample, best.tolist(), marks, damaged)


def _one_seed_noise(rows: Sequence[ByTask], backbones: Sequence[str]) -> dict[int, SeedNoise]:
    alone = [place for place, row in enumerate(rows) if is_alone(row)]
    scores: dict[str, list[list[float]]] = defaultdict(list)
    for place, backbone in enumerate(backbones):
        if backbone and place not in alone:
            scores[backbone].append(list(by_seed(rows[place]).values()))
    return {place: pooled_noise(scores[backbones[place]] if backbones else []) for place in alone}


def compared_by_name(
    ours: Mapping[str, Sequence[Record]],
    others: Mapping[str, Sequence[Record]],
    tasks: Sequence[str],
    store: Records,
    *,
    trial: bool,
) -> tuple[tuple[str, ...], list[str], Sample | None]:
    """Return the tasks with item scores of all scored rows of `ours`, comparable rows, and their sample."""

    def complete(records: Sequence[Record], task: str) -> bool:
        of_task = finished(records, [task], trial=trial).get(task, [])
        return len(of_task) == len({r["seed"] for r in records}) and all(map(store.has_items, of_task))

    scored = {name: records for name, records in ours.items() if any(complete(records, task) for task in tasks)}
    common = tuple(task for task in tasks if scored and all(complete(records, task) for records in scored.values()))
    named = {**scored, **others} if common else {}
    rows = {
        name: finished(records, common, trial=trial)
        for name, records in named.items()
        if all(complete(records, task) for task in common)
    }
    # A table has no mean of these either.
    rows = {name: row for name, row in rows.items() if not two_versions([r for of in row.values() for r in of])}
    try:
        places, sample, _ = compared([*rows.values()], store, common) if rows else ([], None, {})
    except ContractError:  # there are so few pairs that no resample has a correlation
        return (), [], None
    return (common, [[*rows][place] for place in places], sample) if sample is not None else ((), [], None)


def beyond_noise(values: Mapping[int, float]) -> dict[int, bool]:
    """Apply Holm's procedure (1979) over all p values."""
    beyond: dict[int, bool] = {}
    still = True
    for number, (p, place) in enumerate(sorted((p, place) for place, p in values.items())):
        still = still and p * (len(values) - number) < LEVEL
        beyond[place] = still
    return beyond


def arrows_against(differences: Differences, at: int) -> dict[int, str]:
    """Return rows above ("↑") and below ("↓") a row, by Holm's procedure over the others with a p."""
    values = {place: float(p) for place, p in enumerate(differences.p[:, at]) if place != at and np.isfinite(p)}
    signs = beyond_noise(values)
    return {place: "↑" if differences.value[place, at] > 0 else "↓" for place, beyond in signs.items() if beyond}
