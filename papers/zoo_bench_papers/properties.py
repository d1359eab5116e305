"""Claims about properties: each part of their evidence from kept analyses, records of trainings or scores of items."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmark.report.published import plain_backbone
from benchmark.report.rows import signed
from benchmark.stats.draws import ByTask, by_seed
from benchmark.stats.mcb import LEVEL
from zoo.errors import CorruptError
from zoo_bench_papers.claims import Evidence, tasks_of
from zoo_bench_papers.comparisons import Place

# Below so many rows, the interval of a rank correlation contains nearly everything.
FEWEST_ROWS = 10
# Values below it have four digits.
_SMALL = 0.2
# Statistics of kept analyses: their table and the column that names their rows.
TABLES = {
    **dict.fromkeys(("Norm", "Spread", "Neighbour distance", "Above chance"), ("bias-classes", "Class")),
    **dict.fromkeys(("cos to V(V(mean))", "cos, P drawn anew"), ("pseudo-tokens", "Method")),
    **dict.fromkeys(("Alignment", "Uniformity"), ("alignment", "Method")),
    "Sentence anisotropy": ("anisotropy", "Method"),
    "Shared words": ("shared-words", "Denoising"),
}

# What was measured, and by how much it holds (below 0: it does not). None: nothing.
Part = tuple[str, float] | None
RowsOf = Callable[[Sequence[str], str], Sequence[ByTask]]
PlaceOf = Callable[[str, Sequence[Sequence[str]]], Place]
Tables = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Estimate:
    """A statistic of a row with its standard error, of items or of seeds, and the degrees of freedom."""

    value: float
    error: float
    df: float = math.inf

    @classmethod
    def of_seeds(cls, values: Sequence[float]) -> Estimate | None:
        """Return the mean over seeds; None for one seed."""
        import numpy as np

        n = len(values)
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(n), n - 1) if n > 1 else None

    def less(self, other: Estimate) -> Estimate:
        """Return the difference; both errors are of unrelated draws (Welch)."""
        variances = [(self.error**2, self.df), (other.error**2, other.df)]
        variance = sum(v for v, _ in variances)
        parts = sum(v**2 / df for v, df in variances)
        return Estimate(self.value - other.value, math.sqrt(variance), variance**2 / parts if parts else math.inf)

    def interval(self) -> tuple[float, float]:
        """Return the 95% interval."""
        from scipy.stats import t

        half = self.error * float(t.ppf(1 - LEVEL / 2, self.df))
        return self.value - half, self.value + half


@dataclass(frozen=True)
class Measured:
    """Measurements on a backbone: tables of kept analyses, records of rows, contrasts of rows on places."""

    tables: Tables
    backbone: str
    rows: RowsOf = lambda tasks, name: ()
    place: PlaceOf | None = None
    # The recipe of the released code in place of the paper's.
    code: Mapping[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def part(self, evidence: Evidence) -> Part:
        """Return what the evidence shows: figures with their interval, and the interval's distance from the line."""
        names = [self.code.get(name, name) for name in evidence.rows]
        if evidence.statistic == "rank correlation":
            return self._correlation(evidence, names)
        self.asked.update(names)
        if evidence.statistic == "SD over seeds":
            return self._spread(evidence, names)
        if evidence.statistic in ("score", "gain"):
            of = self._gain(evidence, names)
        elif evidence.statistic in TABLES or evidence.statistic in ("alignment", "uniformity", "parameters"):
            of = _difference([self.estimate(evidence.statistic, name) for name in names])
        else:
            return self._of_pairs(evidence, names)
        if of is None:
            return None
        on = f" on {', less on '.join(evidence.on)}" if evidence.on else ""
        return held(evidence, f"{evidence.statistic}{on}, {' - '.join(names)}", of.value, *of.interval())

    def cells(self, table: str, **wanted: str) -> list[Mapping[str, Any]]:
        """Return the rows of a kept table that are of the backbone and have these texts."""
        here = plain_backbone(self.backbone)
        return [
            cell
            for cell in self.tables.get(table, ())
            if plain_backbone(str(cell.get("Backbone", here))) == here
            and all(str(cell.get(name)) == text for name, text in wanted.items())
        ]

    def estimate(self, statistic: str, name: str) -> Estimate | None:
        """Return a row's statistic, from its trainings (the mean over their evaluations) or a kept analysis."""
        trained = [] if statistic in TABLES else self.rows(tasks_of("sts"), name)
        if trained and (values := _curves(trained[0], statistic)):
            return Estimate.of_seeds(values)
        if statistic == "parameters":
            every = [r["facts"].get("parameters") for of in trained for records in of.values() for r in records]
            counts = {count for count in every if count is not None}
            return Estimate(counts.pop(), 0.0) if len(counts) == 1 and None not in every else None
        column = statistic if statistic in TABLES else statistic.capitalize()
        table, by = TABLES[column]
        rows = [cell for cell in self.cells(table, **{by: name}) if column in cell and cell.get("Step") != 0]
        if not rows:
            return None
        if len({row.get("Seed") for row in rows}) < len(rows):
            raise CorruptError(f"analyses: table {table} has not one {column!r} of {by}={name} on {self.backbone}.")
        if len(rows) > 1:
            return Estimate.of_seeds([row[column] for row in rows])
        error = rows[0].get(f"{column}, error")
        return None if error is None else Estimate(rows[0][column], error)

    def _of_pairs(self, evidence: Evidence, names: Sequence[str]) -> Part:
        """Return a difference of rows on kinds of pairs (one row: its own measure) from the last table of `pairs`."""
        a, b = (*names, "0")[:2]
        for sign, (first, second) in ((1, (a, b)), (-1, (b, a))):
            for cell in self.cells("pairs-differences", A=first, B=second, Of=evidence.statistic):
                if (low := cell.get("Low")) is not None and low == low:
                    ends = sorted((sign * low, sign * cell["High"]))
                    return held(evidence, f"{a}, {b}, {evidence.statistic}", sign * cell["Difference"], *ends)
        return None

    def _gain(self, evidence: Evidence, names: Sequence[str]) -> Estimate | None:
        """Return a difference of two rows on a place, less that on a second one."""
        estimates = []
        for place in [self.place(on, [names]) for on in evidence.on] if self.place is not None else ():
            if not {*names} <= place.index.keys():
                return None
            at, of = tuple(place.index[name] for name in names), place.differences
            estimates.append(Estimate(*(float(part[at]) for part in (of.value, of.error, of.df))))
        return _difference(estimates)

    def _spread(self, evidence: Evidence, names: Sequence[str]) -> Part:
        """Return standard deviations over seeds: a row's beside a number (chi-squared), or two rows' (F)."""
        (on,) = evidence.on
        sides = [(name, list(by_seed(row).values())) for name in names for row in self.rows(tasks_of(on), name)]
        if len(sides) < len(names) or any(len(values) < 2 for _, values in sides):
            return None
        return spread(on, sides, evidence.above)

    def _correlation(self, evidence: Evidence, names: Sequence[str]) -> Part:
        """Return the rank correlation over all rows of two measures: scores, or those of the chosen checkpoint."""
        tasks = {name: tasks_of(name) for name in names if name not in _OF_TRAINING}
        every = self.rows(tuple(dict.fromkeys(task for of in tasks.values() for task in of)), "")
        means = [[_mean(row, name, tasks.get(name)) for name in names] for row in every]
        return correlation(evidence, names, [pair for pair in means if None not in pair])


