"""The geometry of sets of vectors (docs/protocol.md), over all pairs, not as means over batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmark.reasons import reason

Matrix = NDArray[np.float32]


def unit_vectors(vectors: Matrix) -> NDArray[np.float64]:
    """Scale vectors (n, dim) to length 1 in float64; a zero vector stays zero."""
    wide = vectors.astype(np.float64)
    unit: NDArray[np.float64] = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
    return unit


def alignment(first: Matrix, second: Matrix) -> float:
    """Mean squared distance of positive pairs (n, dim) on the unit sphere (SimCSE Eq. 2); lower is better."""
    return float(np.square(unit_vectors(first) - unit_vectors(second)).sum(axis=1).mean())


def uniformity(vectors: Matrix, chunk: int = 2048) -> float:
    """log of the mean of exp(-2 ||x - y||^2) over all distinct pairs of (n, dim) (SimCSE Eq. 3); lower is better."""
    unit = unit_vectors(vectors)
    total = 0.0
    for start in range(0, len(unit), chunk):
        total += float(np.exp(4.0 * (unit[start : start + chunk] @ unit.T) - 4.0).sum())
    n = len(unit)
    return float(np.log((total - n) / (n * (n - 1))))


def anisotropy(vectors: Matrix, chunk: int = 8192) -> float:
    """|Mean cosine| of all distinct pairs of (n, dim) (PromptBERT Eq. 1): 0 for uniform directions, at most 1.

    Closed form: the cosines of all pairs add up to ||sum of the unit vectors||^2. Raises ValueError below two vectors.
    """
    n = len(vectors)
    if n < 2:
        raise ValueError(f"anisotropy is a mean over pairs; {n} vectors make none")
    total, squared_norms = np.zeros(vectors.shape[1]), 0.0
    for start in range(0, n, chunk):
        unit = unit_vectors(vectors[start : start + chunk])
        total += unit.sum(axis=0)
        # Adds up to n, less the number of zero vectors.
        squared_norms += float(np.square(unit).sum())
    return abs(float(total @ total) - squared_norms) / (n * n - n)


def principal_components(vectors: Matrix, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return coordinates (n, count) and shares of variance (count,); the largest loading is positive."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    values, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :count]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    return centred @ axes, values[::-1][:count] / max(float(values.sum()), 1e-300)


def nearest_neighbours(vectors: Matrix, k: int, chunk: int = 128) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return Euclidean distances and rows (n, k) of the k <= n - 1 nearest others, nearest first."""
    # Centring makes the squared norms that cancel below small, so that float32 keeps the order of distances.
    centred = (vectors - vectors.mean(axis=0, dtype=np.float64)).astype(np.float32)
    squares = np.square(centred).sum(axis=1)
    k = min(k, len(centred) - 1)
    distances, rows = np.empty((len(centred), k)), np.empty((len(centred), k), np.int64)
    for start in range(0, len(centred), chunk):
        block = centred[start : start + chunk]
        here = np.arange(len(block))
        # The distance squared, less the row's own square.
        scores = squares[None, :] - 2.0 * (block @ centred.T)
        scores[here, start + here] = np.inf
        near = np.argpartition(scores, max(k - 1, 0), axis=1)[:, :k]
        exact = np.linalg.norm(centred[near].astype(np.float64) - block[:, None], axis=2)
        order = np.argsort(exact, axis=1, kind="stable")
        rows[start : start + chunk] = np.take_along_axis(near, order, axis=1)
        distances[start : start + chunk] = np.take_along_axis(exact, order, axis=1)
    return distances, rows


def neighbour_purity(neighbours: NDArray[np.int64], labels: Sequence[str]) -> dict[str, float]:
    """Return, by label, its share (0 to 1) among its members' neighbours (n, k)."""
    named = np.asarray(labels)
    same = (named[neighbours] == named[:, None]).mean(axis=1)
    return {str(label): float(same[named == label].mean()) for label in np.unique(named)}


def simplex(rank: int | None, texts: int) -> str | None:
    """Return why cosines are meaningless after a centred linear map of this rank, fitted on `texts` distinct texts.

    Whitening n points to rank n - 1 makes them the corners of a regular simplex: all cosines are equal (-1 / (n - 1) if
    no text is repeated) and differ only by rounding.
    """
    if rank is None or rank < texts - 1:
        return None
    return reason("simplex", texts=texts, rank=rank)
