"""Tables for use from Python: a DataFrame, HTML for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from benchmark.report.columns import columns_of
from benchmark.report.rows import Table
from benchmark.report.values import Value

if TYPE_CHECKING:
    import pandas


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
