"""Contrasts of rows on suites and tasks: differences, intervals and limits."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from benchmark.report.published import plain_backbone
from benchmark.report.rows import signed
from benchmark.stats.draws import compared
from benchmark.stats.intervals import NO_INTERVAL
from benchmark.stats.mcb import LEVEL, differences
from benchmark.stats.power import POWER
from zoo_bench_papers import answers
from zoo_bench_papers.claim_rows import Condition, Folder, MeasuredRow, least_share
from zoo_bench_papers.claims import Claim, tasks_of

Metric = Literal["", "pearson"]
PrintedOf = Mapping[tuple[str, str, tuple[str, ...]], float]

_DIMENSIONS = 300
# Settings that are to be equal on both sides, or named.
SETTINGS = {"pooler": "pooling", "temperature": "temperature", "eval_every": "evaluation interval"}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A contrast on a place: a - b in points with its 95% interval, or why it or its gate is not measured.

    `line` is the claim's line for the difference: 0, or its margin below 0; `within` its margin on both sides. `error`
    and `df` are the difference's standard error and its degrees of freedom. `untestable`: why it says nothing about
    the claim.
    """

    a: str
    b: str
    on: str
    difference: float | None = None
    low: float = 0.0
    high: float = 0.0
    line: float = 0.0
    within: float = 0.0
    printed: float | None = None
    error: float = 0.0
    df: float = 1.0
    reason: str = ""
    untestable: str = ""
    differs: str = ""
    # Another backbone than the paper's, or fewer dimensions than its word vectors.
    small: bool = False
    share: float | None = None
    # The words at false discovery rates of 5 and 1 %, of a deciding comparison (`corrected`).
    corrected: tuple[str, ...] = ()

    @property
    def decides(self) -> bool:
        return self.difference is not None and not self.untestable and not self.reason

    @property
    def word(self) -> str:
        if self.within:
            return {answers.YES: answers.CONFIRMED, answers.NO: answers.REVERSED}.get(self.above, answers.UNDECIDED)
        return answers.word(self.low, self.high, self.line, self.printed)

    @property
    def above(self) -> str:
        if self.within:
            from scipy.special import stdtrit

            half = self.error * float(stdtrit(self.df, 1 - LEVEL))
            return answers.within(self.difference or 0.0, half, self.low, self.high, self.within)
        return answers.above(self.low, self.high, self.line)

    @property
    def as_large(self) -> str:
        return "" if self.within else answers.as_large(self.high, self.line, self.printed)

    @property
    def seen(self) -> float:
        """Difference detectable in 80% of repetitions."""
        from scipy.special import stdtrit

        return self.error * float(stdtrit(self.df, 1 - LEVEL / 2) + stdtrit(self.df, POWER))

    def text(self) -> str:
        """Text such as "simcse - cls, sts: +3.54 (+2.82 to +4.25)", and other differences of the rows."""
        return f"{self.a} - {self.b}, {self.on}: {self.gap}" + (f" [{self.differs}]" if self.differs else "")

    @property
    def gap(self) -> str:
        if self.difference is None:
            return ""
        ends = f"{signed(self.low)} to {signed(self.high)}" if self.low < self.high else NO_INTERVAL
        return f"{signed(self.difference)} ({ends})"


