"""Words of a verdict and their rules: an interval beside 0, or a margin, and beside the printed gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

CONFIRMED, SMALLER, REVERSED, UNDECIDED = "confirmed", "smaller than printed", "reversed", "undecided"
UNTESTABLE, NOT_MEASURED = "untestable", "not measured"
DECIDED = (CONFIRMED, SMALLER, REVERSED)
WORDS = (*DECIDED, UNDECIDED, UNTESTABLE, NOT_MEASURED)
SO_FAR, AT_SCALE = "so far", "at this scale"
YES, NO, POSSIBLE = "yes", "no", "possible"

# Rounding can leave such a difference between equal scores.
EQUAL = 1e-11
# Below this share of the paper's updates, nothing is said but "so far".
_SHARE = 0.05


def above(low: float, high: float, line: float) -> str:
    """Answer for an interval beside a claim's line: 0, or the margin of a claim of no loss below 0."""
    return YES if low > line + EQUAL else NO if high < line - EQUAL else UNDECIDED


def within(difference: float, half: float, low: float, high: float, margin: float) -> str:
    """Answer for a difference beside a margin on both sides: two one-sided tests, of the 90% interval's `half`."""
    return YES if abs(difference) + half < margin else NO if low > margin or high < -margin else UNDECIDED


def as_large(high: float, line: float, printed: float | None) -> str:
    """Possibility of the printed difference; "" without a printed difference above the line."""
    return "" if printed is None or printed <= line else NO if high < printed - EQUAL else POSSIBLE


def word(low: float, high: float, line: float, printed: float | None) -> str:
    side = above(low, high, line)
    if side == NO:
        return REVERSED
    if as_large(high, line, printed) == NO:
        return SMALLER
    return CONFIRMED if side == YES else UNDECIDED


def of_all(words: Sequence[str]) -> str:
    """Word of a claim about several comparisons: a failed comparison decides it."""
    return next(word for word in (REVERSED, SMALLER, UNDECIDED, CONFIRMED) if word in words)


def scale(share: float | None, small: bool) -> str:
    return SO_FAR if share is not None and share < _SHARE else AT_SCALE if small else ""


def tally(answers: Sequence[str]) -> str:
    """An answer, or "2 yes, 1 no" if they differ."""
    by = Counter(filter(None, answers))
    return ", ".join(by) if len(by) < 2 else ", ".join(f"{number} {answer}" for answer, number in by.items())
