"""A cell of a table, and how its numbers are written: the same digits in every file."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

_NOISE = 9  # digits behind the point of numbers x100 that float64 sums in any order agree on


@dataclass(frozen=True)
class Value:
    """A cell x100: mean, sample standard deviation, least and largest over seeds, or the reason why there is none."""

    mean: float | None
    sd: float | None
    seeds: int
    reason: str | None = None
    min: float | None = None  # None for one seed
    max: float | None = None

    def text(self, plus_minus: str = "±") -> str:
        """Return "76.25", "76.25 ± 0.31" or "n/a"."""
        if self.mean is None:
            return "n/a"
        return shown(self.mean) if self.sd is None else f"{shown(self.mean)} {plus_minus} {shown(self.sd)}"


def shown(number: float) -> str:
    """Return a number x100 with two digits; a half goes up, whatever the last bits of its sum are."""
    exact = Decimal(repr(round(number, _NOISE)))
    return str(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))


def over_seeds(values: Sequence[float]) -> Value:
    """Return the cell of one value per seed; a single one has no spread."""
    if len(values) == 1:
        return Value(values[0], None, 1)
    return Value(statistics.fmean(values), statistics.stdev(values), len(values), None, min(values), max(values))
