"""Estimates the time left of a whole run from the measured times of finished encoders and the sizes of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmark.records.store import Records
from benchmark.run.estimate import estimate_seconds
from benchmark.run.plan import EncoderPlan
from zoo.encoder import Runtime
from zoo.errors import ZooError
from zoo.progress import clock

_NOMINAL = 1e11  # FLOP/s assumed at first; the machine is timed only if the run then takes longer than _LONG_SECONDS
_LONG_SECONDS = 60.0  # seconds
_PRIOR_SECONDS = 30.0  # seconds of measuring that weigh as much as the estimate from sizes
_UNKNOWN_SECONDS = 2.0  # seconds assumed for an encoder whose work cannot be counted


@dataclass
class Remaining:
    """Estimates the seconds left of a plan; call `done` for each finished encoder."""

    expected: dict[str, float] = field(default_factory=dict)  # seconds by encoder key, from sizes
    timed: bool = False  # whether `expected` uses the machine's measured speed
    names: dict[str, str] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, plans: Iterable[EncoderPlan], records: Records, runtime: Runtime) -> Remaining:
        """Estimate every encoder of a plan by its sizes."""
        plans = list(plans)
        found = cls(names={plan.key: plan.name for plan in plans})
        found.expected = {plan.key: _seconds(plan, records, _NOMINAL, runtime) for plan in plans}
        if sum(found.expected.values()) > _LONG_SECONDS:
            from zoo.hardware import matrix_speed

            speed = matrix_speed(runtime.device, runtime.precision)
            found.expected = {plan.key: _seconds(plan, records, speed, runtime) for plan in plans}
            found.timed = True
        return found

    def done(self, key: str, seconds: float) -> None:
        """Count an encoder as done after `seconds`."""
        self.spent[key] = self.spent.get(key, 0.0) + seconds

    def seconds(self) -> float | None:
        """Return the seconds left, None while unknown; earlier seeds of a method predict the time of its later ones."""
        waiting = [key for key in self.expected if key not in self.spent]
        worked = {key: seconds for key, seconds in self.spent.items() if self.expected.get(key, 0.0) > 0}
        if not worked and not self.timed:
            return None
        prior = _PRIOR_SECONDS if self.timed else 0.0
        ratio = (sum(worked.values()) + prior) / (sum(self.expected[key] for key in worked) + prior)
        by_name: dict[str, list[float]] = {}
        for key, seconds in worked.items():
            by_name.setdefault(self.names[key], []).append(seconds)
        total = 0.0
        for key in waiting:
            same = by_name.get(self.names[key])
            known = same is not None and self.expected[key] > 0
            total += sum(same) / len(same) if known and same else ratio * self.expected[key]
        return total

    def text(self) -> str:
        """Return ", about 1:02:03 left in all", or "" while nothing is known."""
        seconds = self.seconds()
        return "" if seconds is None else f", about {clock(seconds)} left in all"


def _seconds(plan: EncoderPlan, records: Records, speed: float, runtime: Runtime) -> float:
    if plan.missing is not None:
        return 0.0
    try:
        found = estimate_seconds(plan, records, speed, runtime.allow_pickle)
    except ZooError:  # the error is reported when the encoder is measured
        return 0.0
    return _UNKNOWN_SECONDS if found is None else found
