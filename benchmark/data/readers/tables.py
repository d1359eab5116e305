"""Reads a user's table of texts and finds what each column is.

A column's role comes from its name in the header; without a known name, from what it holds: numbers are scores, the
words or numbers of natural language inference are labels, anything else is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmark.data.readers.cells import Cells, is_number, read_cells
from zoo.encoder import NLI_LABELS
from zoo.errors import CorruptError, UsageError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal[
    "texts", "labelled texts", "pairs", "triples", "scored pairs", "judged pairs", "binary pairs", "labelled pairs"
]

_GRADES = "relevance rel qrel qrels relevancejudgment relevancejudgement judgment judgement grade grades judged"

_NAMES = {  # role -> names of columns, without case and signs; the first that is there counts
    "first": "premise anchor query question first source text sentence sentences content review tweet utterance",
    "second": "hypothesis positive pos document doc passage answer second target paraphrase response context text",
    "negative": "hardneg hardnegative negative neg",
    "score": "score scores similarity sim similarityscore relatedness relatednessscore gold gs rating meanscore",
    "label": f"{_GRADES} label labels goldlabel class category topic intent isduplicate duplicate isparaphrase"
    " entailmentjudgment",
}
_TEXTS = ("first", "second", "negative")
_STEMS = ("sentence", "sent", "text", "question", "s", "word", "phrase", "query", "string", "document")
_NUMBERED = (("0", "1"), ("1", "2"), ("a", "b"))  # sent0 and sent1, question1 and question2 ...
_NUMERIC_LABELS = dict(zip(("0", "1", "2"), NLI_LABELS, strict=True))  # as the Hugging Face hub numbers them
_UNLABELLED = ("", "-", "-1")  # the annotators had no majority
_BINARY = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0}
_LONGEST_NAME, _MOST_WORDS = 40, 3  # of a column or a class; what is longer is a text


@dataclass(frozen=True)
class Table:
    """Rows of a file: columns first, second, negative (text), score (float), label (text); the index is the line."""

    frame: pd.DataFrame
    kind: Kind
    report: str  # the columns and the number of rows, for the user

    def texts(self) -> Iterator[str]:
        """Yield the texts of each row, each on one line."""
        sides = self.frame[[role for role in _TEXTS if role in self.frame]]
        return (" ".join(text.split()) for row in sides.itertuples(index=False) for text in row)


def read(path: Path, columns: str | None = None, *, take: Literal["all", "texts", "scores", "judged"] = "all") -> Table:
    """Read csv, tsv, jsonl or parquet; `columns` names those to take: texts in their order, a score, a label.

    A column is named by its header or its number from 1; names are separated by commas. `take` says that scores and
    labels are not needed, or that numbers are scores even where they look like labels. Rows that lack a text, a score
    or a label are left out, and the report counts them. Raises CorruptError with the line of what cannot be read, and
    UsageError for a column that is not there.
    """
    import pandas as pd

    cells = read_cells(path)
    if cells.names is None and (_is_header(cells) or (columns and _names(cells, columns))):
        cells.names, cells.rows, cells.lines = cells.rows[0], cells.rows[1:], cells.lines[1:]
    width = max(map(len, [cells.names or [], *cells.rows]))
    names = [name.strip() for name in cells.names or []] or [str(number) for number in range(1, width + 1)]
    if not names:
        raise CorruptError(f"{path} is empty.")
    chosen = _chosen(cells, names, columns.split(",")) if columns else None
    roles = _roles(cells, names, chosen)
    if take == "texts":
        roles = {role: place for role, place in roles.items() if role in _TEXTS}
    elif take in ("scores", "judged") and "label" in roles:
        roles["score"] = roles.pop("label")
    _check_fields(cells, max(roles.values()))
    values, kind, note = _values(cells, roles, nli="premise" in map(_plain, names))
    if kind in ("binary pairs", "scored pairs"):
        named = _plain(names[roles.get("score", roles.get("label", 0))]) in _GRADES.split()
        kind = "judged pairs" if take == "judged" or (take == "all" and named) else kind
    frame = pd.DataFrame(values, index=pd.Index(cells.lines, name="line"))
    whole = frame.notna().all(axis=1) & (frame != "").all(axis=1)
    left = int((~whole).sum())
    report = f"{path.name}: {'columns' if cells.names else 'no header, columns'}: "
    report += f"{', '.join(names[number] for number in roles.values())}; {len(frame) - left:,} {kind}{note}"
    return Table(frame[whole], kind, report + (f"; {left:,} with an empty field or no label left out" if left else ""))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _mostly(cells: list[str], kind: Callable[[str], bool]) -> bool:
    """Return whether at least half of the cells that are not empty are of a kind; the others are then errors."""
    filled = [cell for cell in cells if cell]
    return bool(filled) and 2 * sum(map(kind, filled)) >= len(filled)


def _is_nli(cell: str) -> bool:
    return cell.lower() in NLI_LABELS


def _is_header(cells: Cells) -> bool:
    """Return whether the first row names columns: short, no value, and a known name or unlike the columns below it.

    One of those has values, or no cell of them is a single word, and all of the first row are.
    """
    first = [cell.strip() for cell in cells.rows[0]] if cells.rows else []
    if not any(first) or any(
        is_number(cell) or _is_nli(cell) or len(cell) > _LONGEST_NAME or len(cell.split()) > _MOST_WORDS
        for cell in first
    ):
        return False
    below = Cells(cells.path, cells.rows[1:], cells.lines[1:])
    columns = [below.column(number) for number in range(len(first))]
    valued = any(_mostly(column, is_number) or _mostly(column, _is_nli) for column in columns)
    named = len(first) > 1 and all(len(name.split()) == 1 for name in first)
    unlike = len(below.rows) > 1 and all(len(cell.split()) > 1 for column in columns for cell in column)
    return bool(_by_name(first)) or valued or (named and unlike)


def _names(cells: Cells, columns: str) -> bool:
    """Return whether the first row has every name that a user typed, so that it is a header."""
    typed = {column.strip() for column in columns.split(",")}
    return bool(cells.rows) and typed <= {cell.strip() for cell in cells.rows[0]}


def _by_name(names: Sequence[str]) -> dict[str, int]:
    """Return the place of each role that a name states."""
    plain = [_plain(name) for name in names]
    numbered = (
        {"first": plain.index(stem + one), "second": plain.index(stem + other)}
        for stem in _STEMS
        for one, other in _NUMBERED
        if stem + one in plain and stem + other in plain
    )
    found: dict[str, int] = next(numbered, {})
    for role, known in _NAMES.items():
        place = next((plain.index(name) for name in known.split() if name in plain), None)
        if role not in found and place is not None and place not in found.values():
            found[role] = place
    return found


def _chosen(cells: Cells, names: list[str], columns: list[str]) -> list[int]:
    """Return the places of the columns that a user named."""
    found = []
    for column in map(str.strip, columns):
        fits = [place for place, name in enumerate(names) if column == name]
        fits += [place for place, name in enumerate(names) if _plain(column) == _plain(name)]
        if not fits and column.isdecimal() and 1 <= int(column) <= len(names):
            fits = [int(column) - 1]
        if not fits:
            why = "holds lists, not texts" if column in cells.nested else "is not there"
            hint = did_you_mean(column, names)
            raise UsageError(f"{cells.path}: the column {column!r} {why}.{hint} There are: {', '.join(names)}.")
        found.append(fits[0])
    return found


def _roles(cells: Cells, names: list[str], chosen: list[int] | None) -> dict[str, int]:
    """Return the column of each role that is there; raises CorruptError if the columns do not say their roles."""
    places = range(len(names)) if chosen is None else chosen
    known = {role: places[at] for role, at in _by_name([names[place] for place in places]).items()}
    if chosen is not None:  # the order of texts is the caller's
        known = {role: place for role, place in known.items() if role not in _TEXTS}
    left = [place for place in places if place not in known.values() and any(cells.column(place))]
    numeric = [place for place in left if _mostly(cells.column(place), is_number)]
    labels = [place for place in left if _mostly(cells.column(place), _is_nli)]
    texts = [place for place in left if place not in (*numeric, *labels)]
    value = known.get("score", known.get("label"))
    if value is None and ("first" not in known or "second" in known):
        values = labels or [n for n in numeric if chosen or not _counts(cells.column(n), names[n])]
        value = values[0] if len(values) == 1 else None
    if "first" in known:
        texts = [known[role] for role in _TEXTS if role in known]
    elif cells.names is None and chosen is None and value is not None and value >= 2:
        texts = [place for place in texts if place < value]  # what follows the value is something else
    elif value is None and len(texts) == 2:
        value = next((place for place in texts if _is_class(cells.column(place))), None)
        texts = [place for place in texts if place != value]
    if not 1 <= len(texts) <= (2 if value is not None and "negative" not in known else 3):
        lists = [f"; {name} holds lists, not texts" for name in cells.nested]
        raise CorruptError(
            f"{cells.path}: its columns ({', '.join(names)}{''.join(lists)}) do not show which are texts, score or"
            f" label; name them: --columns TEXT,TEXT,SCORE."
        )
    roles = dict(zip(_TEXTS, texts, strict=False))
    if value is not None:
        first = len(texts) == 2 and value in numeric and value < texts[0]  # a score precedes its texts, a label follows
        roles["score" if first or known.get("score") == value else "label"] = value
    return roles


def _counts(column: list[str], name: str) -> bool:
    """Return whether a column numbers the rows, by its name or its cells."""
    numbers = [int(cell) for cell in column if cell.isdecimal()]
    in_order = len(numbers) == len(column) > 2 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return in_order or _plain(name) in ("", "id", "idx", "index", "row", "pairid")


def _is_class(column: list[str]) -> bool:
    """Return whether few short names come again and again, as those of classes do."""
    distinct = set(column)
    return 3 * len(distinct) <= len(column) and all(len(cell.split()) <= _MOST_WORDS for cell in distinct)


def _check_fields(cells: Cells, last: int) -> None:
    """Raise CorruptError with the line of a row that lacks a used column, or has a field beyond the header."""
    width = len(cells.names) if cells.names is not None else None
    for line, row in zip(cells.lines, cells.rows, strict=True):
        if len(row) <= last or (width is not None and any(map(str.strip, row[width:]))):
            wanted, by = width or last + 1, f", separated by {cells.separated}" if cells.separated else ""
            raise CorruptError(f"{cells.path}:{line}: {len(row)} fields instead of {wanted}{by}.")


def _values(cells: Cells, roles: dict[str, int], *, nli: bool) -> tuple[dict[str, list[Any]], Kind, str]:
    """Return the columns by role, the kind of the table, and a note for the user."""
    columns = {role: cells.column(place) for role, place in roles.items()}
    values: dict[str, list[Any]] = {role: columns[role] for role in _TEXTS if role in columns}
    if "negative" in values:
        return values, "triples", ""
    if "second" not in values:
        labels = columns.get("label", columns.get("score"))
        return (values, "texts", "") if labels is None else (values | {"label": labels}, "labelled texts", "")
    kinds = {cell.lower() for cell in (*columns.get("score", ()), *columns.get("label", ()))} - {*_UNLABELLED}
    if "score" not in columns and "label" not in columns:
        return values, "pairs", ""
    if kinds and kinds <= {*_BINARY} and not nli:
        column = columns.get("score", columns.get("label", []))
        return values | {"score": [_BINARY.get(cell.lower()) for cell in column]}, "binary pairs", ""
    if "score" in columns or (_mostly(columns["label"], is_number) and not kinds <= {*_NUMERIC_LABELS}):
        column = columns.get("score", columns.get("label", []))
        scores = [_score(cell, cells, line) for cell, line in zip(column, cells.lines, strict=True)]
        return values | {"score": scores}, "scored pairs", ""
    found = [_label(cell.lower(), cells, line) for cell, line in zip(columns["label"], cells.lines, strict=True)]
    note = f" (0, 1, 2: {', '.join(NLI_LABELS)})" if kinds & {*_NUMERIC_LABELS} else ""
    return values | {"label": found}, "labelled pairs", note


def _score(cell: str, cells: Cells, line: int) -> float | None:
    if not cell or is_number(cell):
        return float(cell) if cell else None
    raise CorruptError(f"{cells.path}:{line}: {cell!r:.80} is not a score.")


def _label(cell: str, cells: Cells, line: int) -> str:
    if cell in _UNLABELLED:
        return ""
    if cell in _NUMERIC_LABELS or cell in NLI_LABELS:
        return _NUMERIC_LABELS.get(cell, cell)
    raise CorruptError(f"{cells.path}:{line}: {cell!r:.80} is none of the labels {', '.join(NLI_LABELS)}.")
