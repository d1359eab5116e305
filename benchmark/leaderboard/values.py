"""A cell of a table and the text of its numbers, which has the same digits in every file."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

_NOISE = 9  # decimals of numbers x100 that float64 sums have in common, whatever the order of summation


@dataclass(frozen=True)
class Value:
    """A cell x100: mean, sample standard deviation, minimum and maximum over seeds, or the reason for no value."""

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
    """Return a number x100 with two decimals; halves are rounded up, whatever the last bits of the sum are."""
    exact = Decimal(repr(round(number, _NOISE)))
    return str(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))


def over_seeds(values: Sequence[float]) -> Value:
    """Return the cell for one value per seed; a single value has no spread."""
    if len(values) == 1:
        return Value(values[0], None, 1)
    return Value(statistics.fmean(values), statistics.stdev(values), len(values), None, min(values), max(values))
