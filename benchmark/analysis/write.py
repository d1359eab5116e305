"""Writes the files of an analysis: Markdown, JSON and CSV, and with plots PNG and one HTML page."""

from __future__ import annotations

from pathlib import Path

from benchmark.analysis.plots import write_chart_page, write_png
from benchmark.analysis.result import Analysis, AnalysisTable, as_dict, markdown
from benchmark.leaderboard.csv_table import safe_cell
from zoo.files import atomic_path, write_json, write_text


def write_analysis(analysis: Analysis, folder: Path, *, command: str, plots: bool) -> list[Path]:
    """Write <name>.md, .json and .html, a CSV file per table and a PNG file per figure; returns their paths.

    Without `plots`, no HTML and no PNG file is written.
    """
    written = [folder / f"{analysis.name}.md", folder / f"{analysis.name}.json"]
    write_text(written[0], markdown(analysis, command))
    write_json(written[1], as_dict(analysis, command))
    for table in analysis.tables:
        written.append(folder / f"{table.stem}.csv")
        _write_csv(table, written[-1])
    if plots:
        for figure in analysis.figures:
            written.append(folder / f"{figure.stem}.png")
            write_png(figure, written[-1])
        written.append(folder / f"{analysis.name}.html")
        write_chart_page(analysis, written[-1], command)
    return written


def _write_csv(table: AnalysisTable, path: Path) -> None:
    import pandas as pd

    rows = [{key: safe_cell(value) for key, value in row.items()} for row in table.rows]
    with atomic_path(path) as temporary:
        pd.DataFrame(rows, columns=list(table.columns)).to_csv(temporary, index=False, float_format="%.6g")
