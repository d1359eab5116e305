"""Markdown cells and rows for all tables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zoo.progress import without_orders

_TAG = re.compile(r"`[^`]*`|<(?! )")  # no tag begins with a blank, and none is inside a code span


def markdown_text(text: str) -> str:
    """Return a text on one line, without terminal control codes; what looks like a tag of HTML is shown as it is."""
    line = without_orders(" ".join(text.splitlines()))
    return _TAG.sub(lambda found: "\\<" if found[0] == "<" else found[0], line)


def markdown_row(cells: Iterable[str]) -> str:
    """Return a line of a table; bars are escaped, because a bar would end its cell even inside backticks."""
    return "| " + " | ".join(markdown_text(cell).replace("|", "\\|") for cell in cells) + " |"
