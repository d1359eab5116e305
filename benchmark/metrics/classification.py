"""A small classification probe: logistic regression on frozen vectors with stratified folds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmark.metrics.items import ItemsPart, items_part


def fold_items(vectors: NDArray[np.float32], labels: list[str], folds: int = 5) -> ItemsPart:
    """Return which rows are right in stratified folds (shuffled with a fixed seed) of standardised vectors (n, dim)."""
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    splits = StratifiedKFold(folds, shuffle=True, random_state=1111)
    matrix, classes = vectors.astype(np.float64), np.asarray(labels)
    tested, right = [], []
    for train, test in splits.split(matrix, classes):
        right.append(probe.fit(matrix[train], classes[train]).predict(matrix[test]) == classes[test])
        tested.append(test)
    order = np.concatenate(tested)
    return items_part(np.concatenate(right), classes[order].tolist(), list(map(len, tested)))
