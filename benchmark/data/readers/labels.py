"""Reads two labels as 1 and 0: which of them says that two texts are alike."""

from __future__ import annotations

import re
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
