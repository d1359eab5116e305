"""The findings of a table in a few sentences: the best rows, and each row against its starting vectors.

Controls here are `random`, `bag-of-words`, and merely pooled states. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmark.records.folder import Records
from benchmark.report.conditions import group, role
from benchmark.report.rows import Row, Table, score_text, signed
from benchmark.stats.draws import finished, is_alone, unit_of
from benchmark.stats.marks import TIE, UNTOLD, arrows_against, compared_by_name
from benchmark.stats.mcb import LEVEL, Differences, Sample, differences
from benchmark.tasks.suites import Suite

_NAMED = 5  # rows that have a sentence; the others are counted
_INTERVALS = "In parentheses: the 95% interval of each difference by itself, with the noise of {unit} and of seeds."
_ONCE = "Finished encoders are one training each, and the noise of its seeds is not in their intervals: {names}."
_NONE = "Without an interval: a row of one seed (run --seeds 3), or scores of which no items are kept."


@dataclass(frozen=True)
class _Compared:
    """Rows with values x100, and the judged rows' places in the differences."""

    on: str
    values: Mapping[str, float]
    places: Mapping[str, int]
    differences: Differences | None
    unit: str

    def best_first(self, rows: Sequence[Row]) -> list[Row]:
        return sorted((row for row in rows if row.name in self.values), key=lambda row: -self.values[row.name])

    def gap(self, name: str, other: str) -> str:
        gap = signed(self.values[name] - self.values[other], 1)
        if self.differences is None or not {name, other} <= self.places.keys():
            return gap
        at = self.places[name], self.places[other]
        if not np.isfinite(self.differences.low[at]):
            return gap
        low, high = (signed(bounds[at], 1) for bounds in (self.differences.low, self.differences.high))
        return f"{gap} ({low} to {high})"

    def against(self, name: str, other: str) -> str:
        return f"{self.gap(name, other)} against {other}"


def learned_of(rows: Sequence[Row], sample: Sample, on: str, unit: str) -> str:
    """`rows` are the compared rows, best first, `sample` theirs on the mean of all tasks."""
    of = _of_sample([row.name for row in rows], sample, on, unit)
    methods = [row for row in rows if not role(row)] or rows
    tied, undecided = sum(row.among_best is True for row in rows), sum(row.mark == UNTOLD for row in rows)
    if methods[0] is not rows[0]:
        place = f"; the best row, {_named(rows[0])}, has {score_text(of.values[rows[0].name])}"
    elif tied > 1:
        place = f"; {tied} rows are tied for the best" + (f", {undecided} of them undecided" if undecided else "")
    else:
        place = ", above all others compared with it"
    return _sentences(of, methods, rows, starts_of(rows), place)


def _of_sample(names: Sequence[str], sample: Sample, on: str, unit: str) -> _Compared:
    values = dict(zip(names, map(float, sample.value), strict=True))
    return _Compared(on, values, {name: place for place, name in enumerate(names)}, differences(sample), unit)


def learned(table: Table, store: Records, keys: Collection[str]) -> tuple[list[str], tuple[str, str] | None]:
    """Return the tied rows, the gain of training of a run's rows (`keys`), and two rows to compare next.

    The tasks are those with item scores of all these rows; without such tasks, averages have no interval.
    """
    measured = [row for row in table.rows if row.row_key in keys]
    ours = [row for row in measured if not role(row)] or measured
    starts = starts_of(table.rows)
    controls = [row for row in table.rows if role(row) and row not in ours]
    begun = [starts[row.name] for row in ours if row.name in starts]
    by_name, others = ({row.name: row.records for row in rows} for rows in (ours, [*controls, *begun]))
    tasks, names, sample = compared_by_name(by_name, others, table.suite.tasks, store, trial=table.partial)
    if sample is not None:
        of = _of_sample(names, sample, on_tasks(table.suite, tasks), unit_of(row.records for row in ours))
    else:
        averages = {row.name: row.average.mean for row in [*ours, *controls, *begun] if row.average.mean}
        of = _Compared("", averages, {}, None, "")
    best = of.best_first(ours)
    if not best:
        return ["No row of this run has a score on all tasks, so that nothing is compared."], None
    beside = of.best_first(controls)
    second = [starts[best[0].name]] if best[0].name in starts else [*best[1:2], *beside]
    lines = [*filter(None, [_tied(table), _gained(of, best, starts, beside)])]
    return lines, (best[0].name, second[0].name) if tasks and second else None


