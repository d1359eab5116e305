"""Alignment and uniformity (Wang and Isola 2020; METHODS section 11), over all pairs at once, never by batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]


def _unit(vectors: Matrix) -> NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    unit: NDArray[np.float64] = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
    return unit


def alignment(first: Matrix, second: Matrix) -> float:
    """Mean squared distance of positive pairs (n, dim) on the unit sphere (SimCSE Eq. 2); lower is better."""
    return float(np.square(_unit(first) - _unit(second)).sum(axis=1).mean())


def uniformity(vectors: Matrix, chunk: int = 2048) -> float:
    """log of the mean of exp(-2 ||x - y||^2) over all distinct pairs of (n, dim) (SimCSE Eq. 3); lower is better."""
    unit = _unit(vectors)
    total = 0.0
    for start in range(0, len(unit), chunk):
        total += float(np.exp(4.0 * (unit[start : start + chunk] @ unit.T) - 4.0).sum())
    n = len(unit)
    return float(np.log((total - n) / (n * (n - 1))))
