"""Tables and sentences on a terminal: no line exceeds its width, no word is broken."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

_GAP = "  "
_NAME = 12  # letters of a name that stay while there is any other column to leave out
_PARTS = (0.4, 0.3, 0.2)  # of the width, for names: they give way before a column is left out
_LEAST = 4  # letters of a name that stay in any case
_ROOM = 24  # letters of a line of the last column, if it stands beside the others
_BELOW = 4  # blanks before it, if it stands below them


@dataclass(frozen=True)
class Field:
    """A column of a printed table, and its behaviour on a narrow terminal.

    Args:
        head: The heading.
        cells: A text for each row.
        right: Right-align the column.
        priority: Higher numbers are left out first, of equal numbers the last column; 0: never left out.
        short: The cells for a narrow table; None: the same.
        name: The cells are names, to be shortened in the middle.
        prose: The cells may be broken at blanks; for the last column alone.
        optional: Left out before names are shortened.
    """

    head: str
    cells: Sequence[str]
    right: bool = True
    priority: int = 0
    short: Sequence[str] | None = None
    name: bool = False
    prose: bool = False
    optional: bool = False

    @property
    def width(self) -> int:
        return max(len(self.head), *map(len, self.cells), 0)


def width_of(stream: TextIO) -> int | None:
    """Return the columns of a stream's terminal; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() or "COLUMNS" in os.environ else None


def fitted(fields: Sequence[Field], width: int | None, *, rule: bool = True) -> tuple[list[str], list[str]]:
    """Return the lines of a table within `width` (None: unlimited), and the omitted headings.

    Args:
        fields: The columns in their order, of equally many cells.
        width: The columns of the terminal.
        rule: Whether a line stands below the headings.

    Examples:
        >>> fitted([Field("Row", ["simcse"], right=False), Field("ms", ["7"], priority=1)], 8, rule=False)
        (['Row', 'simcse'], ['ms'])
    """
    kept = [*fields]
    if width is not None and _width(kept) > width:
        kept = _dropped(kept, width, lambda field: field.priority * field.optional)
        for part in _PARTS if _width(wide := kept) > width else ():
            kept = [_narrow(field, max(_NAME, int(width * part)), width * 3 // 5) for field in wide]
            if _width(kept) <= width:
                break
        kept = _dropped(kept, width, lambda field: field.priority)
        if (over := _width(kept) - width) > 0:
            kept = [_narrow(field, max(_LEAST, field.width - over)) for field in kept]
    shown = {field.head for field in kept}
    return _lines(kept, width, rule), [field.head for field in fields if field.head not in shown]


def _dropped(fields: list[Field], width: int, rank: Callable[[Field], int]) -> list[Field]:
    """Leave out fields until the others fit, those of the highest rank first, of equal ones the last; 0 stays."""
    kept = [*fields]
    while _width(kept) > width and any(map(rank, kept)):
        # `max` takes the first of equal ones.
        kept.remove(max(reversed(kept), key=rank))
    return kept


def _width(fields: Sequence[Field]) -> int:
    shown = [field.width for field in fields if not field.prose]
    return sum(shown) + len(_GAP) * (len(shown) - 1)


def _narrow(field: Field, letters: int, most: int = 0) -> Field:
    """Names get so many letters, or up to `most` to stay distinct."""
    if not field.name:
        return field if field.short is None else replace(field, cells=field.short)
    tried = ([shortened(cell, count) for cell in field.cells] for count in range(letters, most))
    distinct = (cells for cells in tried if len({*cells}) == len({*field.cells}))
    return replace(field, cells=next(distinct, [shortened(cell, letters) for cell in field.cells]))


def shortened(name: str, letters: int) -> str:
    """Return a name of at most so many letters, without its middle.

    Examples:
        >>> shortened("promptbert-sup-roberta", 12)
        'promptbe…rta'
    """
    start = letters * 2 // 3
    return name if len(name) <= letters else f"{name[:start]}…{name[len(name) - (letters - 1 - start) :]}"


def _lines(fields: Sequence[Field], width: int | None, rule: bool) -> list[str]:
    widths = [0 if field.prose else field.width for field in fields]
    lines: list[str] = []
    for row in zip(*([field.head, *field.cells] for field in fields), strict=True):
        cells = zip(fields, row, widths, strict=True)
        padded = [text.rjust(wide) if field.right else text.ljust(wide) for field, text, wide in cells]
        if fields[-1].prose:
            indent = sum(widths) + len(_GAP) * (len(row) - 1)
            # Without room beside the others, the text stands below them.
            indent = indent if width is None or width - indent >= _ROOM else _BELOW
            lines += hanging(_GAP.join([*padded[:-1], ""]), row[-1], indent, width)
        else:
            lines.append(_GAP.join(padded).rstrip())
    return [lines[0], "─" * max(map(len, lines)), *lines[1:]] if rule else lines


def hanging(label: str, text: str, indent: int, width: int | None) -> list[str]:
    """A label longer than the indent stands above its text."""
    if len(label.rstrip()) > indent - len(_GAP) and indent:
        return [label.rstrip(), *wrapped(text, width, " " * indent, " " * indent)]
    return wrapped(text, width, label.ljust(indent), " " * indent) if text else [label.rstrip()]


def wrapped(text: str, width: int | None, first: str = "", others: str = "") -> list[str]:
    """Lines begin with `first` and `others`; a longer word has a line to itself."""
    room = max(_ROOM, (10**9 if width is None else width) - len(others)) + len(others)
    return textwrap.wrap(
        text, room, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )


def folded(lines: Iterable[str], width: int | None) -> list[str]:
    """Return lines of prose broken at blanks; a continuation is indented like its line.

    Examples:
        >>> folded(["  simcse differs from avg-last", ""], 24)
        ['  simcse differs from', '  avg-last', '']
    """
    parts: list[str] = []
    for line in lines:
        edge = " " * (len(line) - len(line.lstrip()))
        parts += [line] if width is None or len(line) <= width else wrapped(line.lstrip(), width, edge, edge)
    return parts
