"""Claims about properties, by the rule that each states: of kept results of analyses, or of records of trainings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmark.leaderboard.claims import Claim
from benchmark.leaderboard.published import plain_backbone
from benchmark.leaderboard.stats import ByTask, by_seed
from benchmark.tasks.suites import all_suites
from zoo.errors import CorruptError
from zoo.files import read_mapping

FEWEST_ROWS = 10  # of a rank correlation: below, its interval contains nearly everything
# Tables of a rule that are read off records: scores by seed, curves of trainings, and two tasks' scores over all rows.
RECORDED = ("SD over seeds", "training", "rows")
RowsOf = Callable[[Sequence[str], str], Sequence[ByTask]]  # of a row ("": of every row) that has all of these tasks
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class Analyses:
    """The kept results of analyses in a results folder."""

    def __init__(self, results: Path) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {}
        for path in sorted((results / "analyses").rglob("*.json")):
            for stem, table in read_mapping(path).get("tables", {}).items():
                self.tables.setdefault(stem, []).extend(table.get("rows", ()))

    def margins(self, claim: Claim, backbone: str, records: RowsOf | None = None) -> list[tuple[str, float]]:
        """Return for each part of a claim's rule what was measured, and by how much it holds (below 0: it does not).

        Of a value with a 95% interval (columns Low and High) that is by how much the interval holds, and 0 where it
        contains the other side. Empty unless every value of the rule was measured on this backbone. `records` returns
        a row's records by task.
        """
        parts = list(self._parts(claim.rule, backbone, records))
        return parts if len(parts) == len(claim.rule) else []

    def _parts(
        self, rule: Sequence[Sequence[str]], backbone: str, records: RowsOf | None
    ) -> Iterator[tuple[str, float]]:
        for table, column, lower, higher in rule:
            if table in RECORDED:
                found = of_records(table, column, (lower, higher), records) if records else None
            else:
                found = self._interval(table, column, (lower, higher), backbone)
            if found:
                yield found
            if found or table in RECORDED or " and " in column:
                continue
            columns = column.split(" < ")  # two where they are compared
            low, high = (
                float(one) if _NUMBER.fullmatch(one) else self._value(table, name, one, backbone)
                for one, name in ((lower, columns[0]), (higher, columns[-1]))
            )
            if low is not None and high is not None:
                sign = "<" if low < high else "≥"
                yield f"{column}: {_side(lower, low)} {sign} {_side(higher, high)}", high - low

    def _value(self, table: str, column: str, row: str, backbone: str) -> float | None:
        """Return the value of the row whose cells are as named (NAME=TEXT, joined by commas); None without it."""
        rows = self._rows(table, row, backbone)
        if not rows:
            return None
        if len({one.get(column) for one in rows}) > 1 or column not in rows[0]:
            raise CorruptError(f"analyses: table {table} has not one {column!r} of {row} on {backbone}.")
        value: float | None = rows[0][column]
        return value

    def _rows(self, table: str, row: str, backbone: str) -> list[dict[str, Any]]:
        wanted = dict(part.split("=", 1) for part in row.split(",") if "=" in part)
        return [
            one
            for one in self.tables.get(table, ())
            if plain_backbone(str(one.get("Backbone", backbone))) == plain_backbone(backbone)
            and all(str(one.get(name)) == text for name, text in wanted.items())
        ]

    def _interval(self, table: str, column: str, sides: tuple[str, str], backbone: str) -> tuple[str, float] | None:
        """Return a part of a rule about one value with an interval, or about the rank correlation of two columns."""
        if not any(map(_NUMBER.fullmatch, sides)):
            return None
        row, number, sign = _against(sides)
        if " and " in column:
            rows = [one for one in self._rows(table, row, backbone) if one.get("Seed") in (None, 0)]
            pairs = [[one.get(name) for name in column.split(" and ")] for one in rows]
            return correlation(column, [one for one in pairs if None not in one], number, sign)
        rows = [one for one in self._rows(table, row, backbone) if {column, "Low", "High"} <= one.keys()]
        if not rows:
            return None
        value, low, high = (rows[0][name] for name in (column, "Low", "High"))
        names = ", ".join(part.split("=", 1)[1] for part in row.split(","))
        return f"{names}: {value:+.2f} ({low:+.2f} to {high:+.2f})", distance(low, high, number, sign)


def _against(sides: tuple[str, str]) -> tuple[str, float, int]:
    """Return the named side, the number, and 1 where the named one is to be above it, else -1."""
    sign = 1 if _NUMBER.fullmatch(sides[0]) else -1
    return sides[sign > 0], float(sides[sign < 0]), sign


def of_records(table: str, column: str, sides: tuple[str, str], records: RowsOf) -> tuple[str, float] | None:
    """Return a part of a rule about rows (see RECORDED); None where one of them is not measured."""
    if table == "rows":
        every = [list(by_seed(of, [task]).values()) for of in records(column.split(" and "), "") for task in of]
        means = [sum(values) / len(values) for values in every]
        return correlation(column, list(zip(means[::2], means[1::2], strict=True)), *_against(sides)[1:])
    named = [one for one in sides if not _NUMBER.fullmatch(one)]
    tasks = all_suites()[column if table == "SD over seeds" else "sts"].tasks
    rows = {name: of for name in named for of in records(tasks, name)}
    if len(rows) < len(named):
        return None
    found = [
        (name, _curves(of, column) if table == "training" else list(by_seed(of).values())) for name, of in rows.items()
    ]
    if any(len(values) < 2 for _, values in found):
        return None
    if table == "training":
        return course(column, found)
    return spread(column, found, _against(sides)[1] if len(named) == 1 else None)


def _curves(by_task: ByTask, kind: str) -> list[float]:
    """Return for each seed the mean of a training's curve over its evaluations."""
    found: dict[object, list[float]] = {}
    for records in by_task.values():
        for record in records:
            curve = (record["training"] or {}).get("dev_curves", {}).get(kind, {})
            found.setdefault(record["seed"], []).extend(value for value in curve.values() if value is not None)
    return [sum(values) / len(values) for values in found.values() if values]


