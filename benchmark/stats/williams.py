"""Williams' test of two correlations with one variable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zoo.errors import ContractError


@dataclass(frozen=True)
class Williams:
    """Williams' test: t, its degrees of freedom, and the two-sided p."""

    t: float
    df: int
    p: float


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> Williams:
    """Test whether two methods' correlations with the same gold scores, over the same n pairs, are equal.

    The test covers the noise of pairs only, not that of seeds. `r_ab` is the correlation of the two methods' scores.
    Williams (1959); Steiger (1980) recommends the test and calls it T2. For Spearman's rho it is an approximation.
    Raises ContractError for fewer than four pairs, or correlations that cannot occur together.
    """
    from scipy.special import stdtr

    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    if n < 4 or determinant < -1e-9:
        raise ContractError(f"Williams' test: n={n} with correlations {r_a}, {r_b} and {r_ab} cannot be tested.")
    if r_a == r_b:
        return Williams(0.0, n - 3, 1.0)
    mean = (r_a + r_b) / 2
    spread = 2 * (n - 1) / (n - 3) * max(determinant, 0.0) + mean**2 * (1 - r_ab) ** 3
    t = (r_a - r_b) * float(np.sqrt((n - 1) * (1 + r_ab) / spread)) if spread else float(np.copysign(np.inf, r_a - r_b))
    return Williams(t, n - 3, float(2 * stdtr(n - 3, -abs(t))))
