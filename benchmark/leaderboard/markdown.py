"""Markdown cells and rows for all tables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zoo.progress import without_orders

# A target with a scheme other than the web's, also in character references, and a definition of a link.
_OTHER_LINK = re.compile(r"\](\((?=\s*(?!https?://)[^)]*[:&])|:)")


def markdown_text(text: str) -> str:
    """Return a text on one line, without raw HTML (outside code spans, where < is safe) or terminal control codes.

    A link stays one only if it leads to a page of the web or to a file beside the table; no table has pictures.
    """
    text = _OTHER_LINK.sub(r"]\\\1", without_orders(" ".join(text.splitlines()))).replace("![", "!\\[")
    made, at = [], 0
    while at < len(text):
        part = text[at]
        if part == "\\":
            part = text[at : at + 2]  # the escaped character has no special meaning
        elif part == "`":
            part = _code_span(text, at)
        # Unclosed backticks would form a code span with backticks of the next cell; no tag begins with a blank.
        escaped = (part == "<" and text[at + 1 : at + 2] != " ") or set(part) == {"`"}
        made.append("".join(f"\\{sign}" for sign in part) if escaped else part)
        at += len(part)
    return "".join(made)


def _code_span(text: str, start: int) -> str:
    """Return the code span that begins at `start`, or only its backticks if nothing closes it."""
    ticks = re.match("`+", text[start:])
    assert ticks is not None
    end = re.search(f"(?<!`){ticks[0]}(?!`)", text[start + len(ticks[0]) :])
    return ticks[0] if end is None else text[start : start + len(ticks[0]) + end.end()]


def markdown_row(cells: Iterable[str]) -> str:
    """Return a line of a table; bars are escaped, because a bar would end its cell even inside backticks."""
    return "| " + " | ".join(markdown_text(cell).replace("|", "\\|") for cell in cells) + " |"
