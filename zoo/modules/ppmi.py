"""Token vectors by counting: the factored positive pointwise mutual information of neighbours in a text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def ppmi_vectors(
    ids: NDArray[Any],
    vocabulary: int,
    dim: int,
    *,
    seed: int,
    row_norm: float = 0.8,
    window: int = 4,
    smoothing: float = 0.75,
) -> NDArray[np.float32]:
    """U sqrt(S) of a text's positive PMI matrix, centred: token vectors (vocabulary, dim) without training.

    Args:
        ids: Token ids of the text (n,). Two tokens within the window count 1/distance.
        vocabulary: Number of rows. An absent token has a random vector.
        dim: Width of the vectors.
        seed: Of the randomised decomposition and of the random vectors.
        row_norm: Length of each vector.
        window: Largest distance in tokens.
        smoothing: Exponent of the context frequencies.
    """
    from sklearn.utils.extmath import randomized_svd

    ids = np.asarray(ids, dtype=np.int64)
    counts = sparse.csr_matrix((vocabulary, vocabulary), dtype=np.float64)
    for distance in range(1, window + 1):
        weight = np.full(len(ids) - distance, 1.0 / distance)
        counts = counts + sparse.coo_matrix((weight, (ids[:-distance], ids[distance:])), shape=counts.shape).tocsr()
    counts = (counts + counts.T).tocoo()
    totals = np.bincount(counts.row, counts.data, vocabulary)
    contexts = totals**smoothing
    with np.errstate(divide="ignore"):
        pmi = np.log(counts.data / totals[counts.row] / (contexts / contexts.sum())[counts.col])
    positive = pmi > 0
    shape = (vocabulary, vocabulary)
    matrix = sparse.csr_matrix((pmi[positive], (counts.row[positive], counts.col[positive])), shape=shape)
    u, s, _ = randomized_svd(matrix, dim, n_iter=4, random_state=seed)
    # Beyond the matrix's rank a direction is rounding, which the first step of Adam would make as long as any other.
    s[s <= s.max() * vocabulary * np.finfo(s.dtype).eps] = 0
    vectors = u * np.sqrt(s)
    seen = totals > 0
    vectors[seen] -= vectors[seen].mean(axis=0)
    vectors[~seen] = np.random.default_rng(seed).normal(size=(int((~seen).sum()), dim))
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (row_norm * vectors / np.maximum(norms, 1e-8)).astype(np.float32)
    return scaled
