"""The result of an analysis: tables and figures, with their Markdown and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmark.records.record import plain
from benchmark.report.markdown import code_block, markdown_table
from zoo import __version__


@dataclass(frozen=True)
class AnalysisTable:
    """Rows under one header; `columns` gives the decimals of each (None: text or whole numbers)."""

    stem: str
    title: str
    columns: dict[str, int | None]
    rows: list[dict[str, Any]]
    notes: Sequence[str] = ()
    # Written only as CSV, because it is too long to be read as a table.
    data_only: bool = False

    def cells(self) -> list[list[str]]:
        """Return the rows as text; a missing value is n/a."""
        return [[_text(row[column], digits) for column, digits in self.columns.items()] for row in self.rows]


@dataclass(frozen=True)
class Points:
    """Points of one kind: x, y (n,), a label per point, and one colour or a value per point for the colour scale."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    labels: Sequence[str]
    colour: str | None = None
    values: Sequence[float] | None = None


@dataclass(frozen=True)
class Scatter:
    """A scatter plot; darker is higher on the colour scale."""

    stem: str
    title: str
    x_label: str
    y_label: str
    points: Sequence[Points]
    colour_label: str = ""
    named: bool = False


@dataclass(frozen=True)
class Histogram:
    """Densities of several sets of values in one plot."""

    stem: str
    title: str
    x_label: str
    values: Mapping[str, Sequence[float]]
    range: tuple[float, float]
    y_label: str = "density"


@dataclass(frozen=True)
class Analysis:
    """One analysis: its name, title, description, tables and plots."""

    name: str
    title: str
    notes: Sequence[str]
    tables: Sequence[AnalysisTable]
    figures: Sequence[Scatter | Histogram] = ()
    conditions: dict[str, Any] = field(default_factory=dict)


def _text(value: object, digits: int | None) -> str:
    if value is None:
        return "n/a"
    return str(value) if digits is None else f"{value:.{digits}f}"


def markdown(analysis: Analysis, command: str) -> str:
    """Return the tables as Markdown, after the command that made them."""
    lines = [f"# {analysis.title}", "", "Made by:", "", *code_block([command]), "", *analysis.notes]
    for table in analysis.tables:
        if table.data_only:
            continue
        numbers = [digits is not None for digits in table.columns.values()]
        lines += ["", f"## {table.title}", "", *markdown_table([*table.columns], table.cells(), numbers)]
        lines += ["", *(f"- {note}" for note in table.notes)] if table.notes else []
    return "\n".join(lines) + f"\n\nzoo-bench {__version__}.\n"


def as_dict(analysis: Analysis, command: str) -> dict[str, Any]:
    """Return the analysis as values of standard JSON; a data-only table is represented by the name of its file."""
    tables: dict[str, Any] = {}
    for table in analysis.tables:
        content = {"file": f"{table.stem}.csv"} if table.data_only else {"rows": table.rows}
        tables[table.stem] = {"title": table.title, **content, "notes": list(table.notes)}
    return plain(  # type: ignore[no-any-return]
        {
            "analysis": analysis.name,
            "title": analysis.title,
            "version": __version__,
            "command": command,
            "notes": list(analysis.notes),
            "conditions": analysis.conditions,
            "tables": tables,
        }
    )