def _difference(estimates: Sequence[Estimate | None]) -> Estimate | None:
    """Return the first estimate, less a second one; None without estimates, or if one is not known."""
    known = [estimate for estimate in estimates if estimate is not None]
    if not known or len(known) < len(estimates):
        return None
    return known[0].less(known[1]) if known[1:] else known[0]


_OF_TRAINING = ("dev score", "alignment", "uniformity")


def _mean(row: ByTask, name: str, tasks: Sequence[str] | None) -> float | None:
    """Return a row's mean over seeds of a score, or of a measure at the chosen checkpoint."""
    values = list(by_seed(row, tasks).values()) if tasks else _at_best(next(iter(row.values())), name)
    return sum(values) / len(values) if values else None


def _at_best(records: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """Return a measure of each training at its chosen checkpoint."""
    trainings = [training for record in records if (training := record["training"]) and training.get("best_step")]
    curves = [t.get("dev_scores") if name == "dev score" else t.get("dev_curves", {}).get(name) for t in trainings]
    values = [(curve or {}).get(str(t["best_step"])) for curve, t in zip(curves, trainings, strict=True)]
    return [value for value in values if value is not None]


def _curves(by_task: ByTask, kind: str) -> list[float]:
    """Return the mean over its evaluations of each seed's measure."""
    curves: dict[object, list[float]] = {}
    for records in by_task.values():
        for record in records:
            curve = (record["training"] or {}).get("dev_curves", {}).get(kind, {})
            curves.setdefault(record["seed"], []).extend(value for value in curve.values() if value is not None)
    return [sum(values) / len(values) for values in curves.values() if values]


def held(evidence: Evidence, what: str, value: float, low: float, high: float) -> tuple[str, float]:
    """Return a part: its text, and by how much its interval lies on the claimed side (0: on both)."""
    farthest = max(abs(low), abs(high))
    digits = 4 if 0 < farthest < _SMALL else 2
    ends = f"{signed(low, digits)} to {signed(high, digits)}" if low < high else "without noise"
    text = f"{what}: {signed(value, digits)} ({ends})"
    if evidence.within is not None:
        inside, beyond = evidence.within - farthest, max(low, -high) - evidence.within
        return text, inside if inside > 0 else -max(beyond, 0.0)
    if evidence.below is not None:
        return text, distance(low, high, evidence.below, -1)
    return text, distance(low, high, evidence.above or 0.0, 1)


def distance(low: float, high: float, number: float, sign: int) -> float:
    """Distance of an interval above a number (below it: `sign` -1); 0 if it contains the number."""
    return sign * (max(low - number, 0.0) + min(high - number, 0.0))


def correlation(evidence: Evidence, names: Sequence[str], pairs: Sequence[Sequence[Any]]) -> Part:
    """Part on a rank correlation over ten rows or more, by Fisher's z; None for fewer."""
    import numpy as np
    from scipy.stats import spearmanr

    if len(pairs) < FEWEST_ROWS:
        return None
    rho = float(spearmanr(*np.array(pairs, dtype=float).T)[0])
    error = np.sqrt((1 + rho**2 / 2) / (len(pairs) - 3))
    low, high = (float(np.tanh(np.arctanh(np.clip(rho, -0.999999, 0.999999)) + z * error)) for z in (-1.96, 1.96))
    return held(evidence, f"rank correlation of {' and '.join(names)} over {len(pairs)} rows", rho, low, high)


def spread(on: str, sides: Sequence[tuple[str, Sequence[float]]], least: float | None) -> tuple[str, float]:
    """Part on standard deviations over seeds, by the intervals of chi-squared and F.

    The first of two rows is to have the larger; a single row's is to be above `least`. `sides` has the name of each
    row and its score by seed, in points.
    """
    import numpy as np
    from scipy.stats import chi2, f

    sd = [float(np.std(values, ddof=1)) for _, values in sides]
    df = [len(values) - 1 for _, values in sides]
    names = ", ".join(f"{of:.2f} ({name}, {len(values)} seeds)" for (name, values), of in zip(sides, sd, strict=True))
    if least is not None:
        low, high = (sd[0] * float(np.sqrt(df[0] / chi2.ppf(q, df[0]))) for q in (0.975, 0.025))
        return f"SD over seeds, {on}: {names}, interval {low:.2f} to {high:.2f}", distance(low, high, least, 1)
    ratio = sd[0] / max(sd[1], 1e-9)
    low, high = (ratio / float(np.sqrt(f.ppf(q, df[0], df[1]))) for q in (0.975, 0.025))
    return f"SD over seeds, {on}: {names}, ratio {ratio:.2f} ({low:.2f} to {high:.2f})", distance(low, high, 1.0, 1)
