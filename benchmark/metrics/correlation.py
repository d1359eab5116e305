"""Cosine similarity and its correlation with gold scores (docs/protocol.md)."""

from __future__ import annotations

# No scipy.stats: importing it takes longer than scoring all STS tasks.
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.reasons import reason


def cosine(u: NDArray[Any], v: NDArray[Any]) -> NDArray[np.float64]:
    """Row-wise cosine of u and v (n, dim) -> (n,) float64; 0 for a zero vector."""
    u, v = np.asarray(u, dtype=np.float64), np.asarray(v, dtype=np.float64)
    norms = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    # Equal texts have cosine 1 up to the last bits, which would break their tie in the ranking by chance (STS12 has 61
    # such pairs, worth 0.003 of Spearman x100); 1e-9 is far above float64 noise and far below any real difference.
    result: NDArray[np.float64] = np.round(np.einsum("ij,ij->i", u, v) / np.where(norms == 0, 1, norms), 9)
    return result


def undefined(predicted: NDArray[np.float64], gold: NDArray[np.float64], *, known: int | None = None) -> str | None:
    """Return the reason against a correlation; `known` counts pairs without zero vectors."""
    if len(gold) < 2:
        return reason("one pair" if len(gold) else "no pair")
    if np.ptp(gold) == 0:
        return reason("equal gold", score=gold[0])
    if known == 0:
        return reason("no known text")
    return reason("constant") if np.ptp(predicted) <= 1e-12 * np.abs(predicted).max() else None


def correlations(predicted: NDArray[np.float64], gold: NDArray[np.float64]) -> dict[str, float | None]:
    """Both are None if `undefined`."""
    if undefined(predicted, gold):
        return {"spearman": None, "pearson": None}
    return {
        "spearman": float(np.corrcoef(ranks(predicted), ranks(gold))[0, 1]),
        "pearson": float(np.corrcoef(predicted, gold)[0, 1]),
    }


def ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return ranks (n,) from 1; equal values share their mean."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    mean: NDArray[np.float64] = (ends - (counts - 1) / 2)[which]
    return mean


def aggregate(subsets: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> dict[str, Any]:
    """Correlate (predicted, gold) per subset and return `all`, `mean`, `wmean` and `subsets`.

    all: one correlation over the concatenated subsets (as in SimCSE, PT-BERT and PromptBERT). mean: the unweighted
    mean over subsets. wmean: the mean weighted by pairs. A mean is None if any of its values is missing.
    """
    each = {name: correlations(predicted, gold) for name, (predicted, gold) in subsets.items()}
    together = tuple(np.concatenate(side) for side in zip(*subsets.values(), strict=True))
    counts = [len(gold) for _, gold in subsets.values()]
    result: dict[str, Any] = {"all": correlations(*together), "mean": {}, "wmean": {}}
    for name in ("spearman", "pearson"):
        values = [value for entry in each.values() if (value := entry[name]) is not None]
        complete = len(values) == len(each)
        result["mean"][name] = float(np.mean(values)) if complete else None
        result["wmean"][name] = float(np.average(values, weights=counts)) if complete else None
    parts = {name: {"n": n, **entry} for n, (name, entry) in zip(counts, each.items(), strict=True)}
    return {**result, "subsets": parts}
