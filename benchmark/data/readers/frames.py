"""The frame of a table's texts and values, and its report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmark.data.readers.cells import Cells, is_number, plain_numbers
from benchmark.data.readers.roles import Roles, is_aside, kinds_of
from benchmark.data.readers.shapes import EMPTY, NLI, WORDS, Kind, plain
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