def distance(low: float, high: float, number: float, sign: int) -> float:
    """Return how far an interval is above a number (below it where `sign` is -1); 0 where it contains the number."""
    return sign * (max(low - number, 0.0) + min(high - number, 0.0))


def correlation(what: str, pairs: Sequence[Sequence[Any]], number: float, sign: int) -> tuple[str, float] | None:
    """Return a part of a rule about the rank correlation of two values over rows; None for fewer rows than ten.

    Its interval is that of Fisher's z with the standard error of Bonett and Wright (2000).
    """
    import numpy as np
    from scipy.stats import spearmanr

    if len(pairs) < FEWEST_ROWS:
        return None
    rho = float(spearmanr(*np.array(pairs, dtype=float).T)[0])
    error = np.sqrt((1 + rho**2 / 2) / (len(pairs) - 3))
    low, high = (float(np.tanh(np.arctanh(np.clip(rho, -0.999999, 0.999999)) + z * error)) for z in (-1.96, 1.96))
    text = f"rank correlation of {what} over {len(pairs)} rows: {rho:+.2f} ({low:+.2f} to {high:+.2f})"
    return text, distance(low, high, number, sign)


def spread(on: str, sides: Sequence[tuple[str, Sequence[float]]], least: float | None) -> tuple[str, float]:
    """Return a part of a rule about standard deviations over seeds, by the intervals of chi-squared and F.

    Of two rows the first is to have the smaller one; that of one row is to be above `least`. `sides` has the name of
    each row and its score by seed, in points.
    """
    import numpy as np
    from scipy.stats import chi2, f

    sd = [float(np.std(values, ddof=1)) for _, values in sides]
    df = [len(values) - 1 for _, values in sides]
    names = ", ".join(f"{one:.2f} ({name}, {of + 1} seeds)" for (name, _), one, of in zip(sides, sd, df, strict=True))
    if least is not None:
        low, high = (sd[0] * float(np.sqrt(df[0] / chi2.ppf(q, df[0]))) for q in (0.975, 0.025))
        return f"SD over seeds, {on}: {names}, interval {low:.2f} to {high:.2f}", distance(low, high, least, 1)
    ratio = sd[1] / max(sd[0], 1e-9)
    low, high = (ratio / float(np.sqrt(f.ppf(q, df[1], df[0]))) for q in (0.975, 0.025))
    return f"SD over seeds, {on}: {names}, ratio {ratio:.2f} ({low:.2f} to {high:.2f})", distance(low, high, 1.0, 1)


def course(kind: str, sides: Sequence[tuple[str, Sequence[float]]]) -> tuple[str, float]:
    """Return a part of a rule about the mean over a training's evaluations: lower for the first row (Welch's t)."""
    from scipy.stats import ttest_ind

    (a, first), (b, second) = sides
    found = ttest_ind(second, first, equal_var=False)
    interval = found.confidence_interval(0.95)
    low, high = float(interval.low), float(interval.high)
    value = sum(second) / len(second) - sum(first) / len(first)
    return f"{kind}, {b} - {a}: {value:+.4f} ({low:+.4f} to {high:+.4f})", distance(low, high, 0.0, 1)


def _side(stated: str, value: float) -> str:
    """Return "1.06 (1-100)", the value and its row's own names, or the stated number."""
    names = ", ".join(part.split("=", 1)[1] for part in stated.split(",") if "=" in part)
    return f"{value:.4g} ({names})" if names else stated
