"""Reads a user's table of texts and finds what each column is.

A column's role comes from its name in the header; without a known name, from what it holds: numbers are scores, the
words or numbers of natural language inference are labels, anything else is text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from benchmark.data.readers.cells import Cells, is_number, read_cells
from benchmark.data.readers.labels import BINARY, Take, TwoLabels, ask_order, turned_order
from zoo.encoder import NLI_LABELS
from zoo.errors import CorruptError, UsageError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal[
    "texts", "labelled texts", "pairs", "triples", "scored pairs", "judged pairs", "binary pairs", "labelled pairs"
]

_GRADES = "relevance rel qrel qrels relevancejudgment relevancejudgement judgment judgement grade grades judged"

# The names of a role's columns, without case and signs; the first that is there counts.
_NAMES = {
    "first": "premise anchor query question first source text sentence sentences content review tweet utterance",
    "second": "hypothesis positive pos document doc passage answer second target paraphrase response context text"
    " positives positivepassages positivectxs documents passages answers paraphrases",
    "negative": "hardneg hardnegative hardnegatives hardnegativectxs negative neg negatives negativepassages",
    "score": "score scores similarity sim similarityscore relatedness relatednessscore gold gs rating meanscore",
    "label": f"{_GRADES} label labels goldlabel class category topic intent isduplicate duplicate isparaphrase"
    " entailmentjudgment",
}
_TEXTS = ("first", "second", "negative")
# Columns that are unfolded where they are lists.
_UNFOLDED = {"query", "question", "anchor", *_NAMES["second"].split(), *_NAMES["negative"].split()}
_STEMS = ("sentence", "sent", "text", "question", "s", "word", "phrase", "term", "query", "string", "document")
# Ends of sent0 and sent1, question1 and question2; labels as the hub numbers them; annotators without a majority.
_NUMBERED = (("0", "1"), ("1", "2"), ("a", "b"))
_NUMERIC_LABELS = dict(zip(("0", "1", "2"), NLI_LABELS, strict=True))
_UNLABELLED = ("", "-", "-1")
_ASKS = ("query", "question")
_ANSWERS = ("document", "doc", "passage", "answer")
_NO_NUMBER = ("nan", "none", "null", "na", "n/a")
# Fewer rows show nothing about what a column is; what is longer than a column's or a class's name is a text.
_FEW = 6
_LONGEST_NAME, _MOST_WORDS = 40, 3


@dataclass(frozen=True)
class Table:
    """Rows of a file: columns first, second, negative (text), score (float), label (text); the index is the line."""

    frame: pd.DataFrame
    kind: Kind
    report: str

    def texts(self) -> Iterator[str]:
        """Yield the texts of each row, each on one line."""
        sides = self.frame[[role for role in _TEXTS if role in self.frame]]
        return (" ".join(text.split()) for row in sides.itertuples(index=False) for text in row)


def read(path: Any, columns: str | None = None, *, take: Take = "all") -> Table:
    """Read a table (see `cells`); `columns` names those to take: texts in their order, a score, a label.

    A column is named by its header or its number from 1; names are separated by commas, and LABEL=WORD says which of
    two labels is 1. A minus before a score's name turns its order: large values then say that two texts differ. `take`
    is an order: that scores and labels are not needed, that numbers are scores, grades, or two labels even where they
    look otherwise, or that the last column is a label; "measured": what `choose` takes. Rows that lack a text, a score
    or a label are left out, and the report counts them. Raises CorruptError with the line of what cannot be read, and
    UsageError for a column that is not there and for labels in doubt.
    """
    import pandas as pd

    cells = read_cells(path)
    unfolding = set(map(_plain, columns.split(","))) if columns else _UNFOLDED
    cells = cells.unfolded([name for name in cells.nested if _plain(name) in unfolding])
    if cells.names is None and (_is_header(cells) or (columns and _names(cells, columns))):
        cells.names, cells.rows, cells.lines = cells.rows[0], cells.rows[1:], cells.lines[1:]
    width = max(map(len, [cells.names or [], *cells.rows]))
    names = [name.strip() for name in cells.names or []] or [str(number) for number in range(1, width + 1)]
    if not names:
        raise CorruptError(f"{path} is empty.")
    stated, positive = _split_names(names, columns) if columns else ([], "")
    turned = bool(stated) and stated[-1].startswith("-") and stated[-1] not in names
    stated = [*stated[:-1], stated[-1][1:]] if turned else stated
    chosen = _chosen(cells, names, stated) if columns else None
    roles = _roles(cells, names, chosen, take)
    graded = _plain(names[roles.get("score", roles.get("label", 0))]) in _GRADES.split()
    take = "judged" if take == "measured" and graded and "second" in roles else take
    if take == "texts":
        roles = {role: place for role, place in roles.items() if role in _TEXTS}
    elif take in ("scores", "judged") and "label" in roles:
        roles["score"] = roles.pop("label")
    _check_fields(cells, max(roles.values()))
    two = TwoLabels(take, positive, names)
    values, kind, note = _values(cells, roles, two, nli="premise" in map(_plain, names))
    if "score" in values and not stated and take != "all":
        ask_order(cells, names, [roles[role] for role in (*_TEXTS, "score", "label") if role in roles])
    if turned:
        values, note = values | {"score": turned_order(cells, values, kind)}, f"{note}, turned"
    if take == "judged" and kind in ("binary pairs", "scored pairs"):
        kind = "judged pairs"
    frame = pd.DataFrame(values, index=pd.Index(cells.lines, name="line"))
    complete = frame.notna().all(axis=1) & (frame != "").all(axis=1)
    empty = int((~complete).sum())
    report = f"{cells.path.name}: {'columns' if cells.names else 'no header, columns'}: "
    report += f"{', '.join(names[number] for number in roles.values())}; {len(frame) - empty:,} {kind}{note}"
    return Table(
        frame[complete], kind, report + (f"; {empty:,} with an empty field or no label left out" if empty else "")
    )


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

    One of those has values, or no cell of them is a single word, and all of the first row are. Words above numbers
    alone are names, however long.
    """
    first = [cell.strip() for cell in cells.rows[0]] if cells.rows else []
    below = Cells(cells.path, cells.rows[1:], cells.lines[1:], separated=cells.separated)
    columns = [below.column(number) for number in range(len(first))]
    if any(_above_numbers(cell, column) for cell, column in zip(first, columns, strict=True)):
        return True
    if not any(first) or any(
        is_number(cell) or _is_nli(cell) or len(cell) > _LONGEST_NAME or len(cell.split()) > _MOST_WORDS
        for cell in first
    ):
        return False
    valued = any(_mostly(column, is_number) or _mostly(column, _is_nli) for column in columns)
    named = len(first) > 1 and all(len(name.split()) == 1 for name in first)
    unlike = len(below.rows) > 1 and all(len(cell.split()) > 1 for column in columns for cell in column)
    return bool(_by_name(first)) or valued or (named and unlike) or _above_classes(first, columns)


