"""An ablation: rows with a changed setting beside their base row, as a table of a single column."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from benchmark.records.folder import Records, read_records
from benchmark.records.names import natural, recipe_of
from benchmark.records.query import label, row_named, rows_named, split_label
from benchmark.records.record import Record
from benchmark.report.comparison import compare_rows
from benchmark.report.latex import escape
from benchmark.report.rows import signed
from benchmark.report.terminal import Field, fitted, folded, width_of
from benchmark.stats.compare import Line
from benchmark.stats.draws import changed_settings
from benchmark.stats.marks import beyond_noise
from benchmark.stats.mcb import LEVEL
from zoo.errors import UsageError
from zoo.progress import print_safe


@dataclass(frozen=True)
class Change:
    """A row, its changed settings ("temperature 0.1 (0.05)") and its difference in points."""

    row: str
    change: str
    line: Line
    significant: bool  # by Holm's procedure over the rows

    @property
    def equal(self) -> bool:
        """True if no score differs in any sample, as with equal vectors."""
        return self.line.difference == 0 and self.line.p is not None and self.line.low is None


@dataclass(frozen=True)
class Ablation:
    """Rows beside their base, sorted by difference; prints as a table."""

    base: str
    title: str
    score: float
    changes: list[Change]
    # Which noise the intervals and marks contain.
    noise: str = ""

    def show(self, stream: TextIO | None = None) -> None:
        stream = stream or sys.stdout
        width = width_of(stream)
        fields = [
            Field("Change", [change.change for change in self.changes], right=False, name=True),
            Field("Score", [f"{change.line.a:z.2f}" for change in self.changes], priority=1),
            Field("Difference [95 % interval]", [*map(_difference, self.changes)], right=False),
        ]
        title = f"{self.base} on {self.title}: {self.score:z.2f}"
        note = f"* p < {LEVEL:g} by Holm's procedure over the rows. {self.noise} {_PAIRED}"
        lines = [*folded([title], width), *fitted(fields, width)[0], *folded([note], width)]
        print_safe("\n".join(lines), stream)

    def as_dict(self) -> dict[str, Any]:
        rows = [
            {
                "row": change.row,
                "change": change.change,
                "score": change.line.a,
                "difference": change.line.difference,
                "low": change.line.low,
                "high": change.line.high,
                "p": change.line.p,
                "significant": change.significant,
                "seed_by_seed": change.line.seed_by_seed,
            }
            for change in self.changes
        ]
        return {"base": self.base, "title": self.title, "score": self.score, "noise": self.noise, "rows": rows}

    def latex(self) -> str:
        r"""Needs \usepackage{booktabs}."""
        rows = [
            f"{escape(change.change)} & {change.line.a:z.2f} & ${_difference(change).replace('*', '^{*}')}$ \\\\"
            for change in self.changes
        ]
        caption = f"{escape(self.title)}. Differences to the first row with 95\\,\\% intervals. {self.noise} {_PAIRED}"
        return "\n".join(
            [
                "\\begin{table}",
                f"\\caption{{{caption} $^*$: $p < {LEVEL:g}$ by Holm's procedure.}}",
                "\\begin{tabular}{lrl}",
                "\\toprule",
                "Change & Score & Difference \\\\",
                "\\midrule",
                f"{escape(self.base)} & {self.score:z.2f} & \\\\",
                *rows,
                "\\bottomrule",
                "\\end{tabular}",
                "\\end{table}",
                "",
            ]
        )


_PAIRED = "Rows with one setting changed are compared seed by seed."


def ablation(
    results: Path,
    base: str,
    names: Sequence[str] = (),
    *,
    suites: str | None = None,
    tasks: str | None = None,
) -> Ablation:
    """Compare rows with a base row on the mean of a suite, or on tasks.

    Args:
        results: The results folder.
        base: The name of the base row.
        names: Names or globs of the other rows; default: the base's recipe with other settings.
        suites: A suite; default: the first common to all rows.
        tasks: Tasks instead of a suite, comma-separated.

    Raises:
        UsageError: A name is unknown, or there is no other row.
        MissingError: A row cannot be compared with the base.

    Examples:
        >>> from pathlib import Path
        >>> ablation(Path("nowhere"), "simcse")
        Traceback (most recent call last):
        ...
        zoo.errors.UsageError: no records in nowhere; make some with `zoo-bench run`, or name a folder with --results.
    """
    records = read_records(Records(results))
    first = row_named(records, base, results)
    recipe, _ = recipe_of(first[0]["method"])
    typed = {
        r["method"]["name"] for r in records if recipe_of(r["method"])[0] == recipe and r["method"]["name"] != base
    }
    rows = {
        label(row): row for name in names or sorted(typed, key=natural) for row in rows_named(records, name, results)
    }
    rows.pop(label(first), None)
    if not rows:
        raise UsageError(f"ablation {base}: {results} has no {base} with another setting; name rows beside it.")
    sums = {name: compare_rows(results, name, label(first), suites=suites, tasks=tasks) for name in rows}
    compared = {name: of_row.comparisons[0] for name, of_row in sums.items()}
    lines = {name: comparison.average or comparison.lines[-1] for name, comparison in compared.items()}
    marks = beyond_noise({place: line.p for place, line in enumerate(lines.values()) if line.p is not None})
    changes = [
        Change(name, _change(first[0], rows[name][0]), line, marks.get(place, False))
        for place, (name, line) in enumerate(lines.items())
    ]
    changes.sort(key=lambda change: (-change.line.difference, natural(change.change)))
    comparison = next(iter(compared.values()))
    noise = " ".join(dict.fromkeys(of_row.noise(comparison.unit) for of_row in sums.values()))
    return Ablation(split_label(label(first))[0], comparison.title, next(iter(lines.values())).b, changes, noise)


def _change(base: Record, other: Record) -> str:
    """The base's value stands in parentheses."""
    if base["method"]["class"] != other["method"]["class"]:
        return label([other])
    base_recipe, other_recipe = base["method"]["recipe"], other["method"]["recipe"]
    return ", ".join(
        f"{key} {other_recipe[key]} ({base_recipe[key]})" for key in changed_settings(base, other)
    ) or label([other])


def _difference(change: Change) -> str:
    line = change.line
    if change.equal:
        return "equal scores: the change has no effect"
    interval = "" if line.low is None or line.high is None else f" [{signed(line.low)}, {signed(line.high)}]"
    return f"{signed(line.difference)}{interval}{'*' if change.significant else ''}"
