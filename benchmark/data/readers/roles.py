"""The roles of a table's columns: by the listed shapes, or as the user says; else a question with its answers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmark.data.readers.cells import is_number, plain_numbers
from benchmark.data.readers.shapes import (
    ASIDE,
    CLASS,
    EMPTY,
    LABEL,
    NEGATIVE,
    NLI,
    PLACES,
    SCORE,
    SHAPES,
    VALUES,
    WORDS,
    Form,
    Kind,
    plain,
)
from zoo.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

# What a user says that a table is.
Wanted = Literal["score", "binary", "retrieval", "label"]
_FORMS: dict[str, Form] = {"score": "number", "binary": "binary", "retrieval": "number", "label": "class"}
_KINDS: dict[Form, Kind] = {"number": "scored pairs", "binary": "binary pairs", "nli": "labelled pairs",
                            "class": "labelled texts", "": "pairs"}  # fmt: skip


@dataclass(frozen=True)
class Roles:
    """The columns that are used: texts in order, negatives, and a value of a form."""

    kind: Kind
    texts: list[Any]
    value: Any = None
    form: Form = ""
    negatives: Sequence[Any] = ()
    # The word of a label that says that two texts are alike; whether a large score says that they are not.
    alike: str = ""
    turned: bool = False

    @property
    def used(self) -> list[Any]:
        return [*self.texts, *self.negatives, *([] if self.value is None else [self.value])]


@dataclass(frozen=True)
class Reading:
    """An answer as it is typed, and the first row as it would be read."""

    columns: str
    kind: Wanted | None
    row: str


class Question(UsageError):
    """A table that is asked about. `readings` are its answers, the likeliest first."""

    def __init__(self, about: str, readings: Sequence[Reading], options: tuple[str, str] = ("--columns", "--kind")):
        super().__init__(about)
        self.about, self.readings, self.options = about, readings, options

    def answer(self, reading: Reading) -> list[str]:
        """Return the words that a command takes for a reading."""
        kind = [self.options[1], reading.kind] if self.options[1] and reading.kind else []
        return [self.options[0], reading.columns, *kind]

    def of(self, columns: str, kind: str = "") -> Question:
        """Return the question as a command asks it whose options have these names."""
        return Question(self.about, self.readings, (columns, kind))

    def __str__(self) -> str:
        lines = [f"{number}. {shlex.join(self.answer(reading))}  ({reading.row})" for number, reading in
                 enumerate(self.readings, 1)]  # fmt: skip
        return "\n  ".join([self.about, *lines])


def by_names(frame: pd.DataFrame, kind: Wanted | None) -> Roles | None:
    """Return the roles by the listed shape that uses the most columns; a kind that the user says decides the form."""
    names: dict[str, Any] = {}
    for name in frame:
        names.setdefault(plain(name), name)
    fits: list[Roles] = []
    for shape in SHAPES:
        negatives = [given for name, given in names.items() if re.sub(r"\d+$", "", name) in shape.negative.split()]
        value = next((names[name] for name in shape.value.split() if name in names), None)
        if bool(shape.negative) != bool(negatives) or bool(shape.value) != (value is not None):
            continue
        for texts in shape.texts(names):
            roles = Roles(shape.kind, texts, value, shape.form, negatives)
            rest = [name for name in frame if name not in roles.used and not is_aside(frame, name)]
            fit = value is None or fits_form(frame[value], shape.form, value)
            if fit and not rest and len({*roles.used}) == len(roles.used):
                fits.append(roles)
    return max((roles for roles in fits if _said(roles, kind)), key=lambda roles: len(roles.used), default=None)


def by_kind(frame: pd.DataFrame, path: Path, kind: Wanted) -> Roles | None:
    """Return the roles where the user says the kind: listed texts, and the only other column as the value."""
    names: dict[str, Any] = {plain(name): name for name in frame}
    for shape in SHAPES:
        for texts in shape.texts(names):
            rest = [name for name in frame if name not in texts and not is_aside(frame, name)]
            if len(rest) == 1 and len(texts) == (1 if kind == "label" else 2):
                return stated(frame, path, [*map(str, texts), str(rest[0])], kind)
    return None


def _said(roles: Roles, kind: Wanted | None) -> bool:
    if kind == "retrieval":
        return roles.kind in ("pairs", "triples", "judged pairs")
    return kind is None or _KINDS[_FORMS[kind]] == roles.kind


def is_aside(frame: pd.DataFrame, name: Any) -> bool:
    constant = len(frame) > 1 and frame[name].nunique() == 1 and plain(name) not in VALUES
    return plain(name) in ASIDE or plain(name) == "" or constant


def by_places(frame: pd.DataFrame, kind: Wanted | None) -> Roles | None:
    """Return the roles by the forms of the columns of a file without header."""
    width = frame.shape[1]
    for _, of_shape, places in PLACES:
        forms = places.split()
        fits = len(forms) == (7 if 7 <= width <= 9 else width)
        if not fits or not all(fits_form(frame[i], form) for i, form in enumerate(forms)):
            continue
        texts = [i for i, form in enumerate(forms) if form == "text"]
        value = next((i for i, form in enumerate(forms) if form in ("number", "binary", "nli")), None)
        form: Form = "" if value is None else forms[value]  # type: ignore[assignment]
        if value is None and (is_short_row(frame) or (len(texts) > 1 and any(is_class(frame[i]) for i in texts))):
            return None
        roles = Roles(of_shape, texts[:2], value, form, texts[2:])
        return roles if _said(roles, kind) else None
    return None


def is_short_row(frame: pd.DataFrame) -> bool:
    """True if the first row may be a header: single words, above cells of several words."""
    return not any(" " in text for text in frame.iloc[0]) and bool((frame.map(lambda text: " " in text)).any().all())


def is_class(cells: pd.Series[Any]) -> bool:
    return 3 * cells.nunique() <= len(cells) and bool(cells.str.len().max() <= 40)


def kinds_of(cells: pd.Series[Any]) -> set[str]:
    """Return the different values in small letters, without empty ones; equal numbers are one."""
    return {*plain_numbers([*{text.lower() for text in cells.unique()}])} - EMPTY


def fits_form(cells: pd.Series[Any], form: str, name: object = "") -> bool:
    """True if the cells have the form of a value or a text, whatever they say."""
    if form in ("*", "class"):
        return form == "*" or bool(kinds_of(cells))
    if form == "text":
        return any(text and not is_number(text) and text.lower() not in NLI for text in cells.unique())
    if form == "id":
        return all(" " not in text for text in cells) and any(map(str.isdigit, "".join(cells)))
    kinds = kinds_of(cells)
    numeric = all(map(is_number, kinds))
    if form == "binary":
        return bool(kinds) and any(kinds <= {*words} for words in WORDS)
    if form == "nli":
        words = not numeric or (kinds - {"-1"} == {*"012"} and plain(name) not in SCORE.split())
        return bool(kinds) and words and kinds <= {*NLI, "-1"}
    # A label of two or three numbers may be of any order.
    grades = plain(name) not in LABEL.split() or len(kinds) > 3 or any("." in kind for kind in kinds)
    return bool(kinds) and numeric and grades


def typed_names(columns: str, names: Sequence[str]) -> list[str]:
    """Return the typed names, with =WORD and - as typed where they are no part of a name."""
    return [name.strip() for name in columns.split(",")] if columns not in names else [columns]


def stated(
    frame: pd.DataFrame, path: Path, typed: Sequence[str], kind: Wanted | None, *, corpus: bool = False
) -> Roles:
    """Return the roles that the user names: texts first, a value last. Raises UsageError for what does not fit."""
    *texts, last = typed
    names, alike = [*frame], ""
    if last not in map(str, names) and "=" in last:
        last, _, alike = (part.strip() for part in last.rpartition("="))
    turned = last.startswith("-") and last not in map(str, names)
    used = [_column(path, names, name) for name in (*texts, last[1:] if turned else last)]
    if corpus:
        return Roles("texts", used)
    *texts, last = used
    value = frame[last]
    form: Form = _FORMS.get(kind or "", "")
    negative = re.sub(r"\d+$", "", plain(last)) in NEGATIVE.split()
    if kind is None and not negative and texts:
        forms: list[Form] = ["binary", "nli", "number"]
        form = next((f for f in forms if fits_form(value, f)), "class" if plain(last) in CLASS.split() else "")
    if kind == "retrieval" and not alike:
        third = len(texts) > 1 and not negative
        form = next((f for f in ("number", "binary") if third and fits_form(value, f)), "")
    if alike and kind in (None, "binary", "retrieval"):
        form = "binary"
    if form == "class" or (kind == "label" and len(used) == 2):
        if len(texts) != 1:
            raise UsageError(f"{path}: --columns TEXT,LABEL is a text and its label, not {len(used)} columns.")
        return Roles("labelled texts", texts, last, "class")
    if not form:
        if turned:
            raise UsageError(f"{path}: a minus turns a score or 0 and 1; {last} has texts.")
        if len(texts) > 1 and is_class(value) and not negative:
            raise UsageError(f"{path}: {grades_in_words(texts, last, kinds_of(value))}")
        return Roles("triples" if len(used) > 2 else "pairs" if texts else "texts", used[:2], negatives=used[2:])
    if len(texts) != 2:
        raise UsageError(f"{path}: {len(texts)} text beside {last}; name two texts and their score or label.")
    if form == "binary" and not alike:
        alike = _alike(path, texts, last, kinds_of(value))
    if alike and alike.lower() not in kinds_of(value):
        raise UsageError(f"{path}: no label is {alike!r}; there are: {', '.join(sorted(kinds_of(value)))}.")
    shape: Kind = "judged pairs" if kind == "retrieval" else _KINDS[form]
    return Roles(shape, texts, last, form, alike=alike, turned=turned)


def _column(path: Any, names: Sequence[Any], typed: str) -> Any:
    fits = [name for name in names if str(name) == typed and not isinstance(name, int)]
    fits += [name for name in names if plain(name) == plain(typed) and not isinstance(name, int)]
    if not fits and typed.isdecimal() and 1 <= int(typed) <= len(names):
        fits = [names[int(typed) - 1]]
    if not fits:
        shown = [str(name + 1) if isinstance(name, int) else str(name) for name in names]
        raise UsageError(
            f"{path}: the column {typed!r} is not there.{did_you_mean(typed, shown)} There are: {', '.join(shown)}."
        )
    return fits[0]


def _alike(path: Path, texts: Sequence[Any], last: Any, kinds: set[str]) -> str:
    """Return the label that says "alike": by the listed words, or the larger number."""
    for yes, no in WORDS:
        if kinds <= {yes, no}:
            return yes if yes in kinds else ""
    if len(kinds) == 2 and all(map(is_number, kinds)):
        return max(kinds, key=float)
    if len(kinds) == 2:
        raise _which_word(path, [*texts, last], alike_first(kinds))
    raise UsageError(f"{path}: its labels or scores have {len(kinds)} values; --kind binary takes two, or {last}=WORD.")


def grades_in_words(texts: Sequence[Any], last: Any, kinds: Collection[str]) -> str:
    typed = ",".join(map(str, (*texts, last)))
    return (
        f"{last} has grades in words ({', '.join(sorted(kinds)[:8])}): write numbers in their order instead, or name"
        f" the word that says alike: --columns '{typed}=WORD' --kind binary."
    )


def alike_first(words: Collection[str]) -> list[str]:
    """Return the likelier word for "alike" first: a denial is longer."""
    return sorted(sorted(words, reverse=True), key=len)


def _which_word(path: Path, columns: Sequence[Any], words: Sequence[str]) -> Question:
    typed = ",".join(map(str, columns))
    readings = [Reading(f"{typed}={word}", "binary", f"{word} says alike") for word in words]
    return Question(f"{path}: its labels are {' and '.join(words)}; which says that two texts are alike?", readings)
