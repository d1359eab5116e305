"""Which rows differ from a row of their table beyond noise."""

from __future__ import annotations

from benchmark.stats.mcb import LEVEL, Differences


def told_apart(differences: Differences, at: int) -> dict[int, str]:
    """Return the rows above ("↑") and below ("↓") the row at a place, by Holm's procedure (1979) over all others."""
    others = sorted((i for i in range(len(differences.p)) if i != at), key=lambda i: differences.p[i, at])
    signs: dict[int, str] = {}
    for place, i in enumerate(others):
        if not differences.p[i, at] * (len(others) - place) < LEVEL:
            break
        signs[i] = "↑" if differences.value[i, at] > 0 else "↓"
    return signs
