"""Results of analyses: tables and figures, as Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.records.record import plain
from benchmark.report.markdown import code_block, markdown_table
from benchmark.report.write import csv_text
from zoo import __version__
from zoo.extras import optional
from zoo.files import atomic_path, write_signed, write_text


@dataclass(frozen=True)
class AnalysisTable:
    """Rows under a header; `columns` gives each column's decimals (None: text or whole numbers)."""

    stem: str
    title: str
    columns: dict[str, int | None]
    rows: list[dict[str, Any]]
    notes: Sequence[str] = ()
    # Written only as CSV, because it is too long to be read as a table.
    data_only: bool = False

    def cells(self) -> list[list[str]]:
        return [[_text(row[column], digits) for column, digits in self.columns.items()] for row in self.rows]


@dataclass(frozen=True)
class Points:
    """Points of a kind: x, y (n,), a label per point, and a colour or a value per point."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    labels: Sequence[str]
    colour: str | None = None
    values: Sequence[float] | None = None


@dataclass(frozen=True)
class Scatter:
    stem: str
    title: str
    x_label: str
    y_label: str
    points: Sequence[Points]
    colour_label: str = ""
    named: bool = False


@dataclass(frozen=True)
class Analysis:
    name: str
    title: str
    notes: Sequence[str]
    tables: Sequence[AnalysisTable]
    figures: Sequence[Scatter] = ()
    conditions: dict[str, Any] = field(default_factory=dict)


def _text(value: object, digits: int | None) -> str:
    if value is None:
        return "n/a"
    return str(value) if digits is None else f"{value:.{digits}f}"


def markdown(analysis: Analysis, command: str) -> str:
    lines = [f"# {analysis.title}", "", "Made by:", "", *code_block([command]), "", *analysis.notes]
    for table in analysis.tables:
        if table.data_only:
            continue
        numbers = [digits is not None for digits in table.columns.values()]
        lines += ["", f"## {table.title}", "", *markdown_table([*table.columns], table.cells(), numbers)]
        lines += ["", *(f"- {note}" for note in table.notes)] if table.notes else []
    return "\n".join(lines) + f"\n\nzoo-bench {__version__}.\n"


def as_dict(analysis: Analysis, command: str) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for table in analysis.tables:
        content = {"file": f"{table.stem}.csv"} if table.data_only else {"rows": table.rows}
        tables[table.stem] = {"title": table.title, **content, "notes": list(table.notes)}
    head = {"analysis": analysis.name, "title": analysis.title, "version": __version__, "command": command}
    about = {"notes": list(analysis.notes), "conditions": analysis.conditions}
    return plain({**head, **about, "tables": tables})  # type: ignore[no-any-return]


_FEW = 100
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#17becf")


def check_plots() -> None:
    """Raise MissingError without Matplotlib, before any work."""
    optional("matplotlib", "plots", "an analysis without --no-plots")


def write_analysis(analysis: Analysis, folder: Path, *, command: str, plots: bool) -> list[Path]:
    """Write <name>.md and .json, a CSV file per table and with `plots` a PNG file per figure; return their paths."""
    written = [folder / f"{analysis.name}.md", folder / f"{analysis.name}.json"]
    write_text(written[0], markdown(analysis, command))
    write_signed(written[1], as_dict(analysis, command))
    for table in analysis.tables:
        written.append(folder / f"{table.stem}.csv")
        write_text(written[-1], csv_text(map(_plain, table.rows), table.columns))
    for figure in analysis.figures if plots else ():
        written.append(folder / f"{figure.stem}.png")
        _write_png(figure, written[-1])
    return written


def _plain(row: dict[str, Any]) -> dict[str, object]:
    digits = {name: f"{value:.6g}" for name, value in row.items() if isinstance(value, float) and value == value}
    return {**row, **digits}


def _write_png(figure: Scatter, path: Path) -> None:
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(7.0, 5.6), layout="constrained")
    axes = canvas.add_subplot()
    few = sum(len(points.x) for points in figure.points) <= _FEW
    for points in figure.points:
        colour: dict[str, Any] = {"color": points.colour}
        if points.values is not None:
            colour = {"c": list(points.values), "cmap": "viridis_r"}
        drawn = axes.scatter(
            list(points.x), list(points.y), s=60 if few else 4, linewidths=0, label=points.name, alpha=0.8, **colour
        )
        if points.values is not None:
            canvas.colorbar(drawn, label=figure.colour_label)
        for label, x, y in zip(points.labels, points.x, points.y, strict=True) if figure.named else ():
            # Without Matplotlib's formula parser, because a label may contain a dollar sign.
            axes.annotate(label, (x, y), xytext=(5, 4), textcoords="offset points", fontsize=8, parse_math=False)
    if len(figure.points) > 1:
        axes.legend(markerscale=1.0 if few else 3.0)
    if figure.named:
        axes.margins(x=0.3, y=0.1)
    axes.set(xlabel=figure.x_label, ylabel=figure.y_label)
    axes.set_title(figure.title, fontsize=11)
    with atomic_path(path) as temporary:
        canvas.savefig(temporary, format="png", dpi=150)
