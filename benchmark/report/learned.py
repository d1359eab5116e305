"""What a run showed, in a few sentences: its rows against the untrained vectors they start from and the best control.

Controls here are the rows that every method should be compared with: `random`, `bag-of-words`, and a backbone's states
that are only pooled. Imports no torch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from benchmark.metrics.significance import differences
from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.report.conditions import UNTRAINED, role
from benchmark.report.rows import Row, Table
from benchmark.report.stats import compared, finished, floor_of, sample_of
from zoo.errors import ContractError

_NAMED = 3  # rows named in one sentence; the others are counted
_INTERVALS = "In parentheses: the 95 % interval of each difference by itself, with the noise of pairs and of seeds."
_ONE_SEED = "Differences of rows with one seed have no interval, because its noise is not known: run --seeds 3."


@dataclass(frozen=True)
class Learned:
    """Sentences for people, and their subjects: the run's rows, best first, and the best control, if any."""

    sentences: list[str]
    rows: list[str] = field(default_factory=list)
    control: str | None = None
    starts: Mapping[str, str] = field(default_factory=dict)  # row -> the row of its untrained start
    tasks: tuple[str, ...] = ()  # the tasks of the sentences; (): there are no pair scores


@dataclass(frozen=True)
class _Gap:
    """One row's score x100 minus another's, with its 95% interval: NaN where one of them has one seed."""

    name: str
    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        return not math.isnan(self.low)

    @property
    def side(self) -> int:
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def learned(
    table: Table, records: Sequence[Record], store: Records, keys: Collection[str], starts: Mapping[str, str | None]
) -> Learned:
    """Return sentences on the rows of a run (`keys`: their row keys) against their starts and the best control.

    `starts` has, by row key, the key of the untrained vectors that a row starts from. Scores are compared on the tasks
    for which all rows of the run have pair scores; if there is none, averages are given without an interval.
    """
    made = [row for row in table.rows if row.row_key in keys]
    ours = [row for row in made if not role(row)] or made
    by_key = {row.row_key: row for row in reversed(table.rows)}
    begun = {row.name: by_key[key] for row in ours if (key := starts.get(row.row_key)) in by_key}
    controls = [row for row in table.rows if role(row) and row not in ours]
    beside = [*controls, *(row for row in begun.values() if row not in [*controls, *ours])]
    of_rows: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        of_rows[record["method"]["name"], record["row_key"]].append(record)

    def of(name: str, key: str) -> dict[str, list[Record]]:
        return finished(of_rows[name, key], table.suite.tasks, trial=table.partial)

    mine = {row.name: of(row.identity, row.row_key) for row in [*ours, *beside]}
    scored = [row for row in ours if any(store.has_pairs(r) for of_task in mine[row.name].values() for r in of_task)]
    tasks = tuple(
        task
        for task in table.suite.tasks
        if scored and all(_whole(mine[row.name].get(task, []), store) for row in scored)
    )
    named = [
        row
        for row in [*scored, *beside]
        if tasks
        and all(_whole(mine[row.name].get(task, []), store) for task in tasks)
        and len({frozenset(r["seed"] for r in mine[row.name][task]) for task in tasks}) == 1
    ]
    if not named:
        return _without_pairs(ours, controls, begun)
    every = [{task: mine[row.name][task] for task in tasks} for row in named]
    try:
        places, drawn, damaged = compared(every, store)
        floor = floor_of((of(*key) for key in list(of_rows)), tasks)
        measured = sample_of([every[i] for i in places], drawn, tasks, floor)
    except ContractError:  # there are so few pairs that no resample has a correlation
        return _without_pairs(ours, controls, begun)
    for i, reasons in damaged.items():
        named[i].notes += [f"significance: {reason}" for reason in reasons]
    rows, values, found = [named[i] for i in places], measured.value, differences(measured)
    at = {row.name: place for place, row in enumerate(rows)}

    def best_first(names: Sequence[Row]) -> list[str]:
        return sorted((row.name for row in names if row.name in at), key=lambda name: -values[at[name]])

    gaps: list[_Gap] = []

    def gap(name: str, other: str) -> _Gap:
        i, j = at[name], at[other]
        gaps.append(_Gap(name, *(float(part[i, j]) for part in (found.value, found.low, found.high))))
        return gaps[-1]

    best, control = best_first(scored), next(iter(best_first(controls)), None)
    if not best:
        return _without_pairs(ours, controls, begun)
    from_start = {name: begun[name].name for name in best if name in begun and begun[name].name in at}
    on = _on(table, tasks)
    if control is None:
        one = f"{on}, {best[0]} has {values[at[best[0]]]:.1f}"
        sentences = [f"{one}, the most of this run." if len(best) > 1 else f"{one}."]
    else:
        kind = " (the backbone untrained)" if role(rows[at[control]]) == UNTRAINED else ""
        sentences = [f"{on}, the best control, {control}{kind}, has {values[at[control]]:.1f}."]
        sentences += _beside([gap(name, control) for name in best if from_start.get(name) != control])
    sentences += [_gain(gap(name, start), start) for name, start in from_start.items()]
    if control is None and all(map(role, scored)):
        sentences.append("This run has only controls: add a method to see what it gains over them.")
    elif control is None and not from_start:
        sentences.append("The table has no control that would show how much of that is easy to have.")
    if len(best) > 1:
        first = gap(best[0], best[1])
        if first.side or not first.known:
            sentences.append(f"{best[0]} is {_by(first)} above {best[1]}, the next of this run's rows.")
        else:
            text = f"{best[0]} and {best[1]}, the two best of this run, are not told apart: the difference is"
            sentences.append(f"{text} {_by(first)}.")
    sentences += [_INTERVALS] if any(one.known for one in gaps) else []
    sentences += [_ONE_SEED] if any(not one.known for one in gaps) else []
    return Learned(sentences, best, control, from_start, tasks)


