"""What a table of no listed shape may be: at most three readings, the likeliest first, as commands that were tried."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.data.readers.cells import Cells, is_number, plain_numbers
from benchmark.data.readers.frames import Table, built
from benchmark.data.readers.roles import (
    Question,
    Reading,
    Wanted,
    alike_first,
    grades_in_words,
    is_aside,
    is_class,
    is_short_row,
    kinds_of,
    stated,
)
from benchmark.data.readers.shapes import (
    ANCHOR,
    ANSWERING,
    ASKING,
    CLASS,
    EMPTY,
    GRADE,
    LABEL,
    NEGATIVE,
    NLI,
    NUMBERED,
    SAME,
    SCORE,
    SHAPES,
    TEXT,
    plain,
)
from zoo.encoder import NLI_LABELS
from zoo.errors import CorruptError, UsageError, ZooError

if TYPE_CHECKING:
    import pandas as pd

_MOST, _SHOWN = 3, 28
_FIRST, _SECOND = f"{ANCHOR} {TEXT} sent0".split(), f"{ANSWERING} hypothesis sent1".split()
_VALUES = f"{GRADE} {SCORE} {LABEL} {SAME} {CLASS} clicks click rating ratings judgment judgement verdict".split()
_SPLITS = {"train", "training", "dev", "development", "valid", "validation", "test"}
_ROLES = {"retrieval": ("query", "document", "not relevant", "judged"), "score": ("first", "second", "", "score"),
          "binary": ("first", "second", "", "alike"), "label": ("text", "", "", "label")}  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Column:
    name: Any
    cells: pd.Series[Any]
    kinds: frozenset[str]
    look: str

    @property
    def plain(self) -> str:
        return "" if isinstance(self.name, int) else plain(self.name)

    @property
    def is_negative(self) -> bool:
        return re.sub(r"\d+$", "", self.plain) in NEGATIVE.split()

    @property
    def typed(self) -> str:
        return str(self.name + 1) if isinstance(self.name, int) else str(self.name)


def question(cells: Cells, frame: pd.DataFrame, kind: Wanted | None, *, corpus: bool = False) -> ZooError:
    """Return the question about a table, or the sentence on what it lacks where no reading fits."""
    if not cells.header and (is_short_row(frame) or _above_values(frame)):
        names = [text or str(place + 1) for place, text in enumerate(frame.iloc[0])]
        if len({*names}) == len(names):
            frame, cells = frame.iloc[1:].set_axis(names, axis=1), replace(cells, header=True)
    if wrong := _wrong_cell(cells.path, frame):
        return wrong
    columns = [_column(name, frame[name]) for name in frame if not is_aside(frame, name)]
    columns = [column for column in columns if column.look != "aside"]
    readings: list[Reading] = []
    for typed, of in _candidates(columns, corpus=corpus):
        if (kind is not None and of != kind) or len(readings) == _MOST:
            continue
        try:
            names = [name.strip() for name in typed.split(",")]
            table = built(cells, frame, stated(frame, cells.path, names, of, corpus=corpus))
        except ZooError:
            continue
        if len(table.frame) and typed not in [reading.columns for reading in readings if reading.kind == of]:
            readings.append(Reading(typed, of, _row(table, of, columns, names)))
    shown = ", ".join(str(name + 1) if isinstance(name, int) else str(name) or '""' for name in [*frame][:12])
    about = f"{cells.path}: its columns are of no listed shape: {shown} (zoo-bench data --schemas)."
    lack = _lack(frame, columns)
    if lack or not readings:
        lack = lack or "Give two texts and a value, a query and a document, or a text and a label."
        return UsageError(f"{about} {lack}")
    return Question(f"{about} Which is it?", readings)


def _wrong_cell(path: Path, frame: pd.DataFrame) -> CorruptError | None:
    """Return the line of a cell that is none of the scores or labels which most cells of its column are."""
    for name in frame:
        number = plain(name) in (*SCORE.split(), *GRADE.split())
        for fits, what in (
            (is_number, "is not a score"),
            (NLI_LABELS.__contains__, f"is none of {', '.join(NLI_LABELS)}"),
        ):
            given = [*enumerate(plain_numbers([text.lower() for text in frame[name]]))]
            right = {place: fits(text) for place, text in given if text not in EMPTY}
            wrong = [place for place, fit in right.items() if not fit]
            if 0 < 2 * len(wrong) <= len(right) and (number or fits is not is_number):
                line = frame.index[wrong[0]]
                return CorruptError(f"{path}:{line}: {frame[name].iloc[wrong[0]]!r:.80} {what}.")
    return None


def _column(name: Any, cells: pd.Series[Any]) -> _Column:
    kinds = frozenset(kinds_of(cells))
    many = len(kinds) == (cells != "").sum() > 2
    if not kinds or kinds <= _SPLITS or (many and all(" " not in kind and any(map(str.isdigit, kind)) for kind in kinds)
                                         and (not all(map(is_number, kinds)) or _counts(kinds))):  # fmt: skip
        look = "aside"
    elif all(map(is_number, kinds)):
        look = "number"
    elif kinds <= {*NLI}:
        look = "nli"
    else:
        look = "class" if is_class(cells) else "text"
    if look == "class" and plain(name) in (*_FIRST, *_SECOND, *NEGATIVE.split()):
        look = "text"
    return _Column(name, cells, kinds, look)


def _counts(kinds: frozenset[str]) -> bool:
    """True for numbers of rows: whole, and as close together as they are many."""
    numbers = [int(kind) for kind in kinds if kind.isdecimal()]
    return len(numbers) == len(kinds) and max(numbers) - min(numbers) < 2 * len(numbers)


def _above_values(frame: pd.DataFrame) -> bool:
    first = frame.iloc[0]
    words = [place for place, text in enumerate(first) if text and not is_number(text)]
    below = {place: frame.iloc[1:, place] for place in words}
    return len(frame) > 2 and any(
        all(map(is_number, kinds_of(cells))) or (is_class(cells) and first.iloc[place] not in {*cells})
        for place, cells in below.items()
    )


def _candidates(columns: Sequence[_Column], *, corpus: bool) -> Iterator[tuple[str, Wanted | None]]:
    """Yield answers, the likeliest first: those that use the most columns, of known roles, in their order."""
    texts = [column for column in columns if column.look == "text"]
    if not texts:
        texts = [column for column in columns if column.look == "class"][:2]
    values = [column for column in columns if column not in texts]
    if corpus:
        yield ",".join(column.typed for column in texts or values), None
        yield from ((column.typed, None) for column in (*texts, *values))
        return
    place = {column: number for number, column in enumerate(columns)}
    many = {column for column in values if column.look == "class" and len(column.kinds) > 2}
    values.sort(key=lambda c: (c.plain not in _VALUES, c in many, "0" not in c.kinds, -place[c]))
    side = _sides(texts)
    pairs = sorted(permutations(texts, 2), key=lambda pair: (
        side[pair[0]] - side[pair[1]] + any(column.is_negative for column in pair), place[pair[0]], place[pair[1]]
    ))  # fmt: skip
    if len(texts) > 2:
        for first, second in pairs:
            third = sorted((c for c in texts if c not in (first, second)), key=lambda c: (not c.is_negative, place[c]))
            if third[0].is_negative or not values:
                yield ",".join(c.typed for c in (first, second, third[0])), "retrieval"
    for first, second in pairs:
        asks = first.plain in ASKING.split() or second.plain in ANSWERING.split()
        if asks and all(value.look == "class" and value.plain not in _VALUES for value in values):
            yield f"{first.typed},{second.typed}", "retrieval"
        for value in values:
            typed = f"{first.typed},{second.typed},{value.typed}"
            for of in _orders(value, asks=asks):
                if of == "retrieval" or pairs.index((first, second)) < pairs.index((second, first)):
                    yield typed, of
            if value.look == "class" and len(value.kinds) == 2:
                yield from ((f"{typed}={word}", "binary") for word in alike_first(value.kinds)[:2])
        if not any(value.look != "class" for value in values):
            yield f"{first.typed},{second.typed}", "retrieval"
    for text in texts if len(texts) == 1 else texts[:2]:
        for value in [*values, *(c for c in texts if c is not text)]:
            if value.look in ("class", "nli") or len(value.kinds) <= len(value.cells) / 3 or len(texts) < 2:
                yield f"{text.typed},{value.typed}", "label"


def _sides(texts: Sequence[_Column]) -> dict[_Column, int]:
    """Return -1 for a text whose name says that it stands first, 1 for second, else 0."""
    names = {column.plain: column.plain for column in texts}
    numbered = [*next(shape for shape in SHAPES if shape.first == NUMBERED).texts(names)]
    first = {*_FIRST, *(a for a, _ in numbered)} | {name for name in names if name.endswith("1")}
    second = {*_SECOND, *(b for _, b in numbered)} | {name for name in names if name.endswith("2")}
    return {column: (column.plain in second) - (column.plain in first) for column in texts}


def _orders(value: _Column, *, asks: bool) -> Sequence[Wanted | None]:
    if value.look == "nli":
        return (None,)
    grade = asks or value.plain in (*GRADE.split(), "clicks", "click")
    usual: Wanted = "binary" if len(value.kinds) == 2 and not any("." in kind for kind in value.kinds) else "score"
    return ("retrieval", usual) if grade else (usual, "retrieval")


def _row(table: Table, kind: Wanted | None, columns: Sequence[_Column], typed: Sequence[str]) -> str:
    """Return the first row as it is read, and the columns in doubt that are not used."""
    first, second, negative, value = _ROLES.get(kind or "", ("text", "text", "text", "label"))
    names = {"first": first, "second": second, "negative": negative, "score": value, "label": value}
    row = table.frame.iloc[0]
    parts = []
    for side in map(str, table.frame):
        shown = f"{row[side]:g}" if side == "score" else " ".join(str(row[side]).split())
        shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 4]} ..."
        parts.append(f"{names.get(side, 'text')}: {shown}")
    rest = [column.typed for column in columns if column.typed not in [name.partition("=")[0] for name in typed]]
    return " | ".join(parts) + (f"; not used: {', '.join(rest)}" if rest else "")


def _lack(frame: pd.DataFrame, columns: Sequence[_Column]) -> str:
    """Return the sentence on a table that no command reads."""
    texts = [column for column in columns if column.look == "text"]
    for column in columns:
        words = column.look == "class" and 2 < len(column.kinds) <= 12
        named = {name.lower() for text in texts for name in (text.typed, text.typed[-1:])}
        if words and len(texts) > 2 and column.kinds <= named:
            return (
                f"{column.typed} says which of several texts is best: write a row for each, with query, document and"
                " relevance (1 for the best, 0)."
            )
        alone = not any(other.look in ("number", "nli", "class") for other in columns if other is not column)
        asks = all({text.plain for text in texts} & {*side.split()} for side in (ASKING, ANSWERING))
        beside = asks and column.plain not in f"{SCORE} {LABEL} {SAME} {GRADE}".split()
        if words and len(texts) == 2 and alone and not beside:
            return grades_in_words([text.typed for text in texts], column.typed, column.kinds)
    empty = [column.typed for column in columns if 2 * int((column.cells == "").sum()) > len(frame)]
    if empty and len(frame) > 2:
        return f"Most cells of {', '.join(empty)} are empty. Of merged cells the first alone is filled: fill all."
    return ""
