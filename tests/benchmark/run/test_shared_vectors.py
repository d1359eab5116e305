"""Texts that share a vector are counted, whatever the reason, and said where they are many."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from fakes import Bag, BagRecipe
from hypothesis import given
from hypothesis import strategies as st

import benchmark
from benchmark.run.vectors import sharing
from zoo.encoder import Runtime


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(2, 8), st.integers(0, 2**16), st.floats(0.01, 100))
def test_every_equal_vector_is_counted(kinds: list[int], width: int, seed: int, scale: float) -> None:
    generator = np.random.default_rng(seed)
    # Corners of a lattice are far apart, and rounding moves vectors a little.
    corners = np.array([[(kind * 7 + 3 * i) % 13 + 1 + kind for i in range(width)] for kind in range(13)])
    vectors = scale * corners[kinds] * (1 + 1e-7 * generator.standard_normal((len(kinds), width)))
    counted = Counter(kinds)
    assert sharing(vectors.astype(np.float32).reshape(-1, width)) == sum(n for n in counted.values() if n > 1)


class FirstLetter(Bag):
    """Texts that begin alike share a vector."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return super().encode([text[:1] for text in texts])


def test_a_table_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = FirstLetter(BagRecipe(), Runtime())
    benchmark.evaluate({"letters": encoder}, ["pocket-words"], results=tmp_path, controls=False)
    assert "texts have the vector of another text" in capsys.readouterr().err
    benchmark.leaderboard(results=tmp_path).write()
    (row,) = [line for line in (tmp_path / "pocket.md").read_text("utf-8").splitlines() if line.startswith("| 1 |")]
    assert re.search(r"4\d\d of 454 texts of a task have the vector of another text", row)
