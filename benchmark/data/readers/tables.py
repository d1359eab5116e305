"""Reads a user's table of texts: by its shape, or as the user says; any other table is a question."""

from __future__ import annotations

from typing import Any

from benchmark.data.readers.cells import SPLITS, Cells, cell, is_number, once, plain_numbers, read_cells
from benchmark.data.readers.frames import Table, built
from benchmark.data.readers.question import question
from benchmark.data.readers.roles import Question, Roles, Wanted, by_kind, by_names, by_places, stated, typed_names
from benchmark.data.readers.shapes import EMPTY, listed
from zoo.encoder import NLI_LABELS
from zoo.errors import CorruptError, UsageError


def read(
    source: Any, columns: str | None = None, kind: Wanted | None = None, *, training: bool = False, corpus: bool = False
) -> Table:
    """Read a table (see `cells`). Rows without a text, a score or a label are left out, and the report counts them.

    Args:
        source: The table.
        columns: Texts in their order, a score, a label: names of the header or numbers from 1, comma-separated.
            LABEL=WORD makes a label 1 and others 0; a minus before a score's name makes large values mean unlike.
        kind: What the user says that the table is.
        training: Of several splits, `train` is read first.
        corpus: The texts alone are wanted.

    Raises:
        CorruptError: A line cannot be read.
        UsageError: A column is absent; as a `Question`, its shape is not listed.
    """
    try:
        return _read(source, columns, kind, training=training, corpus=corpus)
    except Question as asked:
        raise (asked.of("--columns") if training or corpus else asked) from None


def _read(source: Any, columns: str | None, kind: Wanted | None, *, training: bool, corpus: bool) -> Table:
    cells = read_cells(source, ("train", *SPLITS) if training or corpus else SPLITS)
    if cells.frame.empty:
        raise CorruptError(f"{cells.path} is empty.")
    if {"annotations", "data"} <= {*cells.frame}:
        raise UsageError(f"{cells.path} is Label Studio's full export; export it there as CSV or JSON-MIN.")
    cells, note = _headed(cells, columns)
    typed = None if columns is None else typed_names(columns, [*map(str, cells.frame)])
    frame = cells.texts(typed)
    if typed is not None:
        roles: Roles | None = stated(frame, cells.path, typed, kind, corpus=corpus)
    else:
        find = by_names if cells.header else by_places
        # Copies of rows change no reading.
        distinct = frame.drop_duplicates()
        roles = find(distinct, kind) or (by_kind(distinct, cells.path, kind) if kind else None)
        if roles is not None and corpus:
            roles = Roles("texts", [*roles.texts, *roles.negatives])
    if roles is None:
        _check_fields(cells, -1)
        raise question(cells, frame.drop_duplicates(), kind, corpus=corpus)
    _check_fields(cells, max([*frame].index(name) for name in roles.used))
    return built(cells, frame, roles, note)


def _headed(cells: Cells, columns: str | None) -> tuple[Cells, str]:
    """Take the first row of a text file as its header if it has a listed name, or one that the user typed.

    A title may stand above it: lines with a single cell. Where the user numbers columns, a word stands above numbers.
    """
    if cells.header:
        return cells, ""
    typed = [] if columns is None else typed_names(columns, [])
    rows = cells.frame.head(6).map(cell)
    for place, (line, row) in enumerate(rows.iterrows()):
        names = [*row]
        named = any(name in names and not name.isdecimal() for name in typed)
        words = not any(is_number(name) or name.lower() in NLI_LABELS for name in names)
        if (
            (words and listed(names) > (place > 0))
            or named
            or (place == 0 and typed and _above_numbers(cells, typed[-1]))
        ):
            width = int(cells.frame.iloc[place].notna().sum())
            frame = cells.frame.iloc[place + 1 :].set_axis(once(names), axis=1)
            note = f", header in line {line}" if place else ""
            return Cells(cells.path, frame, separated=cells.separated, width=width), note
        if (row != "").sum() > 1:
            break
    widths = cells.frame.notna().sum(axis=1)
    usual = int(widths.mode().max())
    wrong = widths.index[widths != usual]
    if cells.separated and len(wrong) and usual > 1 and not widths.between(7, 9).all():
        raise _fields(cells, wrong[0], int(widths[wrong[0]]), usual)
    return cells, ""


def _above_numbers(cells: Cells, place: str) -> bool:
    if not place.isdecimal() or not 1 <= int(place) <= cells.frame.shape[1]:
        return False
    first, *rest = plain_numbers([*cells.frame.iloc[:, int(place) - 1].map(cell)])
    return not is_number(first) and first.lower() not in EMPTY and all(is_number(text) or not text for text in rest)


def _check_fields(cells: Cells, last: int) -> None:
    """Raise CorruptError with the line of a row without a used field, or with one beyond the header."""
    if cells.separated:
        widths = cells.frame.notna().sum(axis=1)
        beyond = (cells.frame.iloc[:, cells.width :].map(cell) != "").any(axis=1) if cells.width else widths < 0
        wrong = widths.index[(widths <= last) | beyond]
        if len(wrong):
            raise _fields(cells, wrong[0], int(widths[wrong[0]]), cells.width or last + 1)


def _fields(cells: Cells, line: int, count: int, wanted: int) -> CorruptError:
    return CorruptError(f"{cells.path}:{line}: {count} fields instead of {wanted}, separated by {cells.separated}.")
