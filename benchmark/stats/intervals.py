"""Intervals of items that are all alike, which show no noise."""

from __future__ import annotations

from benchmark.stats.mcb import LEVEL

# Printed in place of an interval without width.
NO_INTERVAL = "no interval: every item is alike"


def interval_text(low: float, high: float, form: str = "z.1f") -> str:
    return NO_INTERVAL if low != low else f"{low:{form}} to {high:{form}}"


def of_alike(value: float, units: float, least: float, most: float) -> tuple[float, float]:
    """Return the exact 95% interval of a mean over unrelated units that all have this value.

    So many alike show that a share of (LEVEL / 2) ** (1 / units) of all is (Clopper and Pearson 1934). The others may
    have any value from `least` to `most`.

    Examples:
        >>> [round(end, 3) for end in of_alike(1.0, 30, 0.0, 1.0)]
        [0.884, 1.0]
    """
    share = (LEVEL / 2) ** (1 / units)
    return share * value + (1 - share) * least, share * value + (1 - share) * most