def _above_numbers(cell: str, column: list[str]) -> bool:
    filled = [number for number in column if number]
    words = not is_number(cell) and any(map(str.isalpha, cell)) and cell.lower() not in _NO_NUMBER
    return words and len(filled) >= _FEW and all(map(is_number, filled))


def _above_classes(first: Sequence[str], columns: Sequence[list[str]]) -> bool:
    """Return whether a cell stands above a few names that come again and is none, and no other cell is a long text."""
    classes = [len(column) >= _FEW and _is_class(column) for column in columns]
    unlike = [cell not in column for cell, column, of in zip(first, columns, classes, strict=True) if of]
    texts = [(cell, column) for cell, column, of in zip(first, columns, classes, strict=True) if not of and column]
    short = all(len(cell) < sorted(map(len, column))[len(column) // 2] for cell, column in texts)
    return bool(unlike) and all(unlike) and bool(texts) and short


def _names(cells: Cells, columns: str) -> bool:
    """Return whether the first row has every name that a user typed, so that it is a header."""
    first = [cell.strip() for cell in cells.rows[0]] if cells.rows else []
    return set(_split_names(first, columns)[0]) <= set(first)


def _split_names(names: Sequence[str], columns: str) -> tuple[list[str], str]:
    """Return the names that a user typed, and the label after =, if the part before it is a column."""
    typed = [column.strip() for column in columns.split(",")]
    before, _, label = typed[-1].rpartition("=")
    if typed[-1] not in names and before.strip():
        return [*typed[:-1], before.strip()], label.strip()
    return typed, ""


def _by_name(names: Sequence[str]) -> dict[str, int]:
    """Return the place of each role that a name states."""
    plain = [_plain(name) for name in names]
    numbered = (
        {"first": plain.index(stem + one), "second": plain.index(stem + other)}
        for stem in _STEMS
        for one, other in _NUMBERED
        if stem + one in plain and stem + other in plain
    )
    places: dict[str, int] = next(numbered, {})
    for role, known in _NAMES.items():
        place = next((plain.index(name) for name in known.split() if name in plain), None)
        if role not in places and place is not None and place not in places.values():
            places[role] = place
    return places


def _chosen(cells: Cells, names: list[str], columns: list[str]) -> list[int]:
    """Return the places of the columns that a user named."""
    places = []
    for column in map(str.strip, columns):
        fits = [place for place, name in enumerate(names) if column == name]
        fits += [place for place, name in enumerate(names) if _plain(column) == _plain(name)]
        if not fits and column.isdecimal() and 1 <= int(column) <= len(names):
            fits = [int(column) - 1]
        if not fits:
            why = "holds lists, not texts" if column in cells.nested else "is not there"
            hint = did_you_mean(column, names)
            raise UsageError(f"{cells.path}: the column {column!r} {why}.{hint} There are: {', '.join(names)}.")
        places.append(fits[0])
    return places


def _roles(cells: Cells, names: list[str], chosen: list[int] | None, take: Take) -> dict[str, int]:
    """Return the column of each role that is there; raises CorruptError if the columns do not say their roles."""
    places = range(len(names)) if chosen is None else chosen
    columns = {place: cells.column(place) for place in places}
    known = {role: places[at] for role, at in _by_name([names[place] for place in places]).items()}
    if chosen is not None:
        known = {role: place for role, place in known.items() if role not in _TEXTS}
    elif "second" in known and take != "judged" and _stands_in_half(columns[known["second"]]):
        known.pop("second")
    if "first" in known and _plain(names[known["first"]]) == "source" and _is_class(columns[known["first"]]):
        known.pop("first")
    if "score" in known and _mostly(columns[known["score"]], _is_nli):
        known["label"] = known.pop("score")
    sides = sum(role in known for role in ("first", "second"))
    unnamed = [place for place in places if place not in known.values() and any(columns[place])]
    numeric = [place for place in unnamed if _mostly(columns[place], is_number)]
    labels = [place for place in unnamed if _mostly(columns[place], _is_nli)]
    texts = [place for place in unnamed if place not in (*numeric, *labels)]
    if take != "judged" or len(texts) + sides > 2:
        repeated = [place for place in texts if _stands_in_half(columns[place])]
        two = [place for place in repeated if len(set(columns[place]) - {""}) == 2] or repeated[-1:] * bool(chosen)
        if chosen and len(texts) > 2 and not two and _is_class(columns[texts[-1]]):
            two = texts[-1:]
        texts = [place for place in texts if place not in (two if chosen else repeated)] or texts * (not sides)
        labels = labels or [place for place in two if place not in texts]
    value = known.get("score", known.get("label"))
    if value is None and ("first" not in known or "second" in known or labels):
        value = _value(columns, names, labels, numeric, named=bool(chosen))
    others = [place for place in texts if place not in known.values()]
    if "first" in known and "second" not in known and len(others) == 1 and (value is None or value in labels):
        texts = [known["first"], *others] if take not in ("all", "texts", "scores") else [known["first"]]
    elif "first" in known:
        texts = [known[role] for role in _TEXTS if role in known]
    elif cells.names is None and chosen is None and value is not None and 2 <= value < max(texts, default=0):
        # what follows the value is something else
        before = [place for place in texts if place < value and not _is_class(columns[place])]
        texts = before if len(before) > 1 else texts
    if value is None and len(texts) == 2 and take != "judged" and "second" not in known:
        value = next((place for place in texts if _is_class(columns[place])), None)
        value = texts[-1] if take == "labels" and value is None else value
        texts = [place for place in texts if place != value]
    if len(texts) > 2 and chosen is None:
        texts = [place for place in texts if not _is_class(columns[place])] or texts
    if not 1 <= len(texts) <= (2 if value is not None and "negative" not in known else 3):
        inner = f" Texts inside {', '.join(cells.nested)} go into columns of their own." if cells.nested else ""
        raise CorruptError(
            f"{cells.path}: its columns ({', '.join(names)}) do not show which are texts, score or label; name them:"
            f" --columns TEXT,TEXT,SCORE.{inner}"
        )
    if take == "measured" and chosen is None:
        _ask(cells, names, columns, texts, [place for place in others if place not in texts], numeric, value)
    roles = dict(zip(_TEXTS, texts, strict=False))
    if value is not None:
        # A score precedes its texts, a label follows.
        first = len(texts) == 2 and value in numeric and value < texts[0]
        roles["score" if first or known.get("score") == value else "label"] = value
    return roles


def _ask(
    cells: Cells,
    names: list[str],
    columns: dict[int, list[str]],
    texts: list[int],
    others: list[int],
    numeric: list[int],
    value: int | None,
) -> None:
    """Raise UsageError, with the commands that answer, where columns of unknown names leave a table in doubt."""
    sides = [_plain(names[place]) for place in texts]
    search = len(sides) == 2 and sides[0] in _ASKS and sides[1] in _ANSWERS
    if search and value in numeric and len(set(columns[value]) - {""}) > 2:
        raise UsageError(
            f"{cells.path}: is {names[value]} a grade of relevance (--kind retrieval) or a similarity (--kind score)?"
        )
    # Others are ids.
    numbers = [place for place in numeric if 2 * len(set(columns[place])) <= len(columns[place])]
    lists = [name for name, column in cells.nested.items() if any(column)]
    if value is not None or (len(others) + 2 * len(lists) < 2 if len(texts) == 1 else search or len(numbers) < 2):
        return
    classes = [place for place in others if _is_class(columns[place])] if len(texts) == 1 else numbers
    plain = [names[place] for place in (*texts, *others) if place not in classes]
    choices = [[plain[0], name] for name in (*plain[1:], *lists)]
    choices += [[*plain, names[place]] for place in classes] if len(plain) == 1 or classes == numbers else []
    commands = " or ".join(f"--columns '{','.join(choice)}'" for choice in choices)
    raise UsageError(f"{cells.path}: what are its columns {', '.join([*names, *lists])}? Name them: {commands}.")


def _value(
    columns: dict[int, list[str]], names: list[str], labels: list[int], numeric: list[int], *, named: bool
) -> int | None:
    """Return the only column of labels or numbers; of several numbers, the only one from 0 to 5."""
    values = labels or [n for n in numeric if named or not _counts(columns[n], names[n])]
    if len(values) > 1 and not labels:
        values = [n for n in values if all(not c or (is_number(c) and 0 <= float(c) <= 5) for c in columns[n])]
    return values[0] if len(values) == 1 else None


def _stands_in_half(column: list[str]) -> bool:
    """Return whether one short text stands in half of all rows, or there are but two, so that it is no document."""
    counts = Counter(cell for cell in column if cell)
    if counts.total() < _FEW or any(len(cell) > _LONGEST_NAME for cell in counts):
        return False
    return 2 * counts.most_common(1)[0][1] >= counts.total()


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


def _values(
    cells: Cells, roles: dict[str, int], two: TwoLabels, *, nli: bool
) -> tuple[dict[str, list[Any]], Kind, str]:
    """Return the columns by role, the kind of the table, and a note for the user."""
    columns = {role: cells.column(place) for role, place in roles.items()}
    values: dict[str, list[Any]] = {role: columns[role] for role in _TEXTS if role in columns}
    if "negative" in values:
        return values, "triples", ""
    if "second" not in values:
        labels = columns.get("label", columns.get("score"))
        return (values, "texts", "") if labels is None else (values | {"label": labels}, "labelled texts", "")
    kinds = {cell.lower() for cell in (*columns.get("score", ()), *columns.get("label", ()))} - {"", "-"}
    kinds = kinds if kinds == {"-1", "1"} else kinds - {*_UNLABELLED}
    kinds = kinds - {*_NO_NUMBER} if all(map(is_number, kinds - {*_NO_NUMBER})) else kinds
    if "score" not in columns and "label" not in columns:
        return values, "pairs", ""
    if kinds and not nli and (stated := two.values(cells, roles, kinds)):
        column = columns.get("score", columns.get("label", []))
        alike = [kind for kind in sorted(kinds) if stated[kind] == 1]
        note = "" if kinds <= {*BINARY} else f" (alike: {', '.join(alike)})"
        return values | {"score": [stated.get(cell.lower()) for cell in column]}, "binary pairs", note
    if two.take == "binary":
        raise UsageError(f"{cells.path}: its labels or scores have {len(kinds)} values; --kind binary takes two.")
    if "score" in columns or (_mostly(columns["label"], is_number) and not kinds <= {*_NUMERIC_LABELS}):
        column = columns.get("score", columns.get("label", []))
        scores = [_score(cell, cells, line) for cell, line in zip(column, cells.lines, strict=True)]
        return values | {"score": scores}, "scored pairs", ""
    label_values = [_label(cell.lower(), cells, line) for cell, line in zip(columns["label"], cells.lines, strict=True)]
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
