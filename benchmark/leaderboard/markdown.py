"""Markdown that every table here is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zoo.progress import without_orders


def markdown_text(text: str) -> str:
    """Return a text on one line: nothing in it is raw HTML (in a code span a < is a < anyway) or orders a terminal."""
    text = without_orders(" ".join(text.splitlines()))
    made, at = [], 0
    while at < len(text):
        part = text[at]
        if part == "\\":
            part = text[at : at + 2]  # whatever stands behind it begins nothing
        elif part == "`":
            part = _code_span(text, at)
        # Backticks that nothing ends would begin a code span with those of the next cell.
        escaped = part == "<" or set(part) == {"`"}
        made.append("".join(f"\\{sign}" for sign in part) if escaped else part)
        at += len(part)
    return "".join(made)


def _code_span(text: str, start: int) -> str:
    """Return the code span that begins here, or only the backticks where none of their number end it."""
    ticks = re.match("`+", text[start:])
    assert ticks is not None
    end = re.search(f"(?<!`){ticks[0]}(?!`)", text[start + len(ticks[0]) :])
    return ticks[0] if end is None else text[start : start + len(ticks[0]) + end.end()]


def markdown_row(cells: Iterable[str]) -> str:
    """Return a line of a table; a bar would end its cell, even inside backticks, and is escaped."""
    return "| " + " | ".join(markdown_text(cell).replace("|", "\\|") for cell in cells) + " |"
