"""Rows that share a text are drawn together; the numbers are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark.stats.clusters import clusters_of
from tools.studies.shared_texts import wrong_share


def test_rows_of_one_text_are_drawn_alike() -> None:
    """Texts 0 and 12 stand in two rows each, those of the last row nowhere else."""
    clusters = clusters_of(np.array([0, 0, 1, 2, 3]), np.array([10, 11, 12, 12, 13]))
    assert clusters.repeated and clusters.size == 3
    assert clusters.effective == pytest.approx(25 / (4 + 4 + 1))
    counts = np.concatenate([*clusters.counts(50, [0])])
    assert (counts[:, 0] == counts[:, 1]).all() and (counts[:, 2] == counts[:, 3]).all()
    assert (counts[:, [0, 2, 4]].sum(axis=1) == 3).all() and (counts[:, 0] != counts[:, 2]).any()


def test_a_row_of_two_repeated_texts_is_drawn_by_both() -> None:
    clusters = clusters_of(np.array([0, 0, 1, 1]), np.array([2, 3, 2, 3]))
    assert clusters.size == 4 and clusters.effective == pytest.approx(16 / 12)
    tables = np.concatenate([*clusters.counts(200, [0])]).reshape(-1, 2, 2)
    assert (tables[:, 0, 0] * tables[:, 1, 1] == tables[:, 0, 1] * tables[:, 1, 0]).all()
    assert (tables[:, 0] != tables[:, 1]).any() and (tables[:, :, 0] != tables[:, :, 1]).any()


def test_rows_without_a_common_text_are_drawn_by_themselves() -> None:
    clusters = clusters_of(np.arange(7), np.arange(7))  # each text beside itself
    assert not clusters.repeated and clusters.effective == 7
    assert not clusters_of(np.arange(7)).repeated and clusters_of(np.array([0, 1, 0])).size == 2


@pytest.mark.parametrize("seed", range(5))
def test_variances_are_those_of_rows_that_share_a_text(seed: int) -> None:
    """Against a loop over all couples of rows, some of the same two texts; never less than that of unrelated rows."""
    generator = np.random.default_rng(seed)
    texts, influence = generator.integers(0, 9, (25, 2)), generator.normal(size=(3, 25))
    clusters = clusters_of(*texts.T)
    alike = np.array([[bool({*map(int, one)} & {*map(int, other)}) for other in texts] for one in texts])
    unrelated, together = clusters.variances(influence)
    for a in range(3):
        for b in range(3):
            apart = influence[a] - influence[b]
            assert unrelated[a, b] == pytest.approx(25 / 24 * apart @ apart)
            assert together[a, b] == pytest.approx(25 / 24 * max(apart @ alike @ apart, apart @ apart))
    assert clusters.effective == pytest.approx(25**2 / alike.sum())


def test_few_clusters_make_resampled_values_too_close() -> None:
    clusters = clusters_of(np.array([0, 0, 1, 1]))
    assert clusters.effective == 2
    np.testing.assert_allclose(clusters.unbiased(np.array([[0.0, 2.0]])), [[1 - 2**0.5, 1 + 2**0.5]])


def test_equal_encoders_are_told_apart_in_about_one_comparison_of_twenty() -> None:
    """Of 10 queries with 30 documents each; as if their rows were unrelated it is one in six (more: docs)."""
    shares = [wrong_share("10 queries x 30 documents", 2.0, 50, together=together) for together in (True, False)]
    assert shares[0] <= 0.14 and shares[1] >= max(0.15, 2 * shares[0])
