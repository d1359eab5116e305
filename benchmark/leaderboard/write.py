"""Writes tables to files (Markdown, CSV, JSON, LaTeX, published values beside ours) and to the terminal."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, TextIO

from benchmark.leaderboard import published
from benchmark.leaderboard.conditions import CONTROL, ancestry_lines, conditions, environment_lines, group, role
from benchmark.leaderboard.csv_table import csv_table
from benchmark.leaderboard.latex import latex
from benchmark.leaderboard.markdown import markdown_row, markdown_text
from benchmark.leaderboard.published import BesidePublished
from benchmark.leaderboard.published_page import published_markdown
from benchmark.leaderboard.rows import Table
from benchmark.leaderboard.values import shown
from zoo.files import write_text
from zoo.progress import fit_to, without_orders

_NO_CONTROLS = (
    "The controls that other rows are measured against are not here: `zoo-bench run` without `--no-controls` adds those"
    " that the tasks can score."
)


def table_files(table: Table) -> dict[str, str]:
    """Return the contents of a table's files by name: <suite>.md, .csv, .json and .tex.

    If any row has a published counterpart, <suite>-published.md is one of them.
    """
    stem = table.stem
    comparisons = published.beside_published(table)
    files = {
        f"{stem}.md": without_orders(markdown(table)),
        f"{stem}.csv": _csv(table),
        f"{stem}.json": json.dumps(as_dict(table, comparisons), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        f"{stem}.tex": without_orders(latex(table)),
    }
    return files | ({f"{stem}-published.md": published_markdown(table, comparisons)} if comparisons else {})


def write_tables(tables: list[Table], folder: Path) -> list[Path]:
    """Write every table's files (see `table_files`) atomically; returns the Markdown paths."""
    written = []
    for table in tables:
        for name, text in table_files(table).items():
            write_text(folder / name, text)
            written += [folder / name] if name.endswith(".md") else []
    return written


def markdown(table: Table) -> str:
    """Return the table as Markdown, followed by costs, the reasons for every n/a, and the commands that made it."""
    trial = " — TRIAL on cut data (--limit), not comparable with anything" if table.partial else ""
    lines = [f"# {table.suite.title}{trial}", ""]
    lines += [
        table.suite.note,
        "Mean ± sample standard deviation over seeds; Avg. is the mean of the tasks, per seed.",
        *(f"{name} is the mean of {', '.join(tasks)}." for name, tasks in table.suite.means.items()),
        "",
    ]
    extremes = ["Min.", "Max."] if table.seeds else []  # of the average over seeds
    header = ["#", "Method", *table.columns, "Avg.", *extremes, "Conditions"]
    lines.append(markdown_row(header))
    lines.append("|" + "|".join(["--:", ":--", *["--:"] * (len(header) - 3), ":--"]) + "|")
    for row in table.rows:
        values = [value.text() for value in table.cells(row)]
        average = row.average.text() if row.average.mean is not None else f"n/a ({row.average.reason})"
        ends = [_number(row.average.min), _number(row.average.max)] if extremes else []
        lines.append(markdown_row([row.place(), row.name, *values, average, *ends, conditions(row)]))
    if table.legend:
        lines += ["", markdown_text(table.legend)]
    if extremes:
        lines += ["", "Min. and Max.: the lowest and the highest average of a seed."]
    if CONTROL not in map(role, table.rows):
        lines += ["", _NO_CONTROLS]
    lines += ["", *_cost(table)]
    notes = [f"- {markdown_text(f'{row.name}: {note}')}" for row in table.rows for note in row.notes]
    if notes:
        lines += ["", "Not available:", "", *notes]
    environments = map(markdown_text, environment_lines(table.rows))
    lines += ["", "## Made by", "", "```", *table.commands, "```", "", *environments]
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "" if value is None else shown(value)


_COSTS = {
    "Training, s": "train_seconds",
    "Sentences/s": "train_sentences_per_second",
    "Fit per task, s": "adapt_seconds",
    "Texts/s": "texts_per_second",
    "Parameters": "parameters",
    "Dim.": "dimensions",
    "Peak MB": "peak_memory_mb",
}


def _cost(table: Table) -> list[str]:
    """Return the costs of the rows that have a score, as Markdown; a cost that no record states has no column."""
    rows = [row for row in table.rows if any(value.mean is not None for value in row.values.values())]
    used = {title: name for title, name in _COSTS.items() if any(row.about[name] is not None for row in rows)}
    if any(row.about["transductive"] for row in rows):  # a dash under Training would mean that nothing is fitted
        used = {title: name for title, name in _COSTS.items() if title in used or name == "adapt_seconds"}
    lines = ["## Cost", "", markdown_row(["Method", *used, "Device"]), "|:--|" + "--:|" * len(used) + ":--|"]
    for row in rows:
        cells = [number(row.about[name], _without_cost(name, row.about)) for name in used.values()]
        lines.append(markdown_row([row.name, *cells, row.about["device"]]))
    note = (
        "Times and speeds are means over seeds. A transductive row is fitted to each task's texts, after or instead"
        " of a training. Peak: the most memory of the process while the row was trained and measured."
        " –: none; n/a: not in the records."
    )
    return [*lines, "", note]