def _gain(one: _Gap, start: str) -> str:
    """Return the sentence on the gain of a row over its own start."""
    if not one.known:
        more = "above" if one.value > 0 else "below"
        return f"{one.name} is {abs(one.value):.1f} {more} {start}, which it starts from."
    if one.side:
        return f"{one.name} is {_by(one)} {'above' if one.side > 0 else 'below'} {start}, which it starts from."
    return f"{one.name} is not told apart from {start}, which it starts from: the difference is {_by(one)}."


def _beside(gaps: Sequence[_Gap]) -> list[str]:
    """Return a sentence on the rows above and below the best control, and those not told apart from it."""
    of_side = {side: [one for one in gaps if one.known and one.side == side] for side in (1, -1, 0)}
    parts = []
    for what, some in (
        ("above it", of_side[1]),
        ("below it", of_side[-1]),
        ("not told apart from it", of_side[0]),
        ("of one seed", [one for one in gaps if not one.known]),
    ):
        if some:
            more = f" and {len(some) - _NAMED} more" if len(some) > _NAMED else ""
            by = "by" if some[0].side else "with a difference of"
            parts.append(f"{what}: {', '.join(f'{one.name} {by} {_by(one)}' for one in some[:_NAMED])}{more}")
    text = "; ".join(parts)
    return [f"{text[0].upper()}{text[1:]}."] if text else []


def _by(one: _Gap) -> str:
    if not one.known:
        return f"{one.value:.1f}"
    if one.side < 0:
        return f"{-one.value:.1f} ({-one.high:.1f} to {-one.low:.1f})"
    return f"{one.value:.1f} ({one.low:.1f} to {one.high:.1f})"


def _without_pairs(ours: Sequence[Row], controls: Sequence[Row], begun: Mapping[str, Row]) -> Learned:
    """Return sentences from averages alone, or one that says that there are none."""
    ranked = [row for row in ours if row.average.mean is not None]
    if not ranked:
        return Learned(["No row of this run has a score on all tasks, so that no averages are compared."])
    sentences = [f"{ranked[0].name} has an average of {ranked[0].average.text()}."]
    known = [row for row in controls if row.average.mean is not None]
    if known:
        sentences = [f"{sentences[0][:-1]}; the best control, {known[0].name}, has {known[0].average.text()}."]
    for row in ranked:
        start = begun.get(row.name)
        if start is not None and start.average.mean is not None:
            averages = f"{row.average.text()} and {start.average.text()}"
            sentences.append(f"{row.name} and {start.name}, which it starts from, have {averages}.")
    sentences.append(
        "Their pair scores give no interval here: none are kept of accuracies, and few pairs are not enough."
    )
    return Learned(sentences, [row.name for row in ranked], known[0].name if known else None)


def _whole(records: Sequence[Record], store: Records) -> bool:
    return bool(records) and all(store.has_pairs(record) for record in records)


def _on(table: Table, tasks: Sequence[str]) -> str:
    names = [column for column, task in zip(table.suite.columns, table.suite.tasks, strict=True) if task in tasks]
    if len(names) == 1:
        return f"On {names[0]}"
    if len(names) > 4:
        return (
            f"On the mean of {len(names)} tasks" if len(names) < len(table.suite.tasks) else "On the mean of all tasks"
        )
    return f"On the mean of {', '.join(names[:-1])} and {names[-1]}"
