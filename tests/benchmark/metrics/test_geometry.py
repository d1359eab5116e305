"""Geometry of vectors, and the regressor of graded pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from benchmark.metrics.geometry import (
    alignment,
    anisotropy,
    simplex,
    uniformity,
)
from benchmark.metrics.relatedness import regress, score_targets

# The geometry of vectors against loops over pairs, and against scikit-learn.


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


# SentEval's relatedness regressor against its protocol written out in numpy, float64, with an Adam of its own.

Array = NDArray[np.float64]


def problem(rows: int, dim: int, low: float, noise: float, seed: int = 0) -> tuple[NDArray[np.float32], Array]:
    """Return features and scores between `low` and 5 that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, dim)).astype(np.float32)
    z = x @ rng.normal(size=dim) / np.sqrt(dim) + noise * rng.normal(size=rows)
    return x, np.round(low + (5 - low) / (1 + np.exp(-z)), 1)


def targets(gold: Array) -> Array:
    """docs/protocol.md: class floor(y) gets floor(y) - y + 1, class floor(y) + 1 gets y - floor(y)."""
    result = np.zeros((len(gold), 5))
    for row, y in enumerate(gold):
        for r in range(1, 6):
            if r == int(np.floor(y)):
                result[row, r - 1] = np.floor(y) - y + 1
            if r == int(np.floor(y)) + 1:
                result[row, r - 1] = y - np.floor(y)
    return result


def by_hand(x: Array, train: Array, dev: Array) -> tuple[Array, float, int]:
    """Return test predictions, the best dev Pearson and the number of evaluations."""
    torch.manual_seed(1111)
    layer = torch.nn.Linear(x.shape[1], 5)
    w = np.concatenate([layer.weight.detach().numpy(), layer.bias.detach().numpy()[:, None]], 1).astype(np.float64)
    x = np.concatenate([x, np.ones((len(x), 1))], 1)
    wanted, held = targets(train), slice(len(train), len(train) + len(dev))
    m, v, t = np.zeros_like(w), np.zeros_like(w), 0
    random = np.random.RandomState(1111)

    def softmax(z: Array) -> Array:
        e = np.exp(z - z.max(1, keepdims=True))
        return np.asarray(e / e.sum(1, keepdims=True))

    def predicted(w: Array, rows: slice) -> Array:
        return softmax(x[rows] @ w.T) @ np.arange(1, 6)

    best, best_pearson, idle, epochs, evaluations = w, -1.0, 0, 0, 0
    stop = False
    while not stop and epochs <= 1000:
        for _ in range(50):
            order = random.permutation(len(train))
            for start in range(0, len(train), 64):
                rows = order[start : start + 64]
                p = softmax(x[rows] @ w.T)
                dp = 2 * (p - wanted[rows]) / p.size  # mean over rows and classes
                dz = np.einsum("bi,bij->bj", dp, p[:, :, None] * (np.eye(5) - p[:, None, :]))
                g = dz.T @ x[rows]
                t += 1
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                w = w - 1e-3 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        epochs += 50
        evaluations += 1
        pearson = np.corrcoef(predicted(w, held), dev)[0, 1]
        if pearson > best_pearson:
            best, best_pearson = w, float(pearson)
        else:
            stop = idle >= 3
            idle += 1
    return predicted(best, slice(held.stop, None)), best_pearson, evaluations


@pytest.mark.slow
@pytest.mark.parametrize(("low", "noise", "train_rows"), [(1.0, 0.1, 128), (0.0, 1.5, 150)], ids=["sick", "sts-b"])
def test_against_the_protocol_by_hand(low: float, noise: float, train_rows: int) -> None:
    """The same predictions, dev score and number of evaluations; the last batch of a pass may be smaller."""
    x, gold = problem(260, 6, low, noise)
    cuts = train_rows, train_rows + 50
    ours = regress(x, gold[: cuts[0]], gold[cuts[0] : cuts[1]])
    predicted, dev_pearson, evaluations = by_hand(x.astype(np.float64), gold[: cuts[0]], gold[cuts[0] : cuts[1]])
    assert ours.evaluations == evaluations
    assert ours.dev_pearson == pytest.approx(dev_pearson, abs=1e-5)
    assert np.allclose(ours.predicted, predicted, atol=1e-4)
    assert ours.predicted.min() >= 1  # even where scores go down to 0


def test_targets() -> None:
    """Two classes share a score; below 1 mass is lost, and 0 has none."""
    gold = np.array([0.0, 0.4, 1.0, 3.7, 5.0])
    expected = [[0, 0, 0, 0, 0], [0.4, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0.3, 0.7, 0], [0, 0, 0, 0, 1]]
    assert np.allclose(score_targets(gold), expected)
    assert np.allclose(score_targets(gold), targets(gold))


@pytest.mark.slow
def test_the_random_state_is_left_alone() -> None:
    """Neither torch's nor numpy's global generator moves, and the number of threads comes back."""
    x, gold = problem(100, 4, 1.0, 0.1)
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), torch.get_num_threads()  # noqa: NPY002
    regress(x, gold[:60], gold[60:80])
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (np.random.get_state()[1].tolist(), torch.get_num_threads())  # noqa: NPY002
