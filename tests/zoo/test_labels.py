"""The split by sha256: fixed for ever, even, and valid for any string."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.encoder import NLI_LABELS, PHRASE_LABELS
from zoo.files import hash_fraction


def test_the_fraction_is_that_of_the_digest() -> None:
    """sha256 of "abc" begins ba7816bf8f01 (FIPS 180-2, appendix B.1)."""
    assert hash_fraction("abc") == pytest.approx(0xBA7816BF8F01 / 0x1000000000000, abs=1e-15)
    assert hash_fraction("lone \ud800") == hash_fraction("lone \ud800")


def test_fractions_are_spread_evenly() -> None:
    values = np.array([hash_fraction(f"phrase {i}") for i in range(4000)])
    assert values.min() >= 0 and values.max() < 1
    counts = np.histogram(values, bins=10, range=(0, 1))[0]
    assert np.abs(counts - 400).max() < 5 * np.sqrt(400)


def test_no_label_means_two_things() -> None:
    assert not set(NLI_LABELS) & set(PHRASE_LABELS)
