"""The geometry of sets of vectors (docs/protocol.md), over all pairs, not as means over batches."""

from __future__ import annotations

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


def simplex(rank: int | None, texts: int) -> str | None:
    """Return why cosines are meaningless after a centred linear map of this rank, fitted on `texts` distinct texts.

    Whitening n points to rank n - 1 makes them the corners of a regular simplex: all cosines are equal (-1 / (n - 1) if
    no text is repeated) and differ only by rounding.
    """
    if rank is None or rank < texts - 1:
        return None
    return reason("simplex", texts=texts, rank=rank)
