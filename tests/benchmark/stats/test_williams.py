"""Williams' test of two correlations with the same gold scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmark.stats.compare import williams
from zoo.errors import ContractError


@pytest.mark.parametrize(
    ("r_a", "r_b", "r_ab", "n", "t", "p"),
    [
        # Howell, Statistical Methods for Psychology, chapter 9, "difference between two nonindependent rs": WISC-R and
        # McCarthy against the WRAT in 26 children (Reilly et al. 1985): t(23) = 1.36, not significant.
        (0.80, 0.72, 0.89, 26, 1.36, None),
        # The documentation of psych::r.test, "Steiger case A": r.test(103, .4, .5, .1), t value -0.89, p < 0.37.
        (0.40, 0.50, 0.10, 103, -0.89, 0.37),
    ],
)
def test_williams_on_published_examples(r_a: float, r_b: float, r_ab: float, n: int, t: float, p: float | None) -> None:
    """And again from the definition, with the determinant of the matrix."""
    result = williams(r_a, r_b, r_ab, n)
    assert result.t == pytest.approx(t, abs=0.005)
    assert result.df == n - 3
    if p is not None:
        assert result.p == pytest.approx(p, abs=0.01)
    determinant = np.linalg.det([[1, r_a, r_b], [r_a, 1, r_ab], [r_b, r_ab, 1]])
    squared = (r_a - r_b) ** 2 * (n - 1) * (1 + r_ab)
    squared /= 2 * determinant * (n - 1) / (n - 3) + ((r_a + r_b) / 2) ** 2 * (1 - r_ab) ** 3
    assert result.t**2 == pytest.approx(squared)
    assert result.p == pytest.approx(stats.f.sf(squared, 1, n - 3))
    swapped = williams(r_b, r_a, r_ab, n)
    assert (swapped.t, swapped.p) == (-result.t, result.p)


def test_williams_at_its_edges() -> None:
    """Equal scores do not differ; what cannot be correlated so is refused."""
    assert williams(0.7, 0.7, 1.0, 50).p == 1
    for arguments in ((0.9, 0.1, 0.99, 50), (0.5, 0.6, 0.7, 3)):
        with pytest.raises(ContractError, match="cannot be tested"):
            williams(*arguments)
