"""Reads a user's table of texts: by its shape, or as the user says; any other table is a question."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmark.data.readers.cells import SPLITS, Cells, cell, is_number, once, plain_numbers, read_cells
from benchmark.data.readers.roles import (
    Question,
    Roles,
    Wanted,
    by_kind,
    by_names,
    by_places,
    is_aside,
    kinds_of,
    stated,
    typed_names,
)
from benchmark.data.readers.shapes import EMPTY, NLI, WORDS, Kind, listed, plain
from zoo.encoder import NLI_LABELS
from zoo.errors import CorruptError, UsageError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Table:
    """A frame of first, second, negative (texts), score (float), label (text); the index is the line."""

    frame: pd.DataFrame
    kind: Kind
    report: str
    unused: dict[str, str] = field(default_factory=dict)

    def texts(self) -> Iterator[str]:
        sides = self.frame.drop(columns=["score", "label"], errors="ignore")
        return (" ".join(text.split()) for row in sides.itertuples(index=False) for text in row)


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
    except Question as question:
        raise (question.of("--columns") if training or corpus else question) from None


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
        roles = find(frame, kind) or (by_kind(frame, cells.path, kind) if kind else None)
        if roles is not None and corpus:
            roles = Roles("texts", [*roles.texts, *roles.negatives])
    if roles is None:
        from benchmark.data.readers.question import question

        _check_fields(cells, -1)
        raise question(cells, frame, kind, corpus=corpus)
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


def built(cells: Cells, frame: pd.DataFrame, roles: Roles, note: str = "") -> Table:
    """Return the chosen columns as a table; raises UsageError if most rows are empty, CorruptError for a wrong cell."""
    import pandas as pd

    sides = [str(i) for i in range(len(roles.texts))] if roles.kind == "texts" else ["first", "second"]
    values: dict[str, Any] = {side: frame[name].tolist() for side, name in zip(sides, roles.texts, strict=False)}
    if roles.kind == "texts" and len(roles.texts) == 1:
        values = {"first": values["0"]}
    if roles.negatives:
        several = zip(*(frame[name] for name in roles.negatives), strict=True)
        values["negative"] = [[*filter(None, texts)] for texts in several]
    if roles.value is not None:
        of_label = roles.form in ("nli", "class")
        values["label" if of_label else "score"] = _values(cells, frame, roles)
    table = pd.DataFrame(values, index=pd.Index(frame.index, name="line"))
    table = table.explode("negative").fillna({"negative": ""}) if roles.negatives else table
    complete = table[table.notna().all(axis=1) & (table != "").all(axis=1)]
    if 2 * len(complete) < len(table):
        raise UsageError(
            f"{cells.path}: {len(table) - len(complete):,} of {len(table):,} rows have an empty field. Of merged cells"
            " only the first is filled: fill those below, or drop the rows."
        )
    kept = _agreeing(complete, roles.kind)
    named = [str(name + 1) if isinstance(name, int) else str(name) for name in roles.used]
    report = f"{cells.path.name}: {'columns' if cells.header else 'no header, columns'}: {', '.join(named)}{note}"
    report += f"; {len(kept):,} {roles.kind}" + (f" (alike: {roles.alike})" if roles.alike not in ("", "1") else "")
    kinds = kinds_of(frame[roles.value]) if roles.form == "nli" else set()
    report += f" (0, 1, 2: {', '.join(NLI_LABELS)})" if kinds & {*"012"} else ""
    report += ", turned" if roles.turned else ""
    for count, what in ((len(table) - len(complete), "an empty field or no label"), (len(complete) - len(kept),
                        "several labels of one text")):  # fmt: skip
        report += f"; {count:,} with {what} left out" if count else ""
    rest = [name for name in frame if name not in roles.used]
    unused = {str(name + 1) if isinstance(name, int) else str(name): "constant" if frame[name].nunique() < 2 else
              "listed" if is_aside(frame, name) else "not named" for name in rest}  # fmt: skip
    unused |= dict.fromkeys(cells.others, "another split")
    report += f"; not used: {', '.join(unused)}" if unused else ""
    return Table(kept, roles.kind, report + _languages(frame, rest), unused)


def _values(cells: Cells, frame: pd.DataFrame, roles: Roles) -> list[Any]:
    given = plain_numbers([text.lower() for text in frame[roles.value]])
    if roles.form == "class":
        return given
    if roles.form == "nli":
        return [NLI.get(text, "") for text in given]
    if roles.form == "binary":
        yes = roles.alike.lower() or next((a for a, b in WORDS if {*given} - EMPTY <= {a, b}), "1")
        scores = [None if text in EMPTY else float((text == yes) != roles.turned) for text in given]
        return scores
    wrong = next((place for place, text in enumerate(given) if text not in EMPTY and not is_number(text)), None)
    if wrong is not None:
        line, text = frame.index[wrong], frame[roles.value].iloc[wrong]
        raise CorruptError(f"{cells.path}:{line}: {text!r:.80} is not a score.")
    numbers = [None if text in EMPTY else float(text) for text in given]
    most = max((value for value in numbers if value is not None), default=0.0)
    return [None if value is None else most - value for value in numbers] if roles.turned else numbers


def _agreeing(frame: pd.DataFrame, kind: Kind) -> pd.DataFrame:
    """Drop texts or pairs of another label elsewhere, so that no order decides."""
    if kind not in ("labelled texts", "binary pairs"):
        return frame
    *texts, label = map(str, frame.columns)
    return frame[frame.groupby(texts)[label].transform("nunique") == 1]


def _languages(frame: pd.DataFrame, rest: Sequence[Any]) -> str:
    names = [name for name in rest if re.fullmatch("lang(uages?)?", plain(name))]
    counts = Counter(text for name in names for text in frame[name] if text)
    if len(counts) < 2:
        return ""
    each = ", ".join(f"{language} {count:,}" for language, count in counts.most_common(5))
    return f"; several languages ({each}) are scored together, where mteb scores each: give a table of each"
