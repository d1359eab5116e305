"""Words of contrasts, corrected for how many contrasts a condition tests (Benjamini and Hochberg 1995)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zoo_bench_papers import answers
from zoo_bench_papers.comparisons import Compared

RATES = (0.05, 0.01)
# The share of differences on their line that noise puts below it: one side of a test at 5 %.
BY_CHANCE = 0.025

Contrast = tuple[object, ...]


def contrast(c: Compared) -> Contrast:
    """Return what a contrast has under any claim, any names of its rows, and turned around."""
    difference = c.difference or 0.0
    return c.on, c.line, c.within, round(difference if c.line else abs(difference), 9), round(c.error, 9)


def corrected(compared: Sequence[Compared]) -> list[Compared]:
    """Return deciding comparisons with their words at false discovery rates of 5 and 1 %.

    The questions of a verdict are two families of tests: on which side of its line a difference is, and whether it is
    as large as printed. Each contrast is tested once, in whichever claims it stands.
    """
    sides = _adjusted({contrast(c): _margin_p(c) if c.within else _p(c, c.line) for c in compared})
    gains = _adjusted({(contrast(c), c.printed): _p(c, c.printed) for c in compared if c.printed and c.as_large})

    def word(c: Compared, rate: float) -> str:
        decided, value = sides[contrast(c)] <= rate, c.difference or 0.0
        above = abs(value) < c.within if c.within else value > c.line
        if decided and not above:
            return answers.REVERSED
        if c.as_large == answers.NO and gains[contrast(c), c.printed] <= rate:
            return answers.SMALLER
        return answers.CONFIRMED if decided else answers.UNDECIDED

    return [replace(c, corrected=tuple(word(c, rate) for rate in RATES)) for c in compared]


def _p(c: Compared, value: float) -> float:
    """Return the two-sided p of a difference from a value."""
    from scipy.special import stdtr

    gap = abs((c.difference or 0.0) - value)
    return float(2 * stdtr(c.df, -gap / c.error)) if c.error else float(gap < answers.EQUAL)


def _margin_p(c: Compared) -> float:
    """Return the p of a difference within its margin, by two one-sided tests (Schuirmann 1987), or beyond it."""
    from scipy.special import stdtr

    gap = abs(c.difference or 0.0) - c.within
    return float(stdtr(c.df, -abs(gap) / c.error) * (1 if gap < 0 else 2)) if c.error else 0.0


def _adjusted(ps: Mapping[Contrast, float]) -> dict[Contrast, float]:
    from scipy.stats import false_discovery_control

    return dict(zip(ps, false_discovery_control([*ps.values()]).tolist(), strict=True)) if ps else {}
