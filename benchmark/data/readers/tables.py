"""Reads a user's table of texts, and reports everything unused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from benchmark.data.readers.cells import SPLITS, Cells, is_number, read_cells
from benchmark.data.readers.column import FEW, LONGEST_NAME, MOST_WORDS, Column, Roles, is_class, is_nli, mostly, plain
from benchmark.data.readers.labels import BINARY, Take, TwoLabels, ordered, turned_order
from benchmark.data.readers.roles import Decision
from zoo.encoder import NLI_LABELS
from zoo.errors import CorruptError, UsageError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal[
    "texts", "labelled texts", "pairs", "triples", "scored pairs", "judged pairs", "binary pairs", "labelled pairs"
]

# Labels as the hub numbers them; annotators without a majority.
_NUMERIC_LABELS = dict(zip(("0", "1", "2"), NLI_LABELS, strict=True))
_UNLABELLED = ("", "-", "-1")
_NO_NUMBER = ("nan", "none", "null", "na", "n/a")


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


def read(path: Any, columns: str | None = None, *, take: Take = "all") -> Table:
    """Read a table (see `cells`). Rows without a text, a score or a label are left out, and the report counts them.

    Args:
        path: The table.
        columns: Texts in their order, a score, a label: names of the header or numbers from 1, comma-separated.
            LABEL=WORD makes a label 1; a minus before a score's name makes large values mean unlike.
        take: The consumer's demand: no scores and labels; numbers as scores, grades, or two labels; the last column as
            a label; "measured": the demand of `choose`.

    Raises:
        CorruptError: A line cannot be read.
        UsageError: A column is absent, or roles or labels are in doubt.
    """
    import pandas as pd

    cells = read_cells(path, ("train", *SPLITS) if take in ("all", "texts") else SPLITS)
    cells = cells.unfold(_unfolding(cells, columns, take))
    if cells.names is None and (_is_header(cells) or (columns and _names(cells, columns))):
        cells.names, cells.rows, cells.lines = cells.rows[0], cells.rows[1:], cells.lines[1:]
    width = max(map(len, [cells.names or [], *cells.rows]))
    names = [name.strip() for name in cells.names or []] or [str(number) for number in range(1, width + 1)]
    if not names and not cells.nested:
        raise CorruptError(f"{path} is empty.")
    stated, positive = _split_names(names, columns) if columns else ([], "")
    turned = bool(stated) and stated[-1].startswith("-") and stated[-1] not in names
    stated = [*stated[:-1], stated[-1][1:]] if turned else stated
    decision = Decision(cells.path, _columns(cells, names), take)
    decision.chosen = [decision.columns[place] for place in _chosen(cells, names, stated)] if columns else None
    roles = decision.roles()
    used = [*roles.texts, *roles.negatives, *([] if roles.value is None else [roles.value])]
    _check_fields(cells, max(column.place for column in used))
    two = TwoLabels("judged" if take == "measured" and roles.judged else take, positive, used)
    values, kind, note = _values(cells, roles, two)
    if "score" in values and not stated:
        values, order = ordered(cells, used, values, kind)
        note += order
    if turned:
        values, note = values | {"score": turned_order(cells, values, kind)}, f"{note}, turned"
    if two.take == "judged" and kind in ("binary pairs", "scored pairs"):
        kind = "judged pairs"
    frame = pd.DataFrame(values, index=pd.Index(cells.lines, name="line"))
    if "negative" in frame:
        frame = frame.explode("negative").fillna({"negative": ""})
    complete = frame[frame.notna().all(axis=1) & (frame != "").all(axis=1)]
    kept = _agreeing(complete, kind)
    report = f"{cells.path.name}: {'columns' if cells.names else 'no header, columns'}: "
    report += f"{', '.join(column.name for column in used)}; {len(kept):,} {kind}{note}"
    for count, what in ((len(frame) - len(complete), "an empty field or no label"), (len(complete) - len(kept),
                        "several labels of one text")):  # fmt: skip
        report += f"; {count:,} with {what} left out" if count else ""
    unused = (roles.unused or {}) | dict.fromkeys(cells.others, "another split")
    report += f"; not used: {', '.join(unused)}" if unused else ""
    return Table(kept, kind, report + _languages(decision.columns), unused)


def _agreeing(frame: pd.DataFrame, kind: Kind) -> pd.DataFrame:
    """Drop texts or pairs of another label elsewhere, so that no order decides."""
    if kind not in ("labelled texts", "binary pairs"):
        return frame
    *texts, label = map(str, frame.columns)
    return frame[frame.groupby(texts)[label].transform("nunique") == 1]


def _unfolding(cells: Cells, columns: str | None, take: Take) -> list[str]:
    if columns:
        typed = [name.strip() for name in columns.split(",")]
        return [name for name in cells.nested if name in typed or plain(name) in map(plain, typed)]
    header = [Column(0, name, [" "], is_list=True) for name in cells.nested]
    known = [column.name for column in header if column.states_text]
    if not cells.rows or not cells.rows[0]:
        known = known or [*cells.nested]
    beside = known and cells.beside(known)
    looks = {name: _listed(0, name, cells, is_list=False) for name in beside or cells.nested}
    values = [
        name for name, column in looks.items() if column.look not in ("text", "aside") and (beside or column.value)
    ]
    return [name for name in cells.nested if name in (*known, *values)]


def _listed(place: int, name: str, cells: Cells, *, is_list: bool) -> Column:
    return Column(place, name, [str(value) for values in cells.nested[name] for value in values], is_list=is_list)


def _columns(cells: Cells, names: list[str]) -> list[Column]:
    named = cells.names is not None
    columns = [Column(place, name, cells.column(place), named, was_list=name in cells.unfolded) for place, name in
               enumerate(names)]  # fmt: skip
    return columns + [_listed(len(names), name, cells, is_list=True) for name in cells.nested]


def _languages(columns: Sequence[Column]) -> str:
    counts = Counter(cell for column in columns if column.looks[1] == "languages" for cell in column.cells if cell)
    if len(counts) < 2:
        return ""
    each = ", ".join(f"{language} {count:,}" for language, count in counts.most_common(5))
    return f"; several languages ({each}) are scored together, where mteb scores each: give a table of each"


def _is_header(cells: Cells) -> bool:
    """True if the first row names columns: short, no value, and a known name or unlike the columns below it.

    Unlike: below are values, or all names are single words and no cell is. Words above numbers alone are names.
    """
    first = [cell.strip() for cell in cells.rows[0]] if cells.rows else []
    below = Cells(cells.path, cells.rows[1:], cells.lines[1:], separated=cells.separated)
    columns = [below.column(number) for number in range(len(first))]
    if any(_above_numbers(cell, column) for cell, column in zip(first, columns, strict=True)):
        return True
    if not any(first) or any(
        is_number(cell) or is_nli(cell) or len(cell) > LONGEST_NAME or len(cell.split()) > MOST_WORDS for cell in first
    ):
        return False
    valued = any(mostly(column, is_number) or mostly(column, is_nli) for column in columns)
    named = len(first) > 1 and all(len(name.split()) == 1 for name in first)
    unlike = len(below.rows) > 1 and all(len(cell.split()) > 1 for column in columns for cell in column)
    known = any(column.value or column.states_text for column in (Column(0, name, ["a b"]) for name in first))
    return known or valued or (named and unlike) or _above_classes(first, columns)


def _above_numbers(cell: str, column: list[str]) -> bool:
    filled = [number for number in column if number]
    words = not is_number(cell) and any(map(str.isalpha, cell)) and cell.lower() not in _NO_NUMBER
    return words and len(filled) >= FEW and all(map(is_number, filled))


def _above_classes(first: Sequence[str], columns: Sequence[list[str]]) -> bool:
    classes = [len(column) >= FEW and is_class(column) for column in columns]
    unlike = [cell not in column for cell, column, of in zip(first, columns, classes, strict=True) if of]
    texts = [(cell, column) for cell, column, of in zip(first, columns, classes, strict=True) if not of and column]
    short = all(len(cell) < sorted(map(len, column))[len(column) // 2] for cell, column in texts)
    return bool(unlike) and all(unlike) and bool(texts) and short


def _names(cells: Cells, columns: str) -> bool:
    first = [cell.strip() for cell in cells.rows[0]] if cells.rows else []
    return set(_split_names(first, columns)[0]) <= set(first)


def _split_names(names: Sequence[str], columns: str) -> tuple[list[str], str]:
    typed = [column.strip() for column in columns.split(",")]
    before, _, label = typed[-1].rpartition("=")
    if typed[-1] not in names and before.strip():
        return [*typed[:-1], before.strip()], label.strip()
    return typed, ""


def _chosen(cells: Cells, names: list[str], columns: list[str]) -> list[int]:
    places = []
    for column in map(str.strip, columns):
        fits = [place for place, name in enumerate(names) if column == name]
        fits += [place for place, name in enumerate(names) if plain(column) == plain(name)]
        if not fits and column.isdecimal() and 1 <= int(column) <= len(names):
            fits = [int(column) - 1]
        if not fits:
            why = "holds lists, not texts" if column in cells.nested else "is not there"
            hint = did_you_mean(column, names)
            raise UsageError(f"{cells.path}: the column {column!r} {why}.{hint} There are: {', '.join(names)}.")
        places.append(fits[0])
    return places


def _check_fields(cells: Cells, last: int) -> None:
    """Raise CorruptError with the line of a short row, or a field beyond the header."""
    width = len(cells.names) if cells.names is not None else None
    for line, row in zip(cells.lines, cells.rows, strict=True):
        if len(row) <= last or (width is not None and any(map(str.strip, row[width:]))):
            wanted, by = width or last + 1, f", separated by {cells.separated}" if cells.separated else ""
            raise CorruptError(f"{cells.path}:{line}: {len(row)} fields instead of {wanted}{by}.")


def _values(cells: Cells, roles: Roles, two: TwoLabels) -> tuple[dict[str, list[Any]], Kind, str]:
    sides = ["first", "second"] if two.take != "texts" else [str(place) for place in range(len(roles.texts))]
    values: dict[str, list[Any]] = {side: column.cells for side, column in zip(sides, roles.texts, strict=False)}
    if roles.negatives:
        several = zip(*(column.cells for column in roles.negatives), strict=True)
        return values | {"negative": [[*filter(None, texts)] for texts in several]}, "triples", ""
    if roles.value is None:
        return values, "pairs" if "second" in values else "texts", ""
    column, labels = roles.value, [cell.lower() for cell in roles.value.cells]
    if "second" not in values:
        unlabelled = ("-1",) if cells.typed and {*labels} >= {"-1", "0", "1"} else ()
        return values | {"label": ["" if label in unlabelled else label for label in labels]}, "labelled texts", ""
    kinds = {*labels} - {"", "-"}
    kinds = kinds if kinds == {"-1", "1"} else kinds - {*_UNLABELLED}
    kinds = kinds - {*_NO_NUMBER} if all(map(is_number, kinds - {*_NO_NUMBER})) else kinds
    inferred = kinds <= {*_NUMERIC_LABELS} and column.value in ("", "label") and two.take in ("all", "measured")
    nli = inferred and not two.positive and any(text.key == "premise" for text in roles.texts)
    if nli and two.take == "measured" and kinds == {"0", "1"}:
        raise two.question(cells.path, "0", "1")
    if kinds and not nli and (stated := two.values(cells.path, kinds)):
        alike = [kind for kind in sorted(kinds) if stated[kind] == 1]
        note = "" if kinds <= {*BINARY} else f" (alike: {', '.join(alike)})"
        return values | {"score": [stated.get(label) for label in labels]}, "binary pairs", note
    if two.take == "binary":
        raise UsageError(f"{cells.path}: its labels or scores have {len(kinds)} values; --kind binary takes two.")
    # Without a header, a score precedes its texts, and a label follows.
    before = not column.named and column.place < roles.texts[0].place and mostly(labels, is_number)
    is_score = two.take in ("scores", "judged") or (column.value in ("score", "grade") and not mostly(labels, is_nli))
    if is_score or before or (mostly(labels, is_number) and not kinds <= {*_NUMERIC_LABELS}):
        scores = [_score(cell, cells, line) for cell, line in zip(column.cells, cells.lines, strict=True)]
        return values | {"score": scores}, "scored pairs", ""
    label_values = [_label(label, cells, line) for label, line in zip(labels, cells.lines, strict=True)]
    note = f" (0, 1, 2: {', '.join(NLI_LABELS)})" if kinds & {*_NUMERIC_LABELS} else ""
    return values | {"label": label_values}, "labelled pairs", note


def _score(cell: str, cells: Cells, line: int) -> float | None:
    if not cell or cell.lower() in _NO_NUMBER:
        return None
    if is_number(cell):
        return float(cell)
    raise CorruptError(f"{cells.path}:{line}: {cell!r:.80} is not a score.")


def _label(cell: str, cells: Cells, line: int) -> str:
    if cell in _UNLABELLED:
        return ""
    if cell in _NUMERIC_LABELS or cell in NLI_LABELS:
        return _NUMERIC_LABELS.get(cell, cell)
    raise CorruptError(
        f"{cells.path}:{line}: {cell!r:.80} is none of the labels {', '.join(NLI_LABELS)}; grades are numbers."
    )
