"""Leaderboards on a terminal, in a notebook, as a DataFrame."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, TextIO

from benchmark.report.columns import columns_of, printed
from benchmark.report.conditions import warning_lines
from benchmark.report.rows import Row, Table, Value
from benchmark.report.signature import signature
from benchmark.report.terminal import Field, fitted, folded, width_of
from zoo.progress import clean_line, counted, fit_to, print_safe

if TYPE_CHECKING:
    import pandas

_BRIEF = 10  # rows of a table in a `repr`


def print_table(
    table: Table,
    stream: TextIO | None = None,
    row_keys: Collection[str] | None = None,
    width: int | None = None,
    *,
    wide: bool = False,
    brief: bool = False,
) -> None:
    """Print the table within `width` columns, by default the terminal's; a file or a pipe gets all of it.

    With `row_keys`, other rows lose their reasons for n/a, and disappear if they have no score. With `brief`, the notes
    are in the files alone, except what the numbers are and reasons for n/a.
    """
    stream = stream or sys.stdout
    width = width_of(stream) if width is None else width
    measured = [row for row in table.rows if row_keys is None or row.row_key in row_keys]
    shown = [row for row in table.rows if row.scored or row in measured]
    drawn, left_out = _drawn(table, shown, None if wide else width, stream)
    learned = [table.learned] if table.learned and row_keys is None else []
    notes = [*learned, *_notes(table, measured, warning_lines(table.rows)), signature(table)]
    if brief:
        notes = [_what(table, shown), *_reasons(measured)]
    below = "\n".join(filter(None, notes)).splitlines()
    above = [clean_line(table.title), *filter(None, [left_out])]
    print_safe("\n".join([*folded(above, width), *drawn, *folded(below, width)]), stream)


def _notes(table: Table, measured: Sequence[Row], ancestry: Sequence[str] = ()) -> list[str]:
    return [*map(clean_line, [table.suite.note, *table.legends, *ancestry]), *_reasons(measured)]


def _what(table: Table, rows: Sequence[Row]) -> str:
    """Return what the numbers are: the measure, and the meaning of ±."""
    note = clean_line(table.suite.note)
    return f"{note} ±: the standard deviation over seeds.".strip() if _several_seeds(rows) else note


def _several_seeds(rows: Sequence[Row]) -> bool:
    return any(value.sd is not None for row in rows for value in row.values.values())


def _reasons(rows: Sequence[Row]) -> list[str]:
    return [clean_line(f"n/a: {reason}") for row in rows for reason in row.reasons()]


def text_of(tables: Sequence[Table], width: int | None = None) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    for table in tables:
        print_table(table, stream, width=width)
    stream.seek(0)
    return stream.read().rstrip()


def brief_of(tables: Sequence[Table]) -> str:
    """Return each table's first rows, without notes, for a console."""
    texts = []
    for table in tables:
        rows = [replace(row, notes=[]) for row in table.rows[:_BRIEF]]
        brief = replace(table, rows=rows, legend="", suite=replace(table.suite, note=""))
        texts.append(text_of([brief], shutil.get_terminal_size().columns))
        texts += [f"... and {counted(more, 'more row')}"] if (more := len(table.rows) - len(rows)) else []
    return "\n".join(texts)


def _drawn(table: Table, rows: Sequence[Row], width: int | None, stream: TextIO) -> tuple[list[str], str]:
    fields, means_of = [], table.suite.means
    in_means = {task for tasks in means_of.values() for task in tasks}
    for column in columns_of(table, "terminal"):
        texts = [str(row.rank or "") if column.name == "rank" else column.text(row) for row in rows]
        cells = [fit_to(clean_line(text), stream) for text in texts]
        values = [column.of(row) for row in rows]
        # Where the table is narrow, the mean alone keeps its spread over seeds.
        means = [replace(value, sd=None).text() if isinstance(value, Value) else "" for value in values]
        scored = column.name != "average" and any(isinstance(value, Value) for value in values)
        kept = column.name in ("rank", "method", "average")
        # First goes what a mean beside it contains, and of these the last; the means of some tasks go last.
        priority = 0 if kept else 1 if column.name in means_of else 3 if column.name in in_means else 2
        short = means if scored else None
        fields.append(
            Field(clean_line(column.head), cells, column.right, priority, short, name=column.name == "method")
        )
    if any(row.mark for row in rows):
        fields.append(Field("tie", [fit_to(row.tie, stream) for row in rows], right=False))
    lines, left_out = fitted(fields, width)
    partial = [field for field in fields if field.priority == 1]
    without, further = fitted([field for field in fields if field.priority != 1], width)
    if left_out and partial and not further:
        # Every task that the average is of stands beside it.
        lines, left_out = without, [field.head for field in partial]
    if left_out or lines != fitted(fields, None)[0]:
        left_out = [*(["the spread over seeds of each task"] if _several_seeds(rows) else []), *left_out]
    if fit_to("…", stream) != "…":
        lines = [line.replace("…", ".") for line in lines]  # of one letter, so that columns stay straight
    return lines, f"Not shown at this width, but in the files: {', '.join(left_out)}." if left_out else ""


def frame_of(tables: Sequence[Table]) -> pandas.DataFrame:
    """Return the scores x100: a row per method for all tables; mean and sd of each task and suite, conditions.

    "NAME sd" is there if any row has several seeds.
    """
    import pandas

    rows: dict[tuple[str, str], dict[str, object]] = {}  # encoders of other names may have the same vectors
    for table in tables:
        average = "Avg." if len(tables) == 1 else f"Avg. {table.suite.name}"
        heads = {"average": average, **{task: task for task in table.suite.tasks}}
        columns = columns_of(table, "frame")
        for row in table.rows:
            line = rows.setdefault((row.identity, row.row_key), {})
            for column in columns:
                head, value = heads.get(column.name, column.head), column.of(row)
                if isinstance(value, Value):
                    line |= {head: value.mean, f"{head} sd": value.sd}
                else:
                    line[head] = line.get(head, value) if column.name == "method" else value
    frame = pandas.DataFrame(list(rows.values())).set_index("Method").dropna(axis="columns", how="all")
    last = [name for name in ("Seeds", "Conditions") if name in frame.columns]
    return frame[[*(name for name in frame.columns if name not in last), *last]]


def html_of(tables: Sequence[Table]) -> str:
    """Return HTML without external scripts or styles."""
    return "\n".join(_html(table) for table in tables)


def _html(table: Table) -> str:
    import pandas

    heads, cells = printed(columns_of(table, "html"), table.rows)
    frame = pandas.DataFrame(cells, columns=heads)
    with pandas.option_context("display.max_colwidth", None):
        drawn = frame.to_html(index=False, border=0)
    below = filter(None, [table.learned, *_notes(table, table.rows)])
    return "\n".join([f"<h4>{escape(table.title)}</h4>", drawn, *(f"<p>{escape(text)}</p>" for text in below)])
