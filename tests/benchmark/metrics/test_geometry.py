"""Alignment and uniformity against loops over pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmark.metrics.geometry import alignment, uniformity


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x)


@pytest.mark.parametrize("chunk", [3, 2048])
def test_both_equal_a_loop_over_pairs(chunk: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(11, 5)).astype(np.float32) for _ in range(2))
    wanted = np.mean([np.linalg.norm(unit(x) - unit(y)) ** 2 for x, y in zip(a, b, strict=True)])
    assert alignment(a, b) == pytest.approx(wanted, abs=1e-6)
    terms = [np.exp(-2 * np.linalg.norm(unit(x) - unit(y)) ** 2) for x, y in itertools.combinations(a, 2)]
    assert uniformity(a, chunk) == pytest.approx(np.log(np.mean(terms)), abs=1e-6)


def test_one_point_is_perfectly_aligned_and_not_uniform_at_all() -> None:
    same = np.ones((4, 3), np.float32)
    assert alignment(same, same * 7) == pytest.approx(0, abs=1e-12)
    assert uniformity(same) == pytest.approx(0, abs=1e-9)
