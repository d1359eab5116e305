"""Shows tables on a terminal of any width (the spread goes first, then tasks), in a notebook, as a DataFrame."""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, TextIO

from benchmark.report.columns import WORDS, Column, columns_of
from benchmark.report.conditions import ancestry_lines
from benchmark.report.rows import Row, Table, Value, score_text
from benchmark.report.signature import signature
from zoo.progress import fit_to

if TYPE_CHECKING:
    import pandas

_GAP = "  "
_NAMES = 12  # letters of a name that stay before the mean loses its spread
_BRIEF = 10  # rows of a table in a `repr`


def print_table(
    table: Table, stream: TextIO | None = None, row_keys: Collection[str] | None = None, width: int | None = None
) -> None:
    """Print the table within `width` columns, by default those of the terminal; a file or a pipe gets all of it.

    With `row_keys`, of other rows only the scores are printed: no reason for n/a, and no row without any score.
    """
    stream = stream or sys.stdout
    if width is None and (stream.isatty() or "COLUMNS" in os.environ):
        width = shutil.get_terminal_size().columns
    measured = [row for row in table.rows if row_keys is None or row.row_key in row_keys]
    shown = [row for row in table.rows if row.scored or row in measured]
    title = table.suite.title + (" — TRIAL (--limit)" if table.partial else "")
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    drawn, left_out = _drawn(table, shown, width, "±" if utf8 else "+-")
    notes = [table.suite.note, table.legend, table.against, *ancestry_lines(table.rows)]
    notes = [table.learned, *notes] if row_keys is None else notes
    notes += [*(f"n/a: {row.name}: {note}" for row in measured for note in row.notes), signature(table)]
    print(_safe(_wrapped(title, width), stream), *(_safe(line, stream) for line in drawn), sep="\n", file=stream)
    for text in filter(None, [left_out, *notes]):
        print(_safe(_wrapped(text, width), stream), file=stream)


def scores_of(table: Table, stream: TextIO) -> str:
    """Return the rows that have a score as they are printed, without the sentences beside them."""
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    return "\n".join(_drawn(table, [row for row in table.rows if row.scored], width, "±")[0])


def text_of(tables: Sequence[Table], width: int | None = None) -> str:
    """Return the tables as they are printed."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    for table in tables:
        print_table(table, stream, width=width)
    stream.seek(0)
    return stream.read().rstrip()


def brief_of(tables: Sequence[Table]) -> str:
    """Return the first rows of each table, without notes, for a console that shows a value."""
    texts = []
    for table in tables:
        rows = [replace(row, notes=[]) for row in table.rows[:_BRIEF]]
        brief = replace(table, rows=rows, legend="", suite=replace(table.suite, note=""))
        texts.append(text_of([brief], shutil.get_terminal_size().columns))
        texts += [f"... and {more} more rows"] if (more := len(table.rows) - len(rows)) else []
    return "\n".join(texts)


def _safe(text: str, stream: TextIO) -> str:
    """Return a text with the characters that the stream can print."""
    return "\n".join(fit_to(line, stream) for line in text.splitlines())


def _wrapped(text: str, width: int | None) -> str:
    return text if width is None else textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def _drawn(table: Table, rows: Sequence[Row], width: int | None, plus_minus: str) -> tuple[list[str], str]:
    """Return the lines of a table that fits the width, and a sentence on what does not."""
    columns = columns_of(table, "terminal")
    if width is None or len((lines := _lines(columns, rows, plus_minus))[0]) <= width:
        return _lines(columns, rows, plus_minus), ""
    several = any(value.sd is not None for row in rows for value in row.values.values())
    left_out = ["the spread over seeds of each task"] if several else []
    kept = [*columns]
    scores = [column for column in columns if column.name not in ("rank", "method", "average")]
    going = sorted(scores, key=lambda column: column.name not in table.suite.means)  # the last task goes first
    names = max(_NAMES, width * 2 // 5)
    while len((lines := _lines(kept, rows, plus_minus, names))[0]) > width and going and len(kept) > 3:
        kept.remove(going.pop())
    if len(lines[0]) > width:
        over = len(_lines(kept, rows, plus_minus, _NAMES - 1)[0]) - width
        lines = _lines(kept, rows, plus_minus, max(4, _NAMES - 1 - max(0, over)))
    left_out += [column.head for column in columns if column not in kept]
    return lines, f"Not shown at this width, but in the files: {', '.join(left_out)}." if left_out else ""


def _lines(columns: Sequence[Column], rows: Sequence[Row], plus_minus: str, names: int | None = None) -> list[str]:
    """Return a table as lines, each column as wide as its widest cell; with `names`, their most letters, no spreads."""

    def text(column: Column, row: Row) -> str:
        value, printed = column.of(row), " ".join(column.text(row).split()).replace("±", plus_minus)
        if names is None:
            return printed
        if column.name == "method" and len(printed) > names:
            dots = "…" if plus_minus == "±" else "."  # of one letter, so that columns stay straight
            return f"{printed[: names * 2 // 3]}{dots}{printed[-(names - 1 - names * 2 // 3) :]}"
        if isinstance(value, Value) and (value.mean is None or column.name != "average" or names < _NAMES):
            return "n/a" if value.mean is None else score_text(value.mean)
        return printed

    cells = [[column.head for column in columns], *([text(column, row) for column in columns] for row in rows)]
    widths = [max(map(len, of)) for of in zip(*cells, strict=True)]
    sides = [str.ljust if column.format in WORDS else str.rjust for column in columns]
    padded = ([side(cell, wide) for side, cell, wide in zip(sides, line, widths, strict=True)] for line in cells)
    head, *body = map(_GAP.join, padded)
    return [head, "─" * len(head), *body]


def frame_of(tables: Sequence[Table]) -> pandas.DataFrame:
    """Return the scores x100: a row per method; mean over seeds and sd of each measured task and mean, conditions.

    A method has one row for all tables together; each mean is named after its suite. There is a column "NAME sd" where
    any row has several seeds.
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
    """Return the tables with spread over seeds and conditions, as HTML without scripts or styles from elsewhere."""
    return "\n".join(_html(table) for table in tables)


def _html(table: Table) -> str:
    import pandas

    title = table.suite.title + (" (trial on cut data, --limit)" if table.partial else "")
    columns = columns_of(table, "html")
    cells = [[column.text(row) for column in columns] for row in table.rows]
    frame = pandas.DataFrame(cells, columns=[column.head for column in columns])
    with pandas.option_context("display.max_colwidth", None):
        drawn = frame.to_html(index=False, border=0)
    notes = [f"n/a: {row.name}: {note}" for row in table.rows for note in row.notes]
    below = filter(None, [table.learned, table.suite.note, table.legend, table.against, *notes])
    return "\n".join([f"<h4>{escape(title)}</h4>", drawn, *(f"<p>{escape(text)}</p>" for text in below)])
