"""The geometry of vectors against loops over pairs, and against scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from benchmark.metrics.geometry import (
    alignment,
    anisotropy,
    nearest_neighbours,
    neighbour_purity,
    principal_components,
    simplex,
    uniformity,
)


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


@pytest.mark.parametrize("chunk", [4, 8192])
@pytest.mark.parametrize("shift", [0.0, 3.0, -3.0])
def test_anisotropy_equals_a_loop_over_pairs(chunk: int, shift: float) -> None:
    x = np.random.default_rng(1).normal(size=(13, 6)).astype(np.float32)
    x[:, 0] += shift
    cosines = [unit(a.astype(float)) @ unit(b.astype(float)) for a, b in itertools.permutations(x, 2)]
    assert anisotropy(x, chunk) == pytest.approx(abs(np.sum(cosines)) / (13**2 - 13), abs=1e-9)


def test_anisotropy_of_known_sets() -> None:
    assert anisotropy(np.array([[1, 0], [5, 0], [0.1, 0]], np.float32)) == pytest.approx(1)
    assert anisotropy(np.array([[1, 0], [-2, 0]], np.float32)) == pytest.approx(1)  # the absolute value of Eq. 1
    assert anisotropy(np.eye(4, dtype=np.float32)) == pytest.approx(0, abs=1e-12)
    # A vector of zeros has no direction: cosine 0 with the others, and no cosine of 1 with itself to take away.
    assert anisotropy(np.array([[1, 0], [1, 0], [0, 0]], np.float32)) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="pairs"):
        anisotropy(np.ones((1, 3), np.float32))


def test_principal_components_are_scikit_learns() -> None:
    rng = np.random.default_rng(2)
    x = (rng.normal(size=(60, 7)) @ rng.normal(size=(7, 7)) + 20).astype(np.float32)
    coordinates, shares = principal_components(x, 3)
    theirs = PCA(3, svd_solver="full")
    wanted = theirs.fit_transform(x.astype(np.float64))
    assert shares == pytest.approx(theirs.explained_variance_ratio_, abs=1e-9)
    signs = np.sign((coordinates * wanted).sum(axis=0))
    np.testing.assert_allclose(coordinates * signs, wanted, atol=1e-6)


@pytest.mark.parametrize("chunk", [7, 512])
def test_neighbours_are_scikit_learns(chunk: int) -> None:
    x = (np.random.default_rng(3).normal(size=(40, 5)) + 100).astype(np.float32)  # far from the origin
    distances, rows = nearest_neighbours(x, 4, chunk)
    wanted_distances, wanted_rows = NearestNeighbors(n_neighbors=4, algorithm="brute").fit(x - 100.0).kneighbors()
    np.testing.assert_array_equal(rows, wanted_rows)
    np.testing.assert_allclose(distances, wanted_distances, atol=1e-4)
    assert nearest_neighbours(x[:3], 9)[1].shape == (3, 2)


def test_purity_counts_the_neighbours_of_the_same_label() -> None:
    # Two tight groups on a line, a stray "b" inside group "a".
    x = np.array([[0.0], [0.1], [0.25], [9.0], [9.1], [9.25]], np.float32)
    labels = ["a", "a", "b", "b", "b", "b"]
    _, rows = nearest_neighbours(x, 2)
    # a: (0.1 a, 0.25 b) and (0 a, 0.25 b); b: (a, a), then three times (b, b).
    assert neighbour_purity(rows, labels) == pytest.approx({"a": 0.5, "b": 0.75})


@pytest.mark.parametrize(("points", "width", "meaningless"), [(9, 12, True), (13, 12, True), (14, 12, False)])
def test_whitened_to_full_rank_points_are_a_simplex(points: int, width: int, meaningless: bool) -> None:
    """Against scikit-learn's whitening: where the rule says so, and only there, every cosine is -1 / (n - 1)."""
    vectors = np.random.default_rng(0).normal(size=(points, width))
    rank = min(points - 1, width)
    whitened = PCA(n_components=rank, whiten=True).fit_transform(vectors)
    cosines = np.array([unit(a) @ unit(b) for a, b in itertools.combinations(whitened, 2)])
    assert np.allclose(cosines, -1 / (points - 1), atol=1e-6) is meaningless
    assert (simplex(rank, points) is not None) is meaningless
    assert simplex(None, points) is None
