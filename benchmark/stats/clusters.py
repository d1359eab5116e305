"""Rows with a common text are resampled together: an encoder's error on a text is in all of its rows."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 20  # counts that are drawn at a time


@dataclass(frozen=True)
class Clusters:
    """The places of each row's first and second unit (rows, 2); -1: no second unit.

    A unit is a text of several rows, or a row with texts of its own. A row is counted as often as the product of its
    units (Owen's pigeonhole bootstrap, 2007): the noise is never understated.
    """

    units: NDArray[np.intp]
    size: int  # the number of units

    @property
    def repeated(self) -> bool:
        return self.size < len(self.units) or bool((self.units[:, 1] >= 0).any())

    @property
    def effective(self) -> float:
        """The number of equally informative clusters of equal size (Carter, Schnepel and Steigerwald 2017).

        It is the squared number of rows over the number of couples with a common unit.
        """
        rows_of = np.bincount(self.units[self.units >= 0], minlength=self.size).astype(float)
        return float(len(self.units) ** 2 / ((rows_of**2).sum() - (np.bincount(self._both[1]) ** 2).sum()))

    @functools.cached_property
    def _both(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        two = np.flatnonzero(self.units[:, 1] >= 0)
        ends = np.sort(self.units[two], axis=1) @ np.array([self.size, 1])
        return two, np.unique(ends, return_inverse=True)[1]

    def variances(self, influence: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the variances of differences of methods (methods, methods): as if unrelated, and of dyads.

        `influence` (methods, rows) is each row's part of a score. The second sums the products of rows with a common
        text (Aronow, Samii and Assenova 2015). With few clusters it can be too small by chance: it is at least the
        first.
        """
        unrelated = _of_differences(influence @ influence.T)
        together = unrelated
        if self.repeated:
            two, dyads = self._both
            of_units = _summed(influence, self.units[:, 0], self.size)
            of_units += _summed(influence[:, two], self.units[two, 1], self.size)
            # Rows of the same two texts are in the sums of both.
            twice = _summed(influence[:, two], dyads, dyads.max(initial=-1) + 1)
            together = np.maximum(unrelated, _of_differences(of_units @ of_units.T - twice @ twice.T))
        few = len(self.units) / max(len(self.units) - 1, 1)
        return few * unrelated, few * together

    def counts(self, resamples: int, seed: Sequence[int]) -> Iterator[NDArray[np.int64]]:
        """Yield chunks of counts (resamples, rows)."""
        first, second = self.units.T
        for drawn in _drawn_counts(self.size, resamples, seed):
            counts = drawn[:, first]
            if (second >= 0).any():
                counts *= np.where(second >= 0, drawn[:, second], 1)
            yield counts

    def of(self, rows: NDArray[np.intp]) -> Clusters:
        return replace(self, units=self.units[rows])

    def unbiased(self, drawn: NDArray[np.float64], alone: float = np.inf) -> NDArray[np.float64]:
        """Return resampled values (methods, resamples), spread to offset the bias of few clusters, or units alone."""
        few = min(alone, self.effective)
        centre = np.nanmean(drawn, axis=1, keepdims=True)
        result: NDArray[np.float64] = centre + (drawn - centre) * np.sqrt(few / max(few - 1, 1))
        return result


def independent(rows: int) -> Clusters:
    return Clusters(np.stack([np.arange(rows), np.full(rows, -1)], axis=1), rows)


def clusters_of(first: NDArray[np.intp], second: NDArray[np.intp] | None = None) -> Clusters:
    """Return clusters from the numbers of each row's text or two texts (rows,)."""
    rows = np.arange(len(first))
    sides = np.stack([first, np.full(len(first), -1) if second is None else np.where(second == first, -1, second)], 1)
    often = np.bincount(sides[sides >= 0], minlength=1) > 1
    sides = np.where((sides >= 0) & often[sides], sides, -1)
    alone = (sides < 0).all(axis=1)
    sides[alone, 0] = len(often) + rows[alone]
    sides = np.where(sides[:, :1] < 0, sides[:, ::-1], sides)  # the only unit stands first
    places = np.unique(sides[sides >= 0])
    return Clusters(np.where(sides >= 0, np.searchsorted(places, sides), -1).astype(np.intp), len(places))


def _summed(values: NDArray[np.float64], places: NDArray[np.intp], size: int) -> NDArray[np.float64]:
    """Return sums (methods, size) of values (methods, rows) over each place."""
    return np.stack([np.bincount(places, of_method, size) for of_method in values])


def _of_differences(products: NDArray[np.float64]) -> NDArray[np.float64]:
    variances = np.diagonal(products)
    result: NDArray[np.float64] = np.maximum(variances[:, None] + variances - 2 * products, 0.0)
    return result


def _drawn_counts(size: int, resamples: int, seed: Sequence[int]) -> Iterator[NDArray[np.int64]]:
    """Yield chunks of counts (resamples, size)."""
    generator = np.random.default_rng(list(seed))
    chunk = max(1, _CHUNK // size)
    for start in range(0, resamples, chunk):
        rows = min(chunk, resamples - start)
        drawn = generator.integers(0, size, (rows, size)) + size * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
