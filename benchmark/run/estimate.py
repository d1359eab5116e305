"""How long a plan will take, and what is left of a run: counted work divided by a measured speed, roughly."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmark.records.folder import Records
from benchmark.run.plan import EncoderPlan, Plan
from zoo.encoder import Runtime
from zoo.errors import ZooError
from zoo.files import read_mapping
from zoo.progress import clock

_CHARACTERS_PER_TOKEN = 4.3
_UTILISATION = 0.35  # the fraction of a matrix product's speed that encoding and training reach
_NOMINAL = 1e11  # FLOP/s assumed at first; the machine is timed only if the run then takes longer than _LONG_SECONDS
_LONG_SECONDS = 60.0  # seconds
_PRIOR_SECONDS = 30.0  # seconds of measuring that weigh as much as the estimate from sizes
_UNKNOWN_SECONDS = 2.0  # seconds assumed for an encoder whose work cannot be counted


def _matmul_parameters(plan: EncoderPlan, allow_pickle: bool) -> int | None:
    """Return the parameters in matrix products per token, from the backbone's config; None where unknown."""
    from zoo.engine.backbone import find_backbone

    name = getattr(plan.recipe, "backbone", None) or getattr(plan.recipe, "model", None)
    if name is None:
        return None
    found = find_backbone(name, getattr(plan.recipe, "revision", None), allow_pickle=allow_pickle)
    return parameters_of(found.folder / "config.json")


def parameters_of(path: Path) -> int | None:
    """Return the parameters in matrix products per token, from a config.json; None where it does not say."""
    if not path.is_file():
        return None
    config = read_mapping(path)
    width, layers, inner = (config.get(key) for key in ("hidden_size", "num_hidden_layers", "intermediate_size"))
    if not isinstance(width, int) or not isinstance(layers, int) or not isinstance(inner, int):
        return None
    return layers * (4 * width * width + 2 * width * inner)


Counted = dict[object, float]
"""Characters of tasks and tokens of training texts, which are counted once for all encoders of a plan."""


def estimate_seconds(
    encoder_plan: EncoderPlan, records: Records, speed: float, counted: Counted, allow_pickle: bool = False
) -> float | None:
    """Return the seconds left for one encoder (0 where every cell is finished), or None where its size is unknown.

    `counted` is empty for the first encoder of a plan, and is filled for the others.
    """
    pending = [c for c in encoder_plan.cells if records.finished(encoder_plan.name, c.task.name, c.key) is None]
    if not pending:
        return 0.0
    parameters = _matmul_parameters(encoder_plan, allow_pickle)
    if parameters is None:
        return None
    names = tuple(cell.task.name for cell in pending)
    if names not in counted:
        counted[names] = sum(len(text) for text in {t for c in pending if c.task.data for t in c.task.data.texts()})
    tokens, corpus = 0.0, encoder_plan.corpus
    if corpus is not None:
        longest = getattr(encoder_plan.recipe, "train_max_length", None) or 512
        if (id(corpus), longest) not in counted:
            lengths = (min(len(text) / _CHARACTERS_PER_TOKEN + 2, longest) for text in corpus.sentences)
            counted[id(corpus), longest] = sum(lengths)
        tokens = counted[id(corpus), longest]
    return seconds_of(parameters, counted[names], tokens, encoder_plan.traits.training_passes, speed)


def time_of_processes(
    plan: Plan, results: Path, runtime: Runtime, count: int, threads: int
) -> tuple[float, float] | None:
    """Return the seconds that a plan takes in this process, and in `count` of them with so many threads each.

    Each of the others first takes the time that this process took to start and plan. None where a GPU computes.
    """
    import torch

    from zoo.hardware import matrix_speed

    if runtime.device != "cpu":
        return None
    all_threads, started = torch.get_num_threads(), time.process_time()
    speed = matrix_speed(runtime.device, runtime.precision)
    torch.set_num_threads(threads)
    of_one = matrix_speed(runtime.device, runtime.precision)
    torch.set_num_threads(all_threads)
    low, high = sorted((1.0, all_threads / threads))
    slower = min(max(speed / of_one, low), high)
    seconds = sorted(_expected(plan.encoders, Records(results), speed, runtime).values(), reverse=True)
    busy = [started] * count
    for one in seconds:  # the longest first, each by the process that is free first
        busy[busy.index(min(busy))] += one * slower
    return sum(seconds), max(busy)


