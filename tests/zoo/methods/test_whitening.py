"""Whitening against numpy's own covariance and SVD."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import ContractError, UsageError
from zoo.methods.pooled import Average
from zoo.methods.whitening import Whitening, whitening

GOLDEN = {"whitening": {"version": 2, "values": [1.0, -0.0471, -0.538, 0.6172, -0.2182, -0.1901, -0.8021, 1.0]}}


@pytest.fixture
def vectors() -> np.ndarray:
    """Correlated, shifted, of very different scales: 200 x 12."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(200, 12)) * np.geomspace(1, 50, 12)) @ rng.normal(size=(12, 12)) + 7


def make(folder: Path | str, **recipe: object) -> Whitening:
    return Whitening(Whitening.Recipe(backbone=str(folder), **recipe), Runtime())


@pytest.mark.parametrize("k", [None, 5])
def test_covariance_of_the_whitened_data_is_the_identity(vectors: np.ndarray, k: int | None) -> None:
    mean, kernel, rank = whitening(vectors, k, 1e-6)
    y = (vectors - mean) @ kernel
    width = k or 12
    assert kernel.shape == (12, width) and rank == 12
    np.testing.assert_allclose(np.cov(y, rowvar=False), np.eye(width), atol=1e-8)
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-10)


def test_kernel_is_u_over_root_lambda_of_the_svd_up_to_sign(vectors: np.ndarray) -> None:
    mean, kernel, _ = whitening(vectors, 7, 1e-6)
    u, s, _ = np.linalg.svd(np.cov(vectors.T))
    wanted = (u @ np.diag(1 / np.sqrt(s)))[:, :7]
    np.testing.assert_allclose(mean, vectors.mean(0))
    for ours, theirs in zip(kernel.T, wanted.T, strict=True):
        np.testing.assert_allclose(ours * np.sign(ours @ theirs), theirs, atol=1e-8 + 1e-6 * np.abs(theirs).max())


def test_fewer_samples_than_dimensions_stay_finite() -> None:
    x = np.random.default_rng(1).normal(size=(6, 20))
    mean, kernel, rank = whitening(x, None, 1e-6)
    assert rank == 5
    assert np.isfinite(kernel).all() and np.abs(kernel).max() < 1e3
    np.testing.assert_allclose(np.cov((x - mean) @ kernel, rowvar=False)[:5, :5], np.eye(5), atol=1e-8)
    assert not kernel[:, 5:].any()


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_vectors_are_told(count: int) -> None:
    with pytest.raises(ContractError, match=f"at least 2 vectors to fit, got {count}"):
        whitening(np.ones((count, 4)), None, 1e-6)


@pytest.mark.parametrize("k", [1, 32, 256, None, 33, 255, 4096])
def test_more_dimensions_than_there_are_are_refused_but_for_the_default(tiny_bert: Path, k: int | None) -> None:
    """The default is that of base models: of a smaller one it keeps all."""
    if k in (33, 255, 4096):
        with pytest.raises(UsageError, match=f"k={k}, but the vectors have only 32 dimensions"):
            make(tiny_bert, k=k)
    else:
        assert make(tiny_bert, k=k).dim == min(k or 32, 32)


def test_fitted_encoder_equals_the_numpy_recomputation(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    encoder = make(tiny_bert, k=6)
    sentences = pocket_sentences[:80]
    report = encoder.fit(Corpus("pocket", sentences), run=Run())
    pooled = Average(Average.Recipe(backbone=str(tiny_bert), layers="first-last-h1", max_length=64), Runtime())
    x = pooled.encode(sentences).astype(np.float64)
    u, s, _ = np.linalg.svd(np.cov(x, rowvar=False))
    y = (pooled.encode(sentences[:9]) - x.mean(0)) @ (u / np.sqrt(s))[:, :6]
    wanted = y / np.linalg.norm(y, axis=1, keepdims=True)
    vectors = encoder.encode(sentences[:9])
    assert vectors.shape == (9, 6) and vectors.dtype == np.float32
    np.testing.assert_allclose(vectors @ vectors.T, wanted @ wanted.T, atol=1e-4)  # cosines do not know the signs
    # The layer norm of an untrained BERT centres each state, so one direction of the 32 is empty.
    assert report.fitted and report.facts == {"k": 6, "rank": 31} and report.sentences == 80


def test_a_corpus_whitening_does_not_look_at_the_target(tiny_bert: Path) -> None:
    encoder = make(tiny_bert, k=6)
    assert encoder.adapt(["a", "b", "c"]) is encoder
    traits = {on: Whitening.traits(Whitening.Recipe(fit_on=on)) for on in ("corpus", "target")}
    assert traits["corpus"].needs_corpus and not traits["corpus"].transductive
    assert traits["target"].transductive and not traits["target"].needs_corpus


def test_the_covariance_does_not_depend_on_the_chunks(vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = whitening(vectors, None, 1e-6)
    monkeypatch.setattr("zoo.methods.whitening._CHUNK", 7)
    mean, kernel, rank = whitening(vectors, None, 1e-6)
    assert rank == at_once[2]
    np.testing.assert_allclose(kernel @ kernel.T, at_once[1] @ at_once[1].T, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(mean, at_once[0])


@pytest.mark.slow
def test_the_rank_of_a_fit_to_a_task_is_stated(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    """At most k; that of the base where it is more; none for a map of other texts."""
    texts = pocket_sentences[:9]
    assert make(tiny_bert, fit_on="target", k=16).adapt(texts).fitted_rank() == 8
    assert make(tiny_bert, fit_on="target", k=4).adapt(texts).fitted_rank() == 4
    assert make(tiny_bert, base="whitening-target:k=16", fit_on="target", k=4).adapt(texts).fitted_rank() == 8
    fitted = make(tiny_bert)
    fitted.fit(Corpus("c", texts), run=Run())
    assert fitted.rank == 8 and fitted.fitted_rank() is None
    assert make(tiny_bert, fit_on="target").fitted_rank() is None
