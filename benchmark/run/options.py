"""The options of a run as one typed value, for the command line, notebooks and jobs on other machines."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from zoo.errors import UsageError

if TYPE_CHECKING:
    from benchmark.run.tracking import Trackers

RESULTS = Path("zoo-bench-results")
PRECISIONS = ("auto", "bf16", "fp32")
_MANY = 10**9
BOUNDS = {  # the least and the largest value of a number; no machine has more rows, and no study more seeds
    "seeds": (1, 1000),
    "train_sentences": (1, _MANY),
    "train_pairs": (1, _MANY),
    "limit": (2, _MANY),
    "workers": (1, 1024),
    "embedding_cache": (0, 10**6),
}


def check_values(options: object) -> None:
    """Raise UsageError for an option that is empty, of a wrong type, or outside of `BOUNDS`; None is always allowed."""
    for one in fields(options):  # type: ignore[arg-type]
        name, kind, value = one.name, one.type, getattr(options, one.name)
        if value is None:
            continue
        if kind.startswith("str") and not isinstance(value, str):
            raise UsageError(f"{name} is {value!r:.100}; give a text, such as names separated by commas.")
        if kind.startswith("int") and type(value) is not int:
            raise UsageError(f"{name} is {value!r:.100}; give a whole number.")
        if isinstance(value, str) and not value.strip() and name != "methods":
            raise UsageError(f"{name} is empty; leave it out, or give it a value.")
        low, high = BOUNDS.get(name, (0, 0))
        if high and not low <= value <= high:
            raise UsageError(f"{name} is {value:.4g} and must be from {low} to {high:,}.")
        if name == "precision" and value not in PRECISIONS:
            raise UsageError(f"precision {value!r:.100} is not one of {', '.join(PRECISIONS)}.")


class EvaluateOptions(TypedDict, total=False):
    """Those of `RunOptions` that `benchmark.evaluate` takes, for editors and type checkers."""

    controls: bool
    label: str | None
    seeds: int | None
    backbone: str | Path | None
    revision: str | None
    corpus: str | Path | None
    pairs: str | Path | None
    columns: str | None
    dev: str | None
    train_sentences: int | None
    train_pairs: int | None
    data: str | Path | None
    device: str
    precision: str
    limit: int | None
    allow_missing: bool
    allow_pickle: bool
    fail_fast: bool
    remeasure: bool
    embedding_cache: float
    tracker: str | None
    tracker_folder: Path | None
    workers: int
    executor: str | None
    gpus_per_encoder: float
    shard: str | None


@dataclass(frozen=True, kw_only=True)
class NamedRunFile:
    """The run file from which options were read, as records state it."""

    name: str  # as it was typed
    sha256: str


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Methods, tasks, texts, device and folders of one run; None leaves a choice to the suite or to the recipe."""

    methods: str  # names, globs, files, name:key=value; comma-separated
    suites: str | None = None  # None: the suites that have `tasks`, else pocket
    tasks: str | None = None
    controls: bool = False  # add the controls that the tasks can score, and the untrained start of each method
    label: str | None = None  # the names of rows: one for each of `methods`, comma-separated
    seeds: int | None = None  # seeds 0..N-1
    backbone: str | None = None
    revision: str | None = None
    corpus: str | None = None
    pairs: str | None = None
    columns: str | None = None  # of the file of `pairs`, else of `corpus`; comma-separated
    dev: str | None = None  # the task whose development pairs pick checkpoints
    train_sentences: int | None = None
    train_pairs: int | None = None
    data: str | None = None
    results: Path = RESULTS
    device: str = "auto"
    precision: str = "auto"
    limit: int | None = None
    allow_missing: bool = False
    allow_pickle: bool = False
    fail_fast: bool = False
    remeasure: bool = False  # measure again the cells that were measured with different code
    embedding_cache: float = 4.0  # gigabytes; 0: none
    tracker: str | None = None  # tensorboard, wandb, mlflow ... or all; comma-separated
    tracker_folder: Path | None = None  # for trackers that write files; None: `trackers` in the results folder
    file: NamedRunFile | None = None
    workers: int = 1  # the most processes of this machine that share the plan
    executor: str | None = None  # "ray", or "ray://HOST:PORT": the machines of a Ray cluster share the plan
    gpus_per_encoder: float = 1.0  # of a Ray cluster: below 1, several encoders share a GPU
    shard: str | None = None  # "i/n": the i-th of n parts of the encoders, i from 1

    def __post_init__(self) -> None:
        check_values(self)

    def part(self) -> tuple[int, int]:
        """Return (index from 0, number of parts) of the part to run; raises UsageError for an invalid shard."""
        if self.shard is None:
            return 0, 1
        number, _, count = self.shard.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise UsageError(f"--shard {self.shard}: give i/n with i from 1 to n, such as 2/8.")
        return int(number) - 1, int(count)

    def trackers(self) -> Trackers | None:
        """Return the trackers to report to; raises UsageError or MissingError for one that is not available."""
        if self.tracker is None:
            if self.tracker_folder is not None:
                raise UsageError(
                    f"--tracker-folder {self.tracker_folder}: name the tracker too, as --tracker tensorboard."
                )
            return None
        from benchmark.run.tracking import find_trackers

        return find_trackers(self.tracker, self.tracker_folder or self.results / "trackers")

    def recipe_defaults(self) -> dict[str, str]:
        """Return values for fields that a recipe leaves open: `backbone` and `revision`, where they are given."""
        given = {"backbone": self.backbone, "revision": self.revision}
        return {name: value for name, value in given.items() if value}
