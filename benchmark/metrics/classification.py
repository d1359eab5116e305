"""A small classification probe: logistic regression on frozen vectors with stratified folds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def fold_accuracy(vectors: NDArray[np.float32], labels: list[str], folds: int = 5) -> float:
    """Return the mean accuracy over stratified folds (shuffled with a fixed seed) of standardised vectors (n, dim)."""
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    splits = StratifiedKFold(folds, shuffle=True, random_state=1111)
    return float(np.mean(cross_val_score(probe, vectors.astype(np.float64), labels, cv=splits)))
