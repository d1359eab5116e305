"""Markdown cells, rows and code: what a text from a record cannot turn into HTML or a link."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from zoo.progress import without_orders

# Code spans, where no sign has a meaning; tags (none begins with a blank, and a backslash before one takes the next
# from it), pictures, links with a scheme but the web's, also those that are defined in a line of their own.
_MARKS = re.compile(
    r"(?<![`\\])(`+)(?!`).+?(?<!`)\1(?!`)|(\\*)<(?! )|!\[|\]\((?=\s*(?!https?://)[^)]*[:&])|^\[(?=[^]]*\]:)"
)


def markdown_text(text: str) -> str:
    """Return a text on one line, without terminal control codes; tags, pictures and other links are shown as text."""
    line = without_orders(" ".join(text.splitlines()))
    return _MARKS.sub(lambda match: match[0] if match[1] else f"{match[2] or ''}{match[0][:-1]}\\{match[0][-1]}", line)


def code_span(text: str) -> str:
    """Return a text as code within a line, between more backticks than it has in a row."""
    ticks = _fence(text, 1)
    edge = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{edge}{' '.join(text.splitlines())}{edge}{ticks}"


def code_block(lines: Iterable[str]) -> list[str]:
    """Return lines as a block of code, between more backticks than they have in a row."""
    lines = list(lines)
    fence = _fence("\n".join(lines), 3)
    return [fence, *lines, fence]


def _fence(text: str, least: int) -> str:
    return "`" * max([least, *(len(run) + 1 for run in re.findall("`+", text))])


def markdown_row(cells: Iterable[str]) -> str:
    """Return a line of a table; bars are escaped, because a bar would end its cell even inside backticks."""
    return "| " + " | ".join(markdown_text(cell).replace("|", "\\|") for cell in cells) + " |"


def markdown_table(heads: Sequence[str], lines: Iterable[Iterable[str]], numbers: Sequence[bool] = ()) -> list[str]:
    """Return the lines of a table; columns of `numbers` are right-aligned, the others left-aligned."""
    sides = ["--:" if number else ":--" for number in numbers] or [":--"] * len(heads)
    return [markdown_row(heads), f"|{'|'.join(sides)}|", *map(markdown_row, lines)]
