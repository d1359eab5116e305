"""Places under ties: the average over random orders of equal similarities, in closed form.

McSherry and Najork 2008, "Computing information retrieval performance measures efficiently in the presence of tied
scores": no order of a table's rows decides a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.errors import ZooError

TIE = 1e-6
"""Similarities that differ by this share of what they can be are tied: what rounding leaves open in float32 vectors."""


class Places(NamedTuple):
    """Candidates (n,) for the first places: `before` counts those before its group, `tied` its group."""

    row: NDArray[np.intp]
    column: NDArray[np.intp]
    before: NDArray[np.intp]
    tied: NDArray[np.intp]

    def mean(self, worth: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each candidate's worth (n,), averaged over the places of its group.

        `worth` (k,) is that of the first places.

        Examples:
            >>> first_places(np.array([[0.9, 0.5, 0.5]]), 2).mean(np.array([1.0, 1.0])).tolist()
            [1.0, 0.5, 0.5]
        """
        upto = np.concatenate([[0.0], np.cumsum(worth)])
        ends = np.minimum([self.before + self.tied, self.before], len(worth))
        shares: NDArray[np.float64] = (upto[ends[0]] - upto[ends[1]]) / self.tied
        return shares

    def first_hit(self, hit: NDArray[np.bool_], rows: int, k: int) -> NDArray[np.float64]:
        """Return the expected 1 / place of the first `hit` (n,) of each row (rows,) among k places."""
        start = np.full(rows, np.iinfo(np.intp).max)
        np.minimum.at(start, self.row[hit], self.before[hit])
        inside = self.before == start[self.row]
        tied, hits = (np.bincount(self.row[inside & which], minlength=rows) for which in (hit | ~hit, hit))
        result, before = np.zeros(rows), np.where(hits > 0, start, k)
        # The chance that the first hit of the group has its first place, then its second, and so on.
        chance = hits / np.maximum(tied, 1)
        for place in range(1, k + 1):
            result += np.where(before + place <= k, chance / (before + place), 0.0)
            chance = chance * np.maximum(tied - place - hits + 1, 0) / np.maximum(tied - place, 1)
        return result


Exact = Callable[[NDArray[np.intp], NDArray[np.intp]], NDArray[np.float64]]
"""The similarities (n,) of rows (n,) and candidates (n,)."""


def first_places(
    scores: NDArray[Any], k: int, scale: float = 1.0, exact: Exact | None = None, error: float = 0.0
) -> Places:
    """Return the candidates for the first k places, from similarities (rows, candidates).

    With `exact`, `scores` are at most `error` away from these similarities, and pick who is compared by them.

    -inf is no candidate. Neighbours in a row's order are tied within `TIE` times `scale`, the largest possible
    similarity: rounding by a matrix product, different at each place, decides nothing. Raises ZooError for NaN.
    """
    n, k = scores.shape[1], min(k, scores.shape[1])
    # The k-th of the maxima of groups is at most the k-th of all, and few reach it: faster than a partition of all.
    groups = n // max(1, n // (64 * k))
    even = n - n % groups
    maxima = np.hstack([scores[:, :even].reshape(len(scores), -1, groups).max(axis=1), scores[:, even:]])
    if np.isnan(maxima).any():
        raise ZooError("some of its similarities are not a number.")
    reach = TIE * scale
    least = np.maximum(np.partition(maxima, -k, axis=1)[:, -k] - reach - 2 * error, np.finfo(scores.dtype).min)
    row, column = np.divmod(np.flatnonzero(scores >= least[:, None]), n)
    values = scores[row, column] if exact is None else exact(row, column)
    order = np.lexsort((-values, row))
    row, column, values = row[order], column[order], values[order]
    top, end = np.searchsorted(row, row), np.searchsorted(row, row, side="right")
    opens = np.ones(len(row), np.bool_)
    opens[1:] = (row[1:] != row[:-1]) | (values[:-1] - values[1:] > reach)
    starts, group = np.flatnonzero(opens), np.cumsum(opens) - 1
    kept = values >= values[np.minimum(top + k, end) - 1] - reach
    tied = np.bincount(group[kept], minlength=len(starts))
    before = (starts - top[starts])[group]
    return Places(row[kept], column[kept], before[kept], tied[group][kept])