def seconds_of(parameters: int, characters: float, tokens: float, passes: float, speed: float) -> float:
    """Return the seconds to encode the characters and train `passes` epochs on the tokens (0: one forward pass)."""
    work = 2.0 * parameters * characters / _CHARACTERS_PER_TOKEN
    work += max(6.0 * passes, 2.0) * parameters * tokens
    return work / (_UTILISATION * speed) + 2.0


@dataclass
class Remaining:
    """Estimates the seconds left of a plan; call `done` for each finished encoder."""

    expected: dict[str, float] = field(default_factory=dict)  # seconds by encoder key, from sizes
    timed: bool = False  # whether `expected` uses the machine's measured speed
    names: dict[str, str] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Sums over the encoders that take time, so that not all are added up again after each one.
        self._by_name: dict[str, _OfName] = {}
        for key, seconds in self.expected.items():
            of_name = self._by_name.setdefault(self.names[key], _OfName())
            of_name.waiting += seconds > 0
            of_name.expected += seconds
        self._by_seeds, self._by_sizes = 0.0, sum(self.expected.values())  # left, by what predicts it
        self._worked, self._worked_expected = 0.0, 0.0

    @classmethod
    def of(cls, plans: Iterable[EncoderPlan], records: Records, runtime: Runtime) -> Remaining:
        """Estimate every encoder of a plan by its sizes."""
        plans = list(plans)
        expected, timed = _expected(plans, records, _NOMINAL, runtime), False
        if sum(expected.values()) > _LONG_SECONDS:
            from zoo.hardware import matrix_speed

            speed = matrix_speed(runtime.device, runtime.precision)
            expected, timed = _expected(plans, records, speed, runtime), True
        return cls(expected, timed, {plan.key: plan.name for plan in plans})

    def done(self, key: str, seconds: float) -> None:
        """Count an encoder as done after `seconds`."""
        expected = self.expected.get(key, 0.0)
        if key in self.spent or not expected:
            return
        self.spent[key] = seconds
        self._worked, self._worked_expected = self._worked + seconds, self._worked_expected + expected
        of_name = self._by_name[self.names[key]]
        if of_name.worked:
            self._by_seeds -= of_name.left()
        else:
            self._by_sizes -= of_name.expected
        of_name.waiting -= 1
        of_name.worked += 1
        of_name.seconds += seconds
        self._by_seeds += of_name.left()

    def seconds(self) -> float | None:
        """Return the seconds left, None while unknown; earlier seeds of a method predict the time of its later ones."""
        if not self.spent and not self.timed:
            return None
        prior = _PRIOR_SECONDS if self.timed else 0.0
        ratio = (self._worked + prior) / (self._worked_expected + prior)
        return max(self._by_seeds + ratio * self._by_sizes, 0.0)  # sums of floats may end a little below 0

    def text(self) -> str:
        """Return ", about 1:02:03 left in all", or "" while nothing is known."""
        seconds = self.seconds()
        return "" if seconds is None else f", about {clock(seconds)} left in all"


@dataclass
class _OfName:
    """The encoders of one method: how many wait and have worked, in how many seconds, and what all were expected to."""

    waiting: int = 0
    worked: int = 0
    seconds: float = 0.0
    expected: float = 0.0

    def left(self) -> float:
        return self.waiting * self.seconds / self.worked


def _expected(plans: Iterable[EncoderPlan], records: Records, speed: float, runtime: Runtime) -> dict[str, float]:
    found, counted = {}, Counted()
    for plan in plans:
        try:
            seconds = 0.0 if plan.missing else estimate_seconds(plan, records, speed, counted, runtime.allow_pickle)
        except ZooError:  # the error is reported when the encoder is measured
            seconds = 0.0
        found[plan.key] = _UNKNOWN_SECONDS if seconds is None else seconds
    return found
