"""The data of a table: rows of values with their conditions."""

from __future__ import annotations

import functools
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Literal, TypedDict, TypeVar

from benchmark.records.names import recipe_of
from benchmark.records.record import Record
from benchmark.tasks.suites import Suite
from zoo.recipes import RecipeSpec

T = TypeVar("T")

DIGITS = 6  # of numbers x100 in JSON: more than are shown, so that rounding to two gives the same as in the other files
_NOISE = 9  # decimals of numbers x100 that float64 sums have in common, whatever the order of summation


@dataclass(frozen=True)
class Value:
    """A cell x100: mean, sample standard deviation, minimum and maximum over seeds, or the reason for n/a."""

    mean: float | None
    sd: float | None
    seeds: int
    reason: str | None = None
    min: float | None = None  # None for one seed
    max: float | None = None
    by_seed: tuple[tuple[int | None, float], ...] = ()  # of several seeds, sorted

    def text(self, plus_minus: str = "±") -> str:
        """Return "76.25", "76.25 ± 0.31" or "n/a"."""
        if self.mean is None:
            return "n/a"
        return (
            score_text(self.mean) if self.sd is None else f"{score_text(self.mean)} {plus_minus} {score_text(self.sd)}"
        )

    def as_dict(self) -> dict[str, object]:
        plain = {key: round(value, DIGITS) if isinstance(value, float) else value for key, value in vars(self).items()}
        return {**plain, "by_seed": [(seed, round(value, DIGITS)) for seed, value in self.by_seed]}


@functools.lru_cache(1 << 16)
def score_text(number: float) -> str:
    """Return a number x100 with two decimals; halves are rounded up, whatever the last bits."""
    exact = Decimal(repr(round(number, _NOISE)))
    return without_minus(str(exact.quantize(Decimal("0.01"), ROUND_HALF_UP)))


def signed(value: float, decimals: int = 2) -> str:
    """Return "+1.50", "-0.20"; a negative rounded to 0 is "0.00"."""
    return without_minus(f"{value:+.{decimals}f}")


def without_minus(text: str) -> str:
    """A printed zero loses its minus."""
    return text.removeprefix("-") if not text.strip("-0.,") else text


def over_seeds(by_seed: Mapping[int | None, float]) -> Value:
    """A single value has no spread."""
    values = list(by_seed.values())
    if len(values) == 1:
        return Value(values[0], None, 1)
    mean = statistics.fmean(values)
    # Not `statistics.stdev`, whose fractions take a second in a folder of 16,000 records.
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return Value(mean, sd, len(values), None, min(values), max(values), seed_order(by_seed))


def seed_order(by_seed: Mapping[int | None, T]) -> tuple[tuple[int | None, T], ...]:
    """The item without a seed comes first."""
    return tuple(sorted(by_seed.items(), key=lambda item: -1 if item[0] is None else item[0]))


Aggregation = Literal["all", "mean", "wmean"]


class ChosenOn(TypedDict):
    """The development set of a row's checkpoint, and its number of STS test pairs."""

    dev_task: str
    dev_pairs: int | None
    dev_pairs_in_test: int | None


class About(ChosenOn):
    """Conditions and cost of a row; None: not recorded, or no such cost."""

    backbone: str
    backbone_sha256: str
    ancestry: str
    precision: str
    run_by: str  # the library that encodes a finished encoder where the engine does not; "" for the engine
    seeds: int
    corpus: str
    corpus_sentences: int | None
    corpus_pairs: int | None
    test_texts_in_training: int | None
    transductive: bool
    supervised: bool
    setting: str  # one of conditions.GROUPS
    changed_settings: str
    tuned: str  # the budget and the task that chose the settings; "": they are the recipe's own
    train_seconds: float | None
    train_sentences_per_second: float | None
    updates_share: float | None  # of the published training's updates
    cosine_to_start: float | None  # of vectors after and before the training
    adapt_seconds: float | None
    texts_per_second: float | None
    parameters: int | None
    dimensions: int | None
    peak_memory_mb: float | None
    device: str
    limit: int | None
    protocol: int
    environments: list[str]
    version: str
    code: str  # digests of the code that measured it


