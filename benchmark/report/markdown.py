"""Markdown safe for texts from records: none becomes HTML or a link."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from zoo.progress import clean_line

# Read from left to right, as CommonMark does: a backslash with what it escapes, a run of backticks, and what would be a
# tag (none begins with a blank), a picture or a link that is not of the web.
_MARKS = re.compile(r"\\.?|`+|<(?! )|!\[|\]\((?!\s*https?://)")
# What would be a list, a heading, a quotation, a block of code or the definition of a link, if a line begins so.
_BLOCK = re.compile(r"\A(\d*)(?=(?<=\d)[.)](?:\s|$)|(?<!\d)(?:[-+*=_#>~]|```|\[.*\]:))")


def markdown_text(text: str) -> str:
    """Return a single line without control codes; tags, pictures and other links appear as text."""
    return _BLOCK.sub(r"\1\\", _inline(text))


def _inline(text: str) -> str:
    line = clean_line(text)
    runs = [match.span() for match in re.finditer("`+", line)]
    # By length, the last first: whether a run of backticks has another one that closes it.
    ends: dict[int, list[int]] = {}
    for start, end in reversed(runs):
        ends.setdefault(end - start, []).append(end)
    parts, place = [], 0
    while (match := _MARKS.search(line, place)) is not None:
        mark = match[0]
        parts.append(line[place : match.start()])
        place = match.end()
        if mark[0] == "`":
            closing = ends.get(len(mark), [])
            while closing and closing[-1] <= place:
                closing.pop()
            if closing:
                mark, place = line[match.start() : closing[-1]], closing[-1]
            # What nothing closes here, a later line of the paragraph could.
            parts.append(mark if closing else "\\`" * len(mark))
        elif mark[0] == "\\":
            # A backslash stays one: it does not escape what gets one of its own.
            parts.append(f"\\\\\\{mark[1]}" if mark[1:] == "<" else f"\\{mark}" if mark[1:] == "|" else mark)
        else:
            parts.append(f"{mark[:-1]}\\{mark[-1]}")
    return "".join([*parts, line[place:]])


def code_span(text: str) -> str:
    """Quote with more backticks than the text's longest run."""
    line = clean_line(text)
    ticks = _fence(line, 1)
    edge = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{edge}{line}{edge}{ticks}"


def code_block(lines: Iterable[str]) -> list[str]:
    """Quote with more backticks than the lines' longest run."""
    lines = list(lines)
    fence = _fence("\n".join(lines), 3)
    return [fence, *lines, fence]


def _fence(text: str, least: int) -> str:
    return "`" * max([least, *(len(run) + 1 for run in re.findall("`+", text))])


def markdown_row(cells: Iterable[str]) -> str:
    """Bars are escaped, because they end a cell even inside backticks."""
    return "| " + " | ".join(_inline(cell).replace("|", "\\|") for cell in cells) + " |"


def markdown_table(heads: Sequence[str], lines: Iterable[Iterable[str]], numbers: Sequence[bool] = ()) -> list[str]:
    """Columns of `numbers` are right-aligned."""
    sides = ["--:" if number else ":--" for number in numbers] or [":--"] * len(heads)
    return [markdown_row(heads), f"|{'|'.join(sides)}|", *map(markdown_row, lines)]