def _without_cost(name: str, about: dict[str, Any]) -> str:
    """Return "–" if a row has no such cost, "n/a" if its records do not state it."""
    trained = bool(about["corpus"])
    has = {"train_seconds": trained, "train_sentences_per_second": trained, "adapt_seconds": about["transductive"]}
    return "n/a" if has.get(name, True) else "–"


def number(value: float | None, without: str) -> str:
    """Return a number with thousands separators, and with decimals only below 10."""
    return (
        without
        if value is None
        else f"{value:,.1f}"
        if 0 < abs(value) < 10 and value != int(value)
        else f"{value:,.0f}"
    )


def _csv(table: Table) -> str:
    rows = []
    for row in table.rows:
        line: dict[str, Any] = {"rank": row.rank, "among best": row.among_best, "method": row.name}
        line |= {"control": role(row), "group": group(row)}
        cells = zip([*table.columns, "Avg"], [*table.cells(row), row.average], strict=True)
        for column, value in cells:
            line |= {column: value.mean, f"{column} sd": value.sd}
            line |= {f"{column} min": value.min, f"{column} max": value.max}
        line |= {key: value for key, value in row.about.items() if not key.startswith("environment")}
        line["not available"] = "; ".join(row.notes)
        rows.append(line)
    shown = ({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in line.items()} for line in rows)
    return csv_table(list(rows[0]), shown)


def as_dict(table: Table, comparisons: Sequence[BesidePublished] | None = None) -> dict[str, Any]:
    """Return the table as plain values, with the published values (None: they are looked up)."""
    beside: dict[str, list[dict[str, Any]]] = {row.name: [] for row in table.rows}
    for comparison in published.beside_published(table) if comparisons is None else comparisons:
        beside[comparison.ours.name].append(published.entry(comparison))
    return {
        "suite": table.suite.name,
        "title": table.suite.title,
        "trial": table.partial,
        "aggregation": table.aggregation,
        "tasks": list(table.suite.tasks),
        "legend": table.legend,
        "commands": table.commands,
        "rows": [
            {
                "rank": row.rank,
                "among_best": row.among_best,
                "method": row.name,
                "row_key": row.row_key,
                "scores": {task: dataclasses.asdict(value) for task, value in row.values.items()},
                "means": {name: dataclasses.asdict(value) for name, value in row.means.items()},
                "average": dataclasses.asdict(row.average),
                **row.about,
                "control": role(row),
                "group": group(row),
                "published": beside[row.name],
            }
            for row in table.rows
        ],
        "cited": [] if table.partial else published.cited_entries(table.suite),
    }


def print_table(table: Table, stream: TextIO | None = None, row_keys: Collection[str] | None = None) -> None:
    """Print the table; a narrow terminal wraps it without cutting numbers, and one without UTF-8 gets ASCII.

    With `row_keys`, of other rows only the scores are printed: no reason for n/a, and no row without any score.
    """
    stream = stream or sys.stdout
    own = [row for row in table.rows if row_keys is None or row.row_key in row_keys]
    utf8 = (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
    title = table.suite.title + (" — TRIAL (--limit)" if table.partial else "")
    lines = []
    for row in table.rows:
        if row not in own and all(value.mean is None for value in row.values.values()):
            continue
        average = [v.text() if v.mean is not None else f"n/a ({v.reason})" for v in table.averages(row)]
        place = row.place() if utf8 else row.place().replace("≈", "~")
        cells = [place, row.name, *(value.text() for value in table.cells(row)), *average]
        lines.append([fit_to(" ".join(cell.split()), stream) for cell in cells])
    header = ["#", "Method", *table.columns, *["Avg."] * table.suite.average]
    print(fit_to(title, stream), _drawn(header, lines, utf8), sep="\n", file=stream)
    for text in filter(None, (table.suite.note, table.legend, *ancestry_lines(table.rows))):
        print(fit_to(text if utf8 else text.replace("≈", "~"), stream), file=stream)
    for row in own:
        for note in row.notes:
            print(fit_to(f"n/a: {row.name}: {note}", stream), file=stream)


def _drawn(header: list[str], rows: list[list[str]], utf8: bool) -> str:
    """Return a table as text with each column as wide as its widest cell; the second column is left-aligned."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawing
    from rich.text import Text

    drawing = Drawing(box=box.SIMPLE if utf8 else box.ASCII)
    for number, name in enumerate(header):
        drawing.add_column(Text(name), justify="left" if number == 1 else "right", no_wrap=True)
    for cells in rows:
        drawing.add_row(*map(Text, cells))
    text = io.StringIO()
    Console(file=text, width=100_000, color_system=None).print(drawing)
    return text.getvalue().rstrip("\n")
