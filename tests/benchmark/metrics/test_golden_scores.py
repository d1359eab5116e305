"""Golden scores: fixed vectors have the scores that they had; a change of a metric raises PROTOCOL_VERSION."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmark.metrics.correlation import aggregate, correlations, cosine
from benchmark.metrics.geometry import alignment, anisotropy, principal_components, uniformity
from benchmark.metrics.items import accuracy_of, fold_items
from benchmark.metrics.probe.protocol import FAST, FULL, cross_validated, nested, pair_features, split
from benchmark.metrics.relatedness import regress
from benchmark.stats.bootstrap import measured, resample
from benchmark.stats.williams import williams

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden_scores.json"
_DRAW = np.random.RandomState(0)  # legacy: its stream is the same in every version of numpy
X, Y = (_DRAW.randn(240, 8).astype(np.float32) for _ in range(2))
Y += X
GOLD = np.round(np.clip(2.5 + X[:, 0] * Y[:, 0], 0, 5), 1).astype(np.float64)
CLASSES = (X[:, :3] + 1.5 * _DRAW.randn(240, 3)).argmax(1).astype(np.int64)
COSINES = cosine(X, Y)
HALVES = {"a": (COSINES[:120], GOLD[:120]), "b": (COSINES[120:], GOLD[120:])}


def _probe(scores: Any) -> list[float]:
    return [scores.accuracy, scores.dev_accuracy, *scores.penalties]


SCORES: dict[str, Callable[[], Any]] = {
    "correlations": lambda: correlations(COSINES, GOLD),
    "aggregate": lambda: aggregate(HALVES),
    "classification": lambda: accuracy_of(fold_items(X, [str(one) for one in CLASSES])),
    "alignment": lambda: alignment(X, Y),
    "uniformity": lambda: uniformity(X),
    "anisotropy": lambda: anisotropy(X),
    "principal components": lambda: principal_components(X, 2)[1].tolist(),
    "regression": lambda: regress(pair_features(X, Y), 1 + GOLD[:120] * 0.8, 1 + GOLD[120:160] * 0.8).dev_pearson,
    "probe, nested": lambda: _probe(nested(X, CLASSES, FAST)),
    "probe, cross-validated": lambda: _probe(cross_validated(X, CLASSES, 160, FULL)),
    "probe, split": lambda: _probe(split(X, CLASSES, 120, 60, FULL)),
    "spearman of several": lambda: measured(np.stack([COSINES, COSINES**3 + X[:, 1]]), GOLD).tolist(),
    "spearman, resampled": lambda: resample(COSINES[None], GOLD, resamples=50)[0, :5].tolist(),
    "williams": lambda: vars(williams(0.8, 0.75, 0.9, 240)),
}


def flat(value: Any) -> list[float]:
    """Return the numbers in nested lists and mappings, in order."""
    if isinstance(value, dict | list):
        return [one for part in (value.values() if isinstance(value, dict) else value) for one in flat(part)]
    return [float(value)]


@pytest.mark.parametrize("name", SCORES)
def test_scores_are_the_golden_ones(name: str) -> None:
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))[name]
    assert flat(SCORES[name]()) == pytest.approx(flat(expected), rel=1e-5)