class Place:
    """Differences of the rows of `pairs` on a suite or on tasks, or why a row has none."""

    def __init__(
        self, folder: Folder, name: str, pairs: Sequence[Sequence[str]], at: Condition, metric: Metric = ""
    ) -> None:
        self.name, self.tasks = name, tasks_of(name)
        rows = {row: folder.row(row, self.tasks, at) for pair in pairs for row in pair}
        self.reasons = {row: reason for row, reason in rows.items() if isinstance(reason, str)}
        used = dict.fromkeys(row for pair in pairs if not self.reasons.keys() & {*pair} for row in pair)
        known = {name: row for name in used if not isinstance(row := rows[name], str)}
        self.rows = {name: row for name, (row, _) in known.items()}
        self.index: dict[str, int] = {}
        self.values: dict[str, float] = {}
        if known:
            kept, sampled, _ = compared([of for _, of in known.values()], folder.store, self.tasks, metric=metric)
            if sampled is not None:
                self.differences = differences(sampled)
                self.index = {name: kept.index(i) for i, name in enumerate(self.rows) if i in kept}
                self.values = {name: float(sampled.value[at]) for name, at in self.index.items()}

    def compare(self, contrast: Sequence[str], claim: Claim, printed: PrintedOf) -> Compared:
        """A contrast with its interval.

        A contrast of four rows is (a - b) - (c - d). Its error follows from those of their differences, as the variance
        of a contrast of weights that sum to 0 does; its degrees of freedom are their fewest.
        """
        from scipy.special import stdtrit

        a, b = contrast if len(contrast) == 2 else (f"({' - '.join(half)})" for half in (contrast[:2], contrast[2:]))
        why = list(dict.fromkeys(self.reasons[row] for row in contrast if row in self.reasons))
        if why or not {*contrast} <= self.index.keys():
            return Compared(a=a, b=b, on=self.name, reason=", ".join(why) or "measured on other pairs")
        at = [self.index[row] for row in contrast]
        signs = np.array([1, -1, -1, 1][: len(at)])
        value = float(sum(self.differences.value[i, j] for i, j in ((at[0], at[1]), at[:1:-1])[: len(at) // 2]))
        of_pairs, of_seeds = (
            max(0.0, -float(signs @ part[np.ix_(at, at)] ** 2 @ signs) / 2)
            for part in (self.differences.pairs_error, self.differences.seeds_error)
        )
        error = float(np.sqrt(of_pairs + of_seeds))
        df = float(np.nanmin([self.differences.df[i, j] for i, j in itertools.combinations(at, 2)]))
        half = error * float(stdtrit(df, 1 - LEVEL / 2))
        return Compared(
            a=a,
            b=b,
            on=self.name,
            difference=value,
            low=value - half,
            high=value + half,
            line=0.0 - claim.margin * (claim.kind != "equal"),
            within=claim.margin * (claim.kind == "equal"),
            printed=printed.get((claim.paper, self.name, tuple(contrast))),
            error=error,
            df=df,
            **_about([self.rows[row] for row in contrast], claim),
        )


def printed_differences(claims: Iterable[Claim]) -> PrintedOf:
    """Printed differences by paper, place and rows: a paper's claims share them."""
    printed: dict[tuple[str, str, tuple[str, ...]], float] = {}
    for claim in claims:
        for place, pair in itertools.product(claim.on, claim.pairs()):
            if (value := claim.printed(pair, place)) is not None:
                printed.setdefault((claim.paper, place, pair), value)
    return printed


def _about(rows: Sequence[MeasuredRow], claim: Claim) -> dict[str, Any]:
    labelled = [row.about for row in rows if row.about["ancestry"] and not row.trained]
    recipes = [row.records[0]["method"]["recipe"] for row in rows if row.trained]
    unlike = []
    for key, name in SETTINGS.items() if len(recipes) == len(rows) else ():
        given = (recipe.get(key, recipe.get(name)) for recipe in recipes)
        values = list(dict.fromkeys(str(value).replace("mean", "avg") for value in given if value is not None))
        # Each has its own best temperature.
        if len(values) > 1 and not (key == "temperature" and rows[0].at.tuned):
            unlike.append(f"{name} {' and '.join(values)}")
    theirs = {plain_backbone(cell.a.row.backbone) for cell in claim.published} or {"bert-base-uncased"}
    words = [row.about["dimensions"] or 0 for row in rows if not row.at.backbone]
    small = any(row.at.backbone and plain_backbone(row.at.backbone) not in theirs for row in rows)
    return {
        "untestable": f"untrained, with {labelled[0]['ancestry']}" if labelled else "",
        "differs": ", ".join(unlike),
        "small": small or any(n < _DIMENSIONS for n in words),
        "share": least_share(rows),
    }
