"""Markdown cells and rows for all tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from zoo.progress import without_orders

# Code spans, where no sign has a meaning; tags (none begins with a blank), pictures, links with a scheme but the web's.
_MARKS = re.compile(r"`[^`]*`|<(?! )|!\[|\]\((?=\s*(?!https?://)[^)]*[:&])")


def markdown_text(text: str) -> str:
    """Return a text on one line, without terminal control codes; tags, pictures and other links are shown as text."""
    line = without_orders(" ".join(text.splitlines()))
    return _MARKS.sub(lambda found: found[0] if found[0][0] == "`" else f"{found[0][:-1]}\\{found[0][-1]}", line)


def markdown_row(cells: Iterable[str]) -> str:
    """Return a line of a table; bars are escaped, because a bar would end its cell even inside backticks."""
    return "| " + " | ".join(markdown_text(cell).replace("|", "\\|") for cell in cells) + " |"


def markdown_table(heads: Sequence[str], lines: Iterable[Iterable[str]], numbers: Sequence[bool] = ()) -> list[str]:
    """Return the lines of a table; columns of `numbers` are right-aligned, the others left-aligned."""
    sides = ["--:" if number else ":--" for number in numbers] or [":--"] * len(heads)
    return [markdown_row(heads), f"|{'|'.join(sides)}|", *map(markdown_row, lines)]
