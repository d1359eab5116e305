"""Tables for use from Python: text for a terminal, a DataFrame, HTML for a notebook."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from benchmark.leaderboard.conditions import conditions
from benchmark.leaderboard.rows import Table
from benchmark.leaderboard.write import print_table

if TYPE_CHECKING:
    import pandas


def text_of(tables: Sequence[Table]) -> str:
    """Return the tables as `zoo-bench leaderboard` prints them on a terminal without UTF-8."""
    stream = io.StringIO()
    for table in tables:
        print_table(table, stream)
    return stream.getvalue().rstrip()


_BRIEF = 10  # rows of a table in a `repr`


def brief_of(tables: Sequence[Table]) -> str:
    """Return the first rows of each table, without notes, for a console that shows a value."""
    texts = []
    for table in tables:
        rows = [replace(row, notes=[]) for row in table.rows[:_BRIEF]]
        texts.append(text_of([replace(table, rows=rows, legend="", suite=replace(table.suite, note=""))]))
        texts += [f"... and {more} more rows"] if (more := len(table.rows) - len(rows)) else []
    return "\n".join(texts)


def frame_of(tables: Sequence[Table]) -> pandas.DataFrame:
    """Return the scores x100: a row per method; mean over seeds and sd of each measured task and mean, conditions.

    A method has one row for all tables together; each mean is named after its suite. There is a column "NAME sd" where
    any row has several seeds.
    """
    import pandas

    rows: dict[tuple[str, str], dict[str, Any]] = {}  # encoders of other names may have the same vectors
    for table in tables:
        average = "Avg." if len(tables) == 1 else f"Avg. {table.suite.name}"
        for row in table.rows:
            line = rows.setdefault((row.identity, row.row_key), {"Method": row.name})
            averages = {average: row.average} if table.suite.average else {}
            for name, value in (row.values | row.means | averages).items():
                line |= {name: value.mean, f"{name} sd": value.sd}
            line |= {"Seeds": row.about["seeds"], "Conditions": conditions(row)}
    frame = pandas.DataFrame(list(rows.values())).set_index("Method").dropna(axis="columns", how="all")
    last = ["Seeds", "Conditions"]
    return frame[[*(name for name in frame.columns if name not in last), *last]]


def html_of(tables: Sequence[Table]) -> str:
    """Return the tables with spread over seeds and conditions, as HTML without scripts or styles from elsewhere."""
    return "\n".join(_html(table) for table in tables)


def _html(table: Table) -> str:
    title = table.suite.title + (" (trial on cut data, --limit)" if table.partial else "")
    head = ["#", "Method", *table.columns, *["Avg."] * table.suite.average, "Conditions"]
    lines = [f"<table><caption>{escape(title)}</caption>", _line("th", head)]
    for row in table.rows:
        values = [value.text() for value in (*table.cells(row), *table.averages(row))]
        lines.append(_line("td", [row.place(), row.name, *values, conditions(row)]))
    notes = [f"n/a: {row.name}: {note}" for row in table.rows for note in row.notes]
    below = [table.suite.note, table.legend, *notes]
    return "\n".join([*lines, "</table>", *(f"<p>{escape(text)}</p>" for text in below if text)])


def _line(kind: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"
