"""PPMI vectors against a dense computation."""

from __future__ import annotations

import numpy as np

from zoo.modules.ppmi import ppmi_vectors


def test_ppmi_vectors_factor_the_matrix_that_counting_gives() -> None:
    """With as many dimensions as tokens, V S V^T of a dense re-computation has the same singular values."""
    ids = np.random.default_rng(0).integers(0, 12, 4000)
    counts = np.zeros((12, 12))
    for distance in (1, 2):
        for a, b in zip(ids[:-distance], ids[distance:], strict=True):
            counts[a, b] += 1 / distance
            counts[b, a] += 1 / distance
    contexts = counts.sum(0) ** 0.75
    with np.errstate(divide="ignore"):
        ppmi = np.maximum(np.log(counts / counts.sum(1, keepdims=True) / (contexts / contexts.sum())), 0)
    u, s, _ = np.linalg.svd(ppmi)
    expected = u * np.sqrt(s)
    expected -= expected.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = ppmi_vectors(ids, 12, 12, seed=0, row_norm=1.0, window=2)
    assert np.allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-3)
