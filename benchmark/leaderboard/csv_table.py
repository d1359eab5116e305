"""Tables as CSV that is safe to open in a spreadsheet: a text that looks like a formula is marked as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from zoo.progress import without_orders

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_table(header: Sequence[str], rows: Iterable[Mapping[str, object]], ends: str = "\n") -> str:
    """Return rows as CSV; a text that begins like a formula gets a leading apostrophe, numbers are unchanged."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(header), lineterminator=ends)
    writer.writeheader()
    writer.writerows({key: safe_cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def safe_cell(value: object) -> object:
    """Return a value that is safe in a spreadsheet, and in a terminal on which the file is printed."""
    value = without_orders(value) if isinstance(value, str) else value
    if not isinstance(value, str) or not value.startswith(_FORMULA) or len(value) == 1:
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
