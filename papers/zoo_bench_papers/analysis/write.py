"""Writes the files of an analysis: Markdown, JSON, a CSV for each table and, with Matplotlib, a PNG for each figure."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.report.write import inert
from zoo.errors import MissingError
from zoo.files import atomic_path, write_signed, write_text
from zoo_bench_papers.analysis.result import Analysis, AnalysisTable, Histogram, Scatter, as_dict, markdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW = 100


def check_plots() -> None:
    """Raise MissingError unless Matplotlib is installed; called before any work is done."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingError(
            "the plots need matplotlib: pip install 'zoo-bench[plots]', or leave them out with --no-plots."
        )


def write_analysis(analysis: Analysis, folder: Path, *, command: str, plots: bool) -> list[Path]:
    """Write <name>.md and .json, a CSV file per table and with `plots` a PNG file per figure; return their paths."""
    written = [folder / f"{analysis.name}.md", folder / f"{analysis.name}.json"]
    write_text(written[0], markdown(analysis, command))
    write_signed(written[1], as_dict(analysis, command))
    for table in analysis.tables:
        written.append(folder / f"{table.stem}.csv")
        _write_csv(table, written[-1])
    for figure in analysis.figures if plots else ():
        written.append(folder / f"{figure.stem}.png")
        _write_png(figure, written[-1])
    return written


def _write_csv(table: AnalysisTable, path: Path) -> None:
    import pandas as pd

    with atomic_path(path) as temporary:
        frame = pd.DataFrame(list(table.rows), columns=list(table.columns)).map(inert)
        frame.to_csv(temporary, index=False, float_format="%.6g")


def _write_png(figure: Scatter | Histogram, path: Path) -> None:
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(7.0, 5.6), layout="constrained")
    axes = canvas.add_subplot()
    if isinstance(figure, Scatter):
        _scatter(figure, axes)
    else:
        for name, values in figure.values.items():
            axes.hist(values, bins=80, range=figure.range, density=True, histtype="step", linewidth=1.5, label=name)
        axes.legend()
    axes.set(xlabel=figure.x_label, ylabel=figure.y_label)
    axes.set_title(figure.title, fontsize=11)
    with atomic_path(path) as temporary:
        canvas.savefig(temporary, format="png", dpi=150)


def _scatter(figure: Scatter, axes: Axes) -> None:
    few = sum(len(points.x) for points in figure.points) <= _FEW
    for points in figure.points:
        colour: dict[str, Any] = {"color": points.colour}
        if points.values is not None:
            colour = {"c": list(points.values), "cmap": "viridis_r"}
        drawn = axes.scatter(
            list(points.x), list(points.y), s=60 if few else 4, linewidths=0, label=points.name, alpha=0.8, **colour
        )
        if points.values is not None:
            axes.get_figure(root=True).colorbar(drawn, label=figure.colour_label)  # type: ignore[union-attr]
        for label, x, y in zip(points.labels, points.x, points.y, strict=True) if figure.named else ():
            # Without Matplotlib's formula parser, because a label may contain a dollar sign.
            axes.annotate(label, (x, y), xytext=(5, 4), textcoords="offset points", fontsize=8, parse_math=False)
    if len(figure.points) > 1:
        axes.legend(markerscale=1.0 if few else 3.0)
    if figure.named:
        axes.margins(x=0.3, y=0.1)
