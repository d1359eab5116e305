"""Reads two labels as 1 (alike) and 0."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

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
# So many standard errors show an order of words.
CLEARLY = 3.0
BINARY = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0}


class Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def cells(self) -> list[str]: ...


Values = dict[str, list[Any]]
Take = Literal["all", "texts", "scores", "judged", "binary", "labels", "measured"]


@dataclass(frozen=True)
class TwoLabels:
    take: Take
    positive: str
    columns: Sequence[Named]

    def values(self, path: Path, kinds: set[str]) -> dict[str, float] | None:
        """Return each label's value; None unless they are two. Raises UsageError in doubt."""
        numbers = all(map(is_number, kinds))
        if self.positive:
            if self.positive.lower() not in kinds:
                raise UsageError(f"{path}: no label is {self.positive!r}; there are: {', '.join(sorted(kinds))}.")
            return {kind: float(kind == self.positive.lower()) for kind in kinds}
        if kinds <= {*BINARY}:
            return BINARY
        if len(kinds) != 2 or kinds <= {*NLI_LABELS} or self.take == "scores" or (
            numbers and self.take not in ("measured", "binary")
        ):  # fmt: skip
            return None
        first, second = sorted(kinds, key=float if numbers else None)
        alike = second if numbers else alike_of(kinds)
        if alike:
            return {kind: float(kind == alike) for kind in kinds}
        raise self.question(path, first, second)

    def question(self, path: Path, first: str, second: str) -> UsageError:
        asked = ",".join(column.name for column in self.columns)
        return UsageError(
            f"{path}: its labels are {first} and {second}; which of them says that two texts are alike?"
            f" --columns '{asked}={first}' or --columns '{asked}={second}'."
        )


def alike_of(kinds: set[str]) -> str | None:
    """Return the label for "alike" (yes of yes and no), in small letters."""
    if len(kinds) != 2:
        return None
    ordered = sorted(kinds, key=_affirms)
    if _affirms(ordered[0]) < _affirms(ordered[1]):
        return ordered[1]
    short, long = sorted(kinds, key=len)
    denied = long.endswith(short) and re.sub(r"[\W_]", "", long.removesuffix(short)) in _DENIAL
    return short if denied else None


def _affirms(word: str) -> int:
    return (word in _YES.split()) - (word in _NO.split())


def says_unlike(name: str) -> bool:
    return _UNLIKE.fullmatch(re.sub(r"[\W_]+", "", name.lower())) is not None


def ordered(cells: Cells, columns: Sequence[Named], values: Values, kind: str) -> tuple[Values, str]:
    """Return the values, turned if name and texts agree that a large number means unlike, and a note.

    The texts' evidence is fewer common words. Raises UsageError, with the commands to answer, if both disagree.
    """
    *texts, name = (column.name for column in columns)
    unlike, falls = says_unlike(name), rise(values["first"], values["second"], values["score"]) < -CLEARLY
    if unlike and falls:
        return values | {"score": turned_order(cells, values, kind)}, f", turned: a large {name} says unlike"
    if unlike or (falls and all(is_number(cell) or not cell for cell in columns[-1].cells)):
        sides, why = ",".join(texts), "" if unlike else " (the larger it is, the fewer words are common)"
        raise UsageError(
            f"{cells.path}: does a large {name} say that two texts differ{why}? If so: --columns '{sides},-{name}';"
            f" if it says that they are alike: --columns '{sides},{name}'."
        )
    return values, ""


def rise(first: Sequence[str], second: Sequence[str], scores: Sequence[Any]) -> float:
    """Return the rise of scores with the share of common words, in standard errors."""
    import pandas as pd

    words = [[{*re.findall(r"\w+", text.lower())} for text in side] for side in (first, second)]
    shares = pd.Series([len(a & b) / max(len(a | b), 1) for a, b in zip(*words, strict=True)])
    numbers = pd.to_numeric(pd.Series(scores), errors="coerce")
    if shares.nunique() < 2 or numbers.nunique() < 2:
        return 0.0
    return float(shares.rank().corr(numbers.rank())) * math.sqrt(min(len({*first}), len({*second})))


def turned_order(cells: Cells, values: Values, kind: str) -> list[float | None]:
    """Return the largest score minus each; of binary pairs 0 and 1 exchanged."""
    if kind not in ("scored pairs", "binary pairs"):
        raise UsageError(f"{cells.path}: a minus turns a score or 0 and 1; the table has {kind}.")
    above = 1.0 if kind == "binary pairs" else max(score for score in values["score"] if score is not None)
    return [None if score is None else above - score for score in values["score"]]
