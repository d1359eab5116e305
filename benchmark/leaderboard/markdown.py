"""Markdown that every table here is made of."""

from __future__ import annotations

from collections.abc import Iterable


def markdown_row(cells: Iterable[str]) -> str:
    """Return a line of a table; a bar would end its cell, even inside backticks, and is escaped."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
