"""A cell of a table and the text of its numbers, which has the same digits in every file."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import TypeVar

T = TypeVar("T")

DIGITS = 6  # of numbers x100 in JSON: more than are shown, so that rounding to two gives the same as in the other files
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
    by_seed: tuple[tuple[int | None, float], ...] = ()  # of several seeds, sorted

    def text(self, plus_minus: str = "±") -> str:
        """Return "76.25", "76.25 ± 0.31" or "n/a"."""
        if self.mean is None:
            return "n/a"
        return (
            score_text(self.mean) if self.sd is None else f"{score_text(self.mean)} {plus_minus} {score_text(self.sd)}"
        )

    def as_dict(self) -> dict[str, object]:
        """Return the cell as plain values, with `DIGITS` decimals."""
        plain = {key: round(value, DIGITS) if isinstance(value, float) else value for key, value in vars(self).items()}
        return {**plain, "by_seed": [(seed, round(value, DIGITS)) for seed, value in self.by_seed]}


def score_text(number: float) -> str:
    """Return a number x100 with two decimals; halves are rounded up, whatever the last bits of the sum are."""
    exact = Decimal(repr(round(number, _NOISE)))
    return str(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))


def over_seeds(by_seed: Mapping[int | None, float]) -> Value:
    """Return the cell for one value per seed; a single value has no spread."""
    values = list(by_seed.values())
    if len(values) == 1:
        return Value(values[0], None, 1)
    mean, sd = statistics.fmean(values), statistics.stdev(values)
    return Value(mean, sd, len(values), None, min(values), max(values), seed_order(by_seed))


def seed_order(by_seed: Mapping[int | None, T]) -> tuple[tuple[int | None, T], ...]:
    """Return the items sorted by seed; the item without a seed comes first."""
    return tuple(sorted(by_seed.items(), key=lambda item: -1 if item[0] is None else item[0]))
