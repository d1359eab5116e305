"""Claims about properties: a function for each, of kept analyses or trainings' records."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.report.published import plain_backbone
from benchmark.report.rows import signed
from benchmark.stats.draws import ByTask, by_seed
from benchmark.tasks.suites import all_suites
from zoo.errors import CorruptError
from zoo.files import read_signed

# Below so many rows, the interval of a rank correlation contains nearly everything.
FEWEST_ROWS = 10

# What was measured, and by how much it holds (below 0: it does not). None: nothing.
Part = tuple[str, float] | None
RowsOf = Callable[[Sequence[str], str], Sequence[ByTask]]
Tables = Mapping[str, Sequence[Mapping[str, Any]]]


def kept_tables(results: Path) -> Tables:
    """Rows of kept analyses by table names; raises CorruptError for any other file."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((results / "analyses").rglob("*.json")):
        try:
            tables_of_file = read_signed(path).get("tables", {})
        except CorruptError as error:
            raise CorruptError(f"{error} Make it again with `zoo-bench analyze`, or delete it.") from error
        for stem, table in tables_of_file.items():
            tables.setdefault(stem, []).extend(table.get("rows", ()))
    return tables


@dataclass(frozen=True)
class Measured:
    """Measurements on a backbone. A part of a value with a 95% interval holds by as much as the interval does."""

    tables: Tables
    backbone: str
    rows: RowsOf = lambda tasks, name: ()
    # The recipe of the released code in place of the paper's.
    code: Mapping[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def cells(self, table: str, **wanted: str) -> list[Mapping[str, Any]]:
        self.asked.update(self.code.get(text, text) for text in wanted.values())
        return [
            one
            for one in self.tables.get(table, ())
            if plain_backbone(str(one.get("Backbone", self.backbone))) == plain_backbone(self.backbone)
            and all(str(one.get(name)) == self.code.get(text, text) for name, text in wanted.items())
        ]

    def value(self, table: str, column: str, **wanted: str) -> float | None:
        rows = self.cells(table, **wanted)
        if not rows:
            return None
        if len({row.get(column) for row in rows}) > 1 or column not in rows[0]:
            named = ",".join(f"{name}={text}" for name, text in wanted.items())
            raise CorruptError(f"analyses: table {table} has not one {column!r} of {named} on {self.backbone}.")
        value: float | None = rows[0][column]
        return value

    def rising(self, table: str, column: str, by: str, *names: str, **wanted: str) -> list[Part]:
        """A part for each two neighbours of `names`, cells of column `by`: the value rises."""
        values = [(name, self.value(table, column, **wanted, **{by: name})) for name in names]
        return [_less(column, low, high) for low, high in itertools.pairwise(values)]

    def difference(self, a: str, b: str, of: str, sign: int) -> Part:
        """The difference of two rows on kinds of pairs is above 0 (below it: `sign` -1)."""
        rows = [
            cell
            for cell in self.cells("pairs-differences", A=a, B=b, Of=of)
            if (low := cell.get("Low")) is not None and low == low
        ]
        if not rows:
            return None
        value, low, high = (rows[0][name] for name in ("Difference", "Low", "High"))
        text = f"{self.code.get(a, a)}, {self.code.get(b, b)}, {of}: {signed(value)} ({signed(low)} to {signed(high)})"
        return text, distance(low, high, 0.0, sign)

    def correlated(self, table: str, x: str, y: str, sign: int) -> Part:
        """Two columns of a table rise together (`sign` -1: one falls)."""
        rows = [cell for cell in self.cells(table) if cell.get("Seed") in (None, 0)]
        pairs = [(row.get(x), row.get(y)) for row in rows]
        return correlation(f"{x} and {y}", [pair for pair in pairs if None not in pair], 0.0, sign)

    def order_on(self, a: str, b: str, number: float, sign: int) -> Part:
        """The rank correlation of two tasks over all rows is above a number, or below it."""
        every = [list(by_seed(of, [task]).values()) for of in self.rows((a, b), "") for task in of]
        means = [sum(values) / len(values) for values in every]
        return correlation(f"{a} and {b}", list(zip(means[::2], means[1::2], strict=True)), number, sign)

    def _of_seeds(self, suite: str, names: Sequence[str], of: Callable[[ByTask], list[float]]) -> list[Any] | None:
        named = [self.code.get(name, name) for name in names]
        self.asked.update(named)
        sides = [(name, of(row)) for name in named for row in self.rows(all_suites()[suite].tasks, name)]
        return sides if len(sides) == len(names) and all(len(values) > 1 for _, values in sides) else None

    def steadier(self, first: str, second: str) -> Part:
        """The first row's standard deviation over seeds on STS is smaller (F)."""
        sides = self._of_seeds("sts", (first, second), lambda row: list(by_seed(row).values()))
        return spread("sts", sides, None) if sides else None

    def unsteady(self, name: str, least: float) -> Part:
        """A row's standard deviation over seeds on STS is above a number (chi-squared)."""
        sides = self._of_seeds("sts", (name,), lambda row: list(by_seed(row).values()))
        return spread("sts", sides, least) if sides else None

    def course(self, kind: str, first: str, second: str) -> Part:
        """A curve of training is lower for the first row, on average over it (Welch's t)."""
        sides = self._of_seeds("sts", (first, second), lambda row: _curves(row, kind))
        return course(kind, sides) if sides else None


_FREQUENCIES = ("1-100", "101-500", "501-5000", "5001-")


def _pseudo(m: Measured, column: str) -> Part:
    value = m.value("pseudo-tokens", column, Method="ptbert", Step="313")
    return _less(column, ("ptbert", value), ("", 0.99))


def _pure(m: Measured, form: str) -> Part:
    chance, purity = (m.value("bias-classes", column, By="form", Class=form) for column in ("Chance", "Purity"))
    return _less("neighbours of its form", ("chance", chance), (form, purity))


# The claims' own parts, by their ids; `measure` of the claim says them in words. A claim holds if every part does.
RULES: Mapping[str, Callable[[Measured], Sequence[Part]]] = {
    "ptbert-less-length-bias": lambda m: [m.difference("ptbert", "simcse", "length bias", 1)],
    "simcse-falls-on-hard-pairs": lambda m: [m.difference("simcse", "0", "hard less all", -1)],
    "length-predicts-similarity-in-simcse": lambda m: [m.difference("simcse", "0", "length bias", -1)],
    "ptbert-above-simcse-hard": lambda m: [m.difference("ptbert", "simcse", "hard", 1)],
    "hard-gain-exceeds-overall-gain": lambda m: [m.difference("ptbert", "simcse", "hard less all", 1)],
    "pseudo-tokens-select-content": lambda m: [_pseudo(m, "cos to V(V(mean))"), _pseudo(m, "cos, P drawn anew")],
    "ptbert-alignment-below-simcse": lambda m: [m.course("alignment", "ptbert", "simcse")],
    "ptbert-uniformity-below-simcse": lambda m: [m.course("uniformity", "ptbert", "simcse")],
    "alignment-uniformity-tell-quality": lambda m: [
        m.correlated("alignment", kind, "STS-B test", -1) for kind in ("Alignment", "Uniformity")
    ],
    "dev-order-holds-on-test": lambda m: [m.correlated("anisotropy", "STS-B dev", "Avg. (sts)", 1)],
    "more-negatives-steadier": lambda m: [m.steadier("ptbert:queue_size=1024", "ptbert:queue_size=64")],
    "phrase-sets-disagree": lambda m: [m.order_on("PPDB-human", "SemEval2013-5a", 0.5, -1)],
    "anisotropy-does-not-explain-score": lambda m: [
        *m.rising("anisotropy", "Sentence anisotropy", "Method", "avg-last", "static-avg"),
        *m.rising("anisotropy", "Avg. (sts)", "Method", "avg-last", "static-avg"),
    ],
    "more-stable-than-simcse": lambda m: [m.steadier("promptbert-repo", "simcse")],
    "simcse-unstable-over-seeds": lambda m: [m.unsteady("simcse", 0.65)],
    "tokens-cluster-by-frequency": lambda m: [
        *m.rising("bias-classes", "Spread", "Class", "1-100", "5001-", By="frequency"),
        *m.rising("bias-classes", "Neighbour distance", "Class", "1-100", "5001-", By="frequency"),
    ],
    "tokens-separate-by-form": lambda m: [_pure(m, "word"), _pure(m, "subword")],
    "removal-hurts-short-sentences": lambda m: [
        m.difference("static-freq-sub-case-pun", "static-avg", "1-5 words less all", -1)
    ],
    "esimcse-length-bias": lambda m: [
        m.difference("simcse", "0", "length bias", -1),
        m.difference("simcse", "esimcse", "length bias", -1),
    ],
    "flow-rare-tokens-far-and-sparse": lambda m: [
        *m.rising("bias-classes", "Norm", "Class", *_FREQUENCIES, By="frequency"),
        *m.rising("bias-classes", "Neighbour distance", "Class", *_FREQUENCIES, By="frequency"),
    ],
}
# Of these, those about weights that nothing but a language model trained.
OF_UNTRAINED = frozenset(
    {
        "anisotropy-does-not-explain-score",
        "tokens-cluster-by-frequency",
        "tokens-separate-by-form",
        "removal-hurts-short-sentences",
        "flow-rare-tokens-far-and-sparse",
    }
)


def _less(what: str, low: tuple[str, float | None], high: tuple[str, float | None]) -> Part:
    if low[1] is None or high[1] is None:
        return None
    texts = [f"{value:.4g}" + (f" ({name})" if name else "") for name, value in (low, high)]
    return f"{what}: {texts[0]} {'<' if low[1] < high[1] else '≥'} {texts[1]}", high[1] - low[1]


def _curves(by_task: ByTask, kind: str) -> list[float]:
    curves: dict[object, list[float]] = {}
    for records in by_task.values():
        for record in records:
            curve = (record["training"] or {}).get("dev_curves", {}).get(kind, {})
            curves.setdefault(record["seed"], []).extend(value for value in curve.values() if value is not None)
    return [sum(values) / len(values) for values in curves.values() if values]


def distance(low: float, high: float, number: float, sign: int) -> float:
    """Distance of an interval above a number (below it: `sign` -1); 0 if it contains the number."""
    return sign * (max(low - number, 0.0) + min(high - number, 0.0))


def correlation(what: str, pairs: Sequence[Sequence[Any]], number: float, sign: int) -> tuple[str, float] | None:
    """Part of a rule on a rank correlation over ten rows or more, by Fisher's z; None for fewer."""
    import numpy as np
    from scipy.stats import spearmanr

    if len(pairs) < FEWEST_ROWS:
        return None
    rho = float(spearmanr(*np.array(pairs, dtype=float).T)[0])
    error = np.sqrt((1 + rho**2 / 2) / (len(pairs) - 3))
    low, high = (float(np.tanh(np.arctanh(np.clip(rho, -0.999999, 0.999999)) + z * error)) for z in (-1.96, 1.96))
    text = f"rank correlation of {what} over {len(pairs)} rows: {signed(rho)} ({signed(low)} to {signed(high)})"
    return text, distance(low, high, number, sign)


def spread(on: str, sides: Sequence[tuple[str, Sequence[float]]], least: float | None) -> tuple[str, float]:
    """Part of a rule on standard deviations over seeds, by the intervals of chi-squared and F.

    The first of two rows is to have the smaller; a single row's is to be above `least`. `sides` has the name of each
    row and its score by seed, in points.
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
    """Part of a rule on the mean over a training's evaluations: lower for the first row (Welch's t)."""
    from scipy.stats import ttest_ind

    (a, first), (b, second) = sides
    test = ttest_ind(second, first, equal_var=False)
    interval = test.confidence_interval(0.95)
    low, high = float(interval.low), float(interval.high)
    value = sum(second) / len(second) - sum(first) / len(first)
    return f"{kind}, {b} - {a}: {signed(value, 4)} ({signed(low, 4)} to {signed(high, 4)})", distance(low, high, 0.0, 1)
