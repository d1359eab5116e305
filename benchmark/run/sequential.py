"""The plan by which a run adds seeds to two rows until they differ significantly: the looks, and their common level.

Who compares again and again, with more seeds each time, finds a difference sooner or later. So the numbers of seeds are
fixed before the first look, and all looks have one level (Pocock 1977), by which equal rows differ at any of them with
a probability of 5%.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmark.metrics.significance import LEVEL
from benchmark.run.options import RunOptions
from benchmark.run.plan import EncoderPlan
from zoo.errors import UsageError
from zoo.recipe import all_recipes, with_model

_DRAWS = 200_000


@dataclass(frozen=True)
class Looks:
    """The numbers of seeds at which two rows are compared: at first `first`, then twice as many each time.

    A row's mean over few seeds is a part of its mean over more, so that the looks are correlated. The level is that of
    one row's t-tests without noise of pairs. Two rows have more degrees of freedom, and the noise of pairs, which all
    looks share, makes them more alike: both make the error smaller.
    """

    first: int
    most: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """The numbers of seeds; they begin at three, because looks at two err in up to 8% of runs."""
        found = [max(self.first, 3)]
        while found[-1] < self.most:
            found.append(min(2 * found[-1], self.most))
        return tuple(found)

    def adjusted(self, p: float) -> float:
        """Return the probability that equal rows have so small a p at any of the looks."""
        lower = int((_lowest(self.seeds) <= p).sum())
        return max(p, min((lower + 1) / (_DRAWS + 1), len(self.seeds) * p))

    @property
    def level(self) -> float:
        """The p below which a look ends the run."""
        return float(np.quantile(_lowest(self.seeds), LEVEL))


@functools.lru_cache(maxsize=8)
def _lowest(seeds: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the lowest p of t-tests (draws,) over the looks of normal scores whose mean is truly zero."""
    from scipy.special import stdtr

    generator, lowest = np.random.default_rng(0), np.ones(_DRAWS)
    total, squares = np.zeros(_DRAWS), np.zeros(_DRAWS)
    for before, now in zip((0, *seeds), seeds, strict=False):
        new = now - before
        mean = generator.standard_normal(_DRAWS) / np.sqrt(new)
        squares += new * mean**2 + (generator.chisquare(new - 1, _DRAWS) if new > 1 else 0)
        total += new * mean
        error = np.sqrt((squares - total**2 / now) * now / (now - 1))
        np.minimum(lowest, 2 * stdtr(now - 1, -np.abs(total) / error), out=lowest)
    return lowest


def pair_of(options: RunOptions, encoders: Sequence[EncoderPlan]) -> tuple[list[EncoderPlan], list[EncoderPlan]]:
    """Return the encoders of the two rows that `until_told_apart` names.

    Raises UsageError for a name that is no row of the run, and where neither row depends on a seed.
    """
    text, by_name = options.until_told_apart or "", dict[str, list[EncoderPlan]]()
    for plan in encoders:
        for name in {plan.name, plan.label}:
            by_name.setdefault(name, []).append(plan)
    parts = text.split(",")  # a name may have commas of its own
    for i in range(1, len(parts)):
        names = [",".join(side).strip() for side in (parts[:i], parts[i:])]
        with suppress(UsageError):  # a path without a model
            names = [name if name in by_name else with_model(name, all_recipes()) for name in names]
        a, b = (by_name.get(name, []) for name in names)
        if a and b and a[0].name != b[0].name:
            if a[0].seed is None and b[0].seed is None:
                raise UsageError(
                    f"--until-told-apart {text}: neither row depends on a seed, so more seeds change nothing; leave the"
                    " option out, and `zoo-bench compare` has their difference."
                )
            return a, b
    rows = ", ".join(dict.fromkeys(plan.label for plan in encoders))
    raise UsageError(f"--until-told-apart {text}: give two rows of this run, separated by a comma; it has {rows}.")


def looks_of(options: RunOptions, first: int) -> Looks:
    """Return the looks of a run that begins with `first` seeds; raises UsageError if it may not have so many."""
    most = options.seeds_at_most or 0
    if most < first:
        raise UsageError(
            f"--seeds-at-most {most} is below the {first} seeds with which the run begins; give at least {first}, or"
            " fewer with --seeds."
        )
    return Looks(first, most)
