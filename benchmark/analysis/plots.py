"""Scatter plots as PNG (Matplotlib) and as one page that needs no network (Plotly, its script inlined)."""

from __future__ import annotations

import html
import importlib.util
from pathlib import Path
from typing import Any

from benchmark.analysis.result import Analysis, AnalysisTable, Points, Scatter
from zoo.errors import MissingError
from zoo.files import atomic_path, write_text

_SCALE = "viridis_r"  # known to both libraries; darker is higher
_MANY = 5000  # points from which WebGL is used, because SVG would be slow in a browser
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem;color:#1b1b1b}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.5rem 0}
th,td{border-bottom:1px solid #d5d5d5;padding:.2rem .7rem;text-align:left}td.number,th.number{text-align:right}
pre{background:#f4f4f4;padding:.6rem;white-space:pre-wrap}.wide{overflow-x:auto}"""


def check_plots() -> None:
    """Raise MissingError unless the plotting libraries are installed; called before any work is done."""
    for package in ("matplotlib", "plotly"):
        if importlib.util.find_spec(package) is None:
            raise MissingError(
                f"the plots need {package}: pip install 'zoo-bench[plots]', or leave them out with --no-plots."
            )


def write_png(figure: Scatter, path: Path) -> None:
    """Draw a figure into a PNG file."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(7.0, 5.6), layout="constrained")
    axes = canvas.add_subplot()
    total = sum(len(points.x) for points in figure.points)
    for points in figure.points:
        colour: dict[str, Any] = {"color": points.colour}
        if points.values is not None:
            colour = {"c": list(points.values), "cmap": _SCALE}
        drawn = axes.scatter(
            list(points.x),
            list(points.y),
            s=60 if total <= 100 else 4,
            linewidths=0,
            label=points.name,
            alpha=0.8,
            **colour,
        )
        if points.values is not None:
            canvas.colorbar(drawn, label=figure.colour_label)
        for label, x, y in zip(points.labels, points.x, points.y, strict=True) if figure.named else ():
            # Without Matplotlib's formula parser, because a label may contain a dollar sign.
            axes.annotate(label, (x, y), xytext=(5, 4), textcoords="offset points", fontsize=8, parse_math=False)
    if len(figure.points) > 1:
        axes.legend(markerscale=3.0 if total > 100 else 1.0)
    if figure.named:
        axes.margins(x=0.3, y=0.1)  # room for the labels
    axes.set(xlabel=figure.x_label, ylabel=figure.y_label)
    axes.set_title(figure.title, fontsize=11)
    with atomic_path(path) as temporary:
        canvas.savefig(temporary, format="png", dpi=150)


def _plotly(figure: Scatter) -> str:
    """Return a figure as a <div> that expects Plotly's script in the page."""
    import plotly.graph_objects as go

    total = sum(len(points.x) for points in figure.points)
    kind = go.Scattergl if total > _MANY else go.Scatter
    drawn = go.Figure([_trace(kind, figure, points, total) for points in figure.points])
    drawn.update_layout(
        title=html.escape(figure.title),
        xaxis_title=html.escape(figure.x_label),
        yaxis_title=html.escape(figure.y_label),
        template="plotly_white",
        height=620,
        showlegend=len(figure.points) > 1,
    )
    return str(drawn.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False}))


def _trace(kind: Any, figure: Scatter, points: Points, total: int) -> Any:
    marker: dict[str, Any] = {"size": 10 if total <= 100 else 4, "color": points.colour, "opacity": 0.8}
    if points.values is not None:
        bar = {"title": {"text": html.escape(figure.colour_label)}}
        marker |= {"color": list(points.values), "colorscale": _SCALE, "showscale": True, "colorbar": bar}
    return kind(
        x=list(points.x),
        y=list(points.y),
        text=[html.escape(label) for label in points.labels],
        mode="markers+text" if figure.named else "markers",
        textposition="top right",
        marker=marker,
        name=html.escape(points.name),
        hovertemplate="%{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
    )


def _html_table(table: AnalysisTable) -> list[str]:
    classes = ['class="number"' if digits is not None else "" for digits in table.columns.values()]
    lines = [f"<h2>{html.escape(table.title)}</h2>", '<div class="wide"><table>']
    for tag, row in [("th", list(table.columns)), *(("td", row) for row in table.cells())]:
        cells = (f"<{tag} {kind}>{html.escape(cell)}</{tag}>" for kind, cell in zip(classes, row, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return [*lines, "</table></div>", *(f"<p>{html.escape(note)}</p>" for note in table.notes)]


def write_chart_page(analysis: Analysis, path: Path, command: str) -> None:
    """Write tables and figures into one HTML file that loads no other file."""
    from plotly.offline import get_plotlyjs

    title = html.escape(analysis.title)
    lines = ["<!doctype html>", '<html lang="en"><head><meta charset="utf-8">', f"<title>{title}</title>"]
    lines += [f"<style>{_STYLE}</style>"]
    if analysis.figures:
        lines += [f"<script>{get_plotlyjs()}</script>"]
    lines += ["</head><body>", f"<h1>{title}</h1>", f"<pre>{html.escape(command)}</pre>"]
    lines += [f"<p>{html.escape(note)}</p>" for note in analysis.notes]
    for table in analysis.tables:
        lines += [] if table.data_only else _html_table(table)
    lines += [_plotly(figure) for figure in analysis.figures]
    write_text(path, "\n".join([*lines, "</body></html>"]) + "\n")
