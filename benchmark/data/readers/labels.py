"""Reads two labels as 1 and 0: which of them says that two texts are alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmark.data.readers.cells import Cells, is_number
from zoo.encoder import NLI_LABELS
from zoo.errors import UsageError

_YES = "yes true y t ja j oui si sí duplicate dup equal same similar related match matched positive pos relevant good"
_YES += " paraphrase equivalent exact correct wahr vrai entailment"
_NO = "no false n f nein non different unequal distinct unique negative neg mismatch bad wrong falsch faux none other"
_NO += " irrelevant"
_DENIAL = ("not", "non", "no", "un", "dis", "in", "ir", "mis", "nicht", "pas", "kein")
# Names of columns, without signs, whose large values say that two texts differ.
_UNLIKE = re.compile(
    r"dists?|.*(distance|dissimil|differ|unlike|unrelat|mismatch|distinct|abstand|distanz|unähn).*"
    r"|(is)?(not|non)(dup|same|equal|equiv|para|sim|match|relat).*"
)
BINARY = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0}

Take = Literal["all", "texts", "scores", "judged", "binary", "labels", "measured"]


@dataclass(frozen=True)
class TwoLabels:
    """How two labels are read: for whom, which of them is 1 as the user said, and the names for a question."""

    take: Take
    positive: str
    names: list[str]

    def values(self, cells: Cells, roles: dict[str, int], kinds: set[str]) -> dict[str, float] | None:
        """Return the value of each label; None where they are no two labels. Raises UsageError in doubt."""
        numbers = all(map(is_number, kinds))
        if self.positive:
            if self.positive.lower() not in kinds:
                raise UsageError(f"{cells.path}: no label is {self.positive!r}; there are: {', '.join(sorted(kinds))}.")
            return {kind: float(kind == self.positive.lower()) for kind in kinds}
        if kinds <= {*BINARY}:
            return BINARY
        if len(kinds) != 2 or kinds <= {*NLI_LABELS} or self.take == "scores" or (
            numbers and self.take not in ("measured", "binary")
        ):  # fmt: skip
            return None
        ordered = sorted(kinds, key=float) if numbers else sorted(sorted(kinds), key=_affirms)
        if numbers or _affirms(ordered[0]) < _affirms(ordered[1]):
            return {ordered[0]: 0.0, ordered[1]: 1.0}
        short, long = sorted(kinds, key=len)
        if long.endswith(short) and re.sub(r"[\W_]", "", long.removesuffix(short)) in _DENIAL:
            return {long: 0.0, short: 1.0}
        places = [roles[role] for role in ("first", "second", "score", "label") if role in roles]
        asked = ",".join(self.names[place] for place in places)
        raise UsageError(
            f"{cells.path}: its labels are {ordered[0]} and {ordered[1]}; which of them says that two texts are alike?"
            f" --columns '{asked}={ordered[0]}' or --columns '{asked}={ordered[1]}'."
        )


def _affirms(word: str) -> int:
    return (word in _YES.split()) - (word in _NO.split())


def ask_order(cells: Cells, names: list[str], places: list[int]) -> None:
    """Raise UsageError, with the commands that answer, where a score's name says that large values mean unlike.

    `places` are the columns of the texts and of the score.
    """
    *texts, name = (names[place] for place in places)
    if cells.names is None or not _UNLIKE.fullmatch(re.sub(r"[\W_]+", "", name.lower())):
        return
    sides = ",".join(texts)
    raise UsageError(
        f"{cells.path}: does a large {name} say that two texts differ? If so: --columns '{sides},-{name}';"
        f" if it says that they are alike: --columns '{sides},{name}'."
    )


def turned_order(cells: Cells, values: Mapping[str, list[float | None]], kind: str) -> list[float | None]:
    """Return the scores in the opposite order; of binary pairs, 0 and 1 exchanged."""
    if kind not in ("scored pairs", "binary pairs"):
        raise UsageError(f"{cells.path}: a minus turns a score or 0 and 1; the table has {kind}.")
    above = 1.0 if kind == "binary pairs" else 0.0
    return [None if score is None else above - score for score in values["score"]]
