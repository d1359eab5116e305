"""Tables for use from Python: text for a terminal, a DataFrame, HTML for a notebook."""

from __future__ import annotations

import io
from collections.abc import Sequence
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


def frame_of(tables: Sequence[Table]) -> pandas.DataFrame:
    """Return the scores x100, mean over seeds: a row per method, a column per measured task and mean, the conditions.

    A method has one row for all tables together; each mean is named after its suite.
    """
    import pandas

    rows: dict[str, dict[str, Any]] = {}
    for table in tables:
        average = "Avg." if len(tables) == 1 else f"Avg. {table.suite.name}"
        for row in table.rows:
            line = rows.setdefault(row.row_key, {"Method": row.name})
            line |= {task: value.mean for task, value in row.values.items()}
            line |= {name: value.mean for name, value in row.means.items()}
            line |= {average: row.average.mean, "Conditions": conditions(row)}
    frame = pandas.DataFrame(list(rows.values())).set_index("Method").dropna(axis="columns", how="all")
    return frame[[*(name for name in frame.columns if name != "Conditions"), "Conditions"]]


def html_of(tables: Sequence[Table]) -> str:
    """Return the tables with spread over seeds and conditions, as HTML without scripts or styles from elsewhere."""
    return "\n".join(_html(table) for table in tables)


def _html(table: Table) -> str:
    title = table.suite.title + (" (trial on cut data, --limit)" if table.partial else "")
    head = ["#", "Method", *table.columns, "Avg.", "Conditions"]
    lines = [f"<table><caption>{escape(title)}</caption>", _line("th", head)]
    for row in table.rows:
        values = [value.text() for value in table.cells(row)]
        lines.append(_line("td", [row.place(), row.name, *values, row.average.text(), conditions(row)]))
    notes = [f"n/a: {row.name}: {note}" for row in table.rows for note in row.notes]
    below = [table.suite.note, table.legend, *notes]
    return "\n".join([*lines, "</table>", *(f"<p>{escape(text)}</p>" for text in below if text)])


def _line(kind: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"