def _tied(table: Table) -> str:
    judged = [row for row in table.rows if row.among_best is not None]
    if len(judged) < 2:
        return table.legend
    tied, undecided = ([row for row in judged if row.mark == mark] for mark in (TIE, UNTOLD))
    text = f"Tied for the best ({TIE}): {_few(tied)}." if tied else f"Best of those compared: {judged[0].name}."
    text += f" Undecided ({UNTOLD}): {_few(undecided)}." if undecided else ""
    unknown = [row for row in table.rows if row.rank is not None and row.among_best is None]
    alone = [
        row
        for row in unknown
        if not row.missing_seeds and is_alone(finished(row.records, [*row.values], trial=table.partial))
    ]
    lacking = [row for row in unknown if row not in alone and not row.missing_seeds]
    for why, of in (
        ("seeds are missing: run the same command again", [row for row in unknown if row.missing_seeds]),
        ("one seed: run --seeds 3", alone),
        ("no scores of items, or not those of the best row", lacking),
    ):
        sign = "–; " if tied else ""
        text += f" Not compared ({sign}{why}): {_few(of)}." if of else ""
    return text


def _few(rows: Sequence[Row]) -> str:
    more = len(rows) - _NAMED
    return ", ".join([*(row.name for row in rows[:_NAMED]), *([f"{more} more"] if more > 0 else [])])


def _gained(of: _Compared, best: Sequence[Row], starts: Mapping[str, Row], controls: Sequence[Row]) -> str:
    begun = {row.name: starts[row.name].name for row in best if row.name in starts}
    begun = {name: start for name, start in begun.items() if start in of.values}
    if not begun and not controls:
        return ""
    what = "Gained by training" if begun else "Difference"
    other = begun or dict.fromkeys((row.name for row in best), controls[0].name)
    parts = []
    for start in dict.fromkeys(other.values()):
        names = [name for name, of_name in other.items() if of_name == start]
        gaps = [f"{name} {of.gap(name, start)}" for name in names[:_NAMED]]
        more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
        parts.append(f"against {start}: {', '.join([*gaps, *more])}")
    text = f"{what} {'; '.join(parts)}"
    where = f"{of.on[0].lower()}{of.on[1:]}, " if of.on else ""
    return f"{text}; {where}95% intervals with the noise of {of.unit} and of seeds." if " to " in text else f"{text}."


def starts_of(rows: Sequence[Row]) -> dict[str, Row]:
    """Return, by name, the row of a row's untrained vectors, as its records state it."""
    by_key = {row.row_key: row for row in reversed(rows)}
    keys = {row.name: next((key for r in row.records if (key := r.get("start_key"))), "") for row in rows}
    return {name: by_key[key] for name, key in keys.items() if key in by_key}


def _sentences(
    of: _Compared, ours: Sequence[Row], others: Sequence[Row], starts: Mapping[str, Row], tied: str = ""
) -> str:
    best, controls = of.best_first(ours), of.best_first([row for row in others if role(row)])
    control = next((row.name for row in controls if row not in ours), None)
    lines = [f"{of.on}, {_named(best[0])} has {score_text(of.values[best[0].name])}{tied}."]
    if control is not None:
        lines[0] += f" The best control, {control}, has {score_text(of.values[control])}{_above(of, control, best)}."
    sentences = []
    for row in best[:_NAMED]:
        start = starts[row.name].name if row.name in starts and starts[row.name].name in of.values else None
        parts = [f"{of.against(row.name, start)}, which it starts from"] if start else []
        parts += [of.against(row.name, control)] if control not in (None, start, row.name) else []
        sentences += [f"{row.name}: {'; '.join(map(str, parts))}."] if parts else []
    more = len(best) - _NAMED
    sentences += [f"{more} more {'rows are' if more > 1 else 'row is'} in the table."] if sentences and more > 0 else []
    text = " ".join(sentences)
    sentences += [_INTERVALS.format(unit=of.unit)] if " to " in text else []
    once = [row.name for row in best[:_NAMED] if group(row) == "released" and row.name in of.places]
    sentences += [_ONCE.format(names=", ".join(once))] if once and " to " in text else []
    sentences += [_NONE] if " against " in text.replace(") against ", "") else []
    return "\n".join([*lines, *filter(None, [" ".join(sentences)])])


def _above(of: _Compared, control: str, rows: Sequence[Row]) -> str:
    if of.differences is None or control not in of.places:
        return ""
    signs = arrows_against(of.differences, of.places[control])
    judged = [of.places[row.name] for row in rows if row.name in of.places]
    above, below = (sum(signs.get(place) == sign for place in judged) for sign in "↑↓")
    return f"; rows above it: {above} of {len(judged)}, below it: {below} (p < {LEVEL:g}, Holm's procedure)"


def _named(row: Row) -> str:
    kind = group(row)
    if role(row):
        return f"{row.name} ({role(row)})"
    return f"{row.name} ({kind})" if kind in ("supervised", "transductive", "released") else row.name


def on_tasks(suite: Suite, tasks: Sequence[str]) -> str:
    """Return the beginning of a sentence: "On the mean of all tasks"."""
    names = [column for column, task in zip(suite.columns, suite.tasks, strict=True) if task in tasks]
    if not tasks or len(names) == len(suite.tasks) > 1:
        return "On the mean of all tasks"
    if len(names) > 4:
        return f"On the mean of {len(names)} tasks"
    return f"On {names[0]}" if len(names) == 1 else f"On the mean of {', '.join(names[:-1])} and {names[-1]}"