@dataclass
class Row:
    """A method under a set of conditions."""

    name: str  # as it is printed, unique in its table
    row_key: str
    values: dict[str, Value]  # by task
    average: Value
    about: About
    records: list[Record] = field(default_factory=list)  # all that the row is made of; columns may read them
    rank: int | None = None
    notes: list[str] = field(default_factory=list)
    among_best: bool | None = None  # tied for the best; None: not compared, because pair scores are missing
    mark: str = (
        ""  # of one of several rows that are tied for the best: "≈", or "?" where only its own seeds keep it there
    )
    against: str = ""  # "↑" or "↓": beyond noise above or below it
    # Against the row that it starts from, else the best untrained one: its name, the difference and its 95% interval.
    gain: tuple[str, float, float, float] | None = None
    means: dict[str, Value] = field(default_factory=dict)  # means of some tasks, by their names in the suite
    recipe: str = ""  # the recipe of a row with a label (--label); "": the name states it
    untrained: bool = False  # a backbone's own states, pooled, and nothing else
    method: str = ""  # the name in the records, where `name` is a shorter one (see `printed_names`)
    spec: RecipeSpec | None = None  # None: neither this code nor the folder has its recipe
    # What `conditions` has read from its records; None: not yet.
    less_data: list[str] | None = field(default=None, compare=False)

    @functools.cached_property
    def made_of(self) -> tuple[str, Mapping[str, Any]]:
        """The recipe's name and the typed settings."""
        return recipe_of(self.records[0]["method"])

    @property
    def identity(self) -> str:
        """The name in the records; with the key it identifies a row."""
        return self.method or self.name

    @property
    def scored(self) -> bool:
        return any(value.mean is not None for value in self.values.values())

    @functools.cached_property
    def missing_seeds(self) -> str:
        """ "1 of 2 seeds" if planned seeds are missing."""
        planned = max((record.get("seeds", 0) for record in self.records), default=0)
        seeds = len({record["seed"] for record in self.records})
        return f"{seeds} of {planned} seeds" if seeds < planned else ""

    def reasons(self) -> list[str]:
        return [f"{self.name}: {note}" for note in self.notes]

    @property
    def tie(self) -> str:
        """The mark, or "–" for a ranked row that was not compared with the best."""
        return self.mark or ("–" if self.rank is not None and self.among_best is None else "")


def _equal(rows: Sequence[Row]) -> str:
    same: dict[object, list[str]] = defaultdict(list)
    for row in rows:
        if row.average.mean is not None:
            same[tuple((value.mean, value.by_seed) for value in row.values.values())].append(row.name)
    equal = "; ".join(", ".join(of) for of in same.values() if of[1:])
    return f"Equal on every task, so what differs between them changed nothing: {equal}." if equal else ""


@dataclass
class Table:
    """A suite's rows, ranked by average; incomplete rows come last, unranked."""

    suite: Suite
    rows: list[Row]
    commands: list[str]
    partial: bool = False  # trial run (--limit)
    legend: str = ""  # the meaning of the marks
    learned: str = ""  # what the rows show, in a sentence or two
    baseline: str = ""  # the name of a row with which the others are compared
    against: str = ""  # the meaning of the marks against it
    aggregation: Aggregation = "all"
    chosen: tuple[str, ...] | None = None  # the names of the columns to show, in this order; None: each output's own
    limit: int | None = None  # of a trial
    smaller: bool = False  # the folder has a trial of a larger limit
    absent: str = ""  # what its commands promise and is not in the folder

    @property
    def title(self) -> str:
        cut = "--limit" if self.limit is None else f"--limit {self.limit}"
        trial = f" — TRIAL on cut data ({cut}), not comparable with anything" if self.partial else ""
        return f"{self.suite.title}{trial}{self.part}"

    @property
    def part(self) -> str:
        return f" — A PART: {self.absent}" if self.absent else ""

    @property
    def legends(self) -> list[str]:
        """The meanings of its marks, and the equal rows."""
        return [text for text in (self.legend, self.against, _equal(self.rows)) if text]

    @property
    def stem(self) -> str:
        return self.suite.name + ("-trial" if self.partial else "") + (f"-{self.limit}" if self.smaller else "")
