"""Random vectors: Gaussian, the text's own, another set with every seed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from zoo.encoder import Run, Runtime
from zoo.methods.bagofwords import BagOfWords
from zoo.methods.randomvectors import RandomVectors
from zoo.recipes import all_recipes

GOLDEN = {"random": {"version": 1, "values": [1.0, 0.11, -0.9043, 0.4525, 0.7828, 0.1259, -1.0, 0.5471]}}


def make(seed: int = 0, **recipe: int) -> RandomVectors:
    encoder = RandomVectors(RandomVectors.Recipe(**recipe), Runtime())
    assert not encoder.fit(None, run=Run(seed=seed)).fitted
    return encoder


TEXTS = [f"text {i}" for i in range(300)]


def test_vectors_are_standard_gaussian_and_unrelated() -> None:
    """Values against the normal distribution; cosines of distinct texts with mean 0 and deviation 1 / sqrt(dim)."""
    vectors = make(dim=128).encode(TEXTS).astype(np.float64)
    assert stats.kstest(vectors.ravel(), "norm").pvalue > 1e-3
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[np.triu_indices(len(TEXTS), 1)]
    assert cosines.mean() == pytest.approx(0, abs=0.002)
    assert cosines.std() == pytest.approx(128**-0.5, rel=0.03)


def test_a_text_has_its_own_vector_whatever_its_neighbours() -> None:
    vectors = make().encode(["b", "a", "b"])
    np.testing.assert_array_equal(vectors[0], vectors[2])
    np.testing.assert_array_equal(vectors[1], make().encode(["a"])[0])
    assert not np.allclose(vectors[0], vectors[1])
    assert not np.allclose(make().encode(["a"]), make().encode(["A"]))


def test_seeds_are_independent() -> None:
    first, second = make(1), make(2)
    correlation = np.corrcoef(first.encode(TEXTS).ravel(), second.encode(TEXTS).ravel())[0, 1]
    assert abs(correlation) < 0.02
    assert len({first.fingerprint(), second.fingerprint(), make(1, dim=8).fingerprint()}) == 3


def test_the_recipe_is_a_control_that_runs_once_a_seed() -> None:
    spec = all_recipes()["random"]
    cls, recipe = spec.resolve()
    assert spec.control and cls.traits(recipe).stochastic and recipe == RandomVectors.Recipe()
    assert [name for name, one in all_recipes().items() if one.control] == ["bag-of-words", "random"]
    with pytest.raises(ValueError, match="above 0"):
        RandomVectors.Recipe(dim=0)
    for dim in (16_385, 10**6, 10**400):
        for recipe in (RandomVectors.Recipe, BagOfWords.Recipe):
            with pytest.raises(ValueError, match=r"dim must be at most 16,384, not \d{5,30}$"):
                recipe(dim=dim)
    assert make(dim=16_384).encode(["a"]).shape == (1, 16_384)
