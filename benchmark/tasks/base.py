"""The interface of a task: its texts, and its scores of their vectors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Required, TypedDict

import numpy as np

from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource, Located
from benchmark.metrics import VERSIONS
from benchmark.metrics.items import ItemsPart
from zoo.api import create
from zoo.check import problem_of
from zoo.errors import CorruptError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmark.data.sources import DataSource, Located
    from zoo.encoder import Encoder, Run, Vectors


def check_task(task: Task, data: DataSource) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each check, and None or the problem."""
    loaded_data: list[TaskData] = []
    problem = problem_of(type(task), lambda: _load(task, data, loaded_data), "load")
    yield "title, data set and data", problem
    if problem is not None:
        return
    of_data = type(loaded_data[0])
    cls: type[Any] = of_data if of_data.__module__ == type(task).__module__ else type(task)
    parts: list[tuple[str, type, Callable[[], str | None], str]] = [
        ("texts", cls, lambda: _texts(loaded_data[0]), "texts"),
        ("fewer rows with --limit 2", type(task), lambda: _limit(task, data, loaded_data[0].rows), "load"),
    ]
    if not loaded_data[0].trains_encoder:
        parts.append(("score", cls, lambda: _score(loaded_data[0]), "score"))
    for what, owner, test, part in parts:
        problem = problem_of(owner, test, part)
        yield what, problem
        if problem is not None:
            return


def _load(task: Task, data: DataSource, loaded_data: list[TaskData]) -> str | None:
    for name in ("title", "dataset", "form", "metric"):
        if not isinstance(getattr(task, name, None), str):
            return f"{name} must be a text"
    loaded: object = task.load(data)
    if not isinstance(loaded, TaskData):
        return f"load() must return TaskData, not {type(loaded).__name__}"
    if not isinstance(getattr(loaded, "located", None), Located) or not isinstance(getattr(loaded, "rows", None), int):
        return "load() must return TaskData with `located`, where the data lies, and `rows`, their number"
    loaded_data.append(loaded)
    return None


def _texts(data: TaskData) -> str | None:
    for name in ("texts", "tested", "unlabelled"):
        texts: object = getattr(data, name)()
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            return f"{name}() must return a list of texts that is not empty"
    return None


def _limit(task: Task, data: DataSource, rows: int) -> str | None:
    fewer = task.load(data, 2).rows
    return None if 0 < fewer < rows or fewer == rows <= 2 else f"load() returns {fewer} rows of {rows} with limit=2"


def _score(data: TaskData) -> str | None:
    encoder = create("random")
    known, unnamed = set(map(str, data.texts())), set[str]()

    def vectors(texts: Sequence[str]) -> Vectors:
        unnamed.update(set(map(str, texts)) - known)
        return encoder.encode(list(map(str, texts)))

    first, second = (data.score(vectors) for _ in range(2))
    if not isinstance(first, dict) or not isinstance(first.get("main_metric"), str):
        return "score() must return a dictionary with `main`, `main_metric` and `reason`"
    main = first.get("main")
    if not (isinstance(main, float | int) and math.isfinite(main)) and not first.get("reason"):
        return f"score() must return a number as `main`, or None with a `reason`, not {main!r:.40}"
    if main is not None and abs(main) > MOST:
        return f"score() gives {main:g} as `main`; give a fraction, at most 1: tables multiply by 100"
    if unnamed:
        return f"texts() leaves out {len(unnamed)} texts that score() asks for, first {min(unnamed)[:60]!r}"
    return None if second.get("main") == main else "score() gives another score the second time"


# The largest score, but for rounding.
MOST = 1 + 1e-6

PairScores = tuple["NDArray[Any]", "NDArray[Any]"]
"""Predicted and gold scores (n,) of the same pairs, in the order of the data's files."""


class Scores(TypedDict, total=False):
    """`main` (a number, or None with `reason`), `main_metric`, and further results of the task.

    A Spearman correlation adds `pairs`, kept beside the record, an accuracy `items`, kept in it.
    """

    main: Required[float | None]
    main_metric: Required[str]
    reason: Required[str | None]
    pairs: PairScores
    items: ItemsPart
    by_seed: dict[str, dict[str, object]]
    spearman: float | None
    pearson: float | None
    accuracy: float
    accuracy_seven: float
    threshold_accuracy: float
    dev_accuracy: float
    f1: float
    mrr: float
    words: int
    mse: float
    dev_pearson: float | None
    evaluations: int
    protocol: str
    setting: str
    split: str
    penalties: list[float]
    part_accuracies: list[float]
    probe_seconds: float
    mteb: dict[str, dict[str, float]]
    mteb_version: str


class DevOverlap(NamedTuple):
    """The number of development pairs, and of test pairs among them (None: not measured)."""

    pairs: int
    in_test: int | None


Lookup = Callable[[Sequence[str]], "Vectors"]


class TaskData(ABC):
    located: Located
    rows: int
    report: str = ""
    device: str = "cpu"
    # True: the runner calls `score_encoder`, which trains the encoder itself.
    trains_encoder: ClassVar[bool] = False
    # Names in `benchmark.metrics.VERSIONS` of what computes its scores.
    metrics: ClassVar[tuple[str, ...]] = ()

    def raised_metrics(self) -> dict[str, int]:
        """Return metric versions above 1, for keys."""
        return {name: VERSIONS[name] for name in self.metrics if VERSIONS[name] > 1}

    @abstractmethod
    def texts(self) -> list[str]: ...

    def tested(self) -> list[str]:
        """Return the `texts` of the test part; default: all."""
        return self.texts()

    def unlabelled(self) -> list[str]:
        """Return all texts of every split, without labels, for a transductive fit."""
        return self.texts()

    @abstractmethod
    def score(self, vectors: Lookup) -> Scores:
        """Return scores; `vectors` maps n texts to vectors (n, dim)."""

    def score_encoder(self, encoder: Encoder, vectors: Lookup, run: Run) -> Scores:
        """Score an encoder; tasks with `trains_encoder` override this and must restore the encoder.

        Raises MissingError for an unsuitable encoder (n/a).
        """
        return self.score(vectors)

    def score_dev(self, vectors: Lookup) -> float:
        """Return the development score x100 to choose checkpoints."""
        raise TypeError(f"{type(self).__name__} has no development split")

    def dev_overlap(self) -> DevOverlap | None:
        return None

    def geometry_dev(self, vectors: Lookup) -> dict[str, float]:
        """Return `alignment` and `uniformity` of the development split; {} if undefined."""
        return {}


class Task(ABC):
    """A row of `zoo-bench tasks`; a plugin's subclass sets these as class variables."""

    title: str
    dataset: str
    form: str = "plain"
    metric: str = "Spearman, cosine"
    # Increased when the same vectors would score differently.
    version: int = 1
    # The installed package that computes the score, if not this project.
    scored_by: ClassVar[str | None] = None
    # Other names that people type; case, hyphens and underscores never matter.
    aliases: tuple[str, ...] = ()
    licence: str = ""
    citation: str = ""

    @abstractmethod
    def load(self, data: DataSource, limit: int | None = None) -> TaskData:
        """Read the data (the first `limit` rows of each subset); raises MissingError or CorruptError."""


Read = Callable[["TaskRow", "DataSource", "int | None"], TaskData]
"""A function that loads a task; its arguments are the task's row, and the data and limit of `Task.load`."""


@dataclass(frozen=True)
class TaskRow(Task):
    name: str
    title: str
    dataset: str
    read: Read
    form: str = "plain"
    metric: str = "Spearman, cosine"
    version: int = 1
    aliases: tuple[str, ...] = ()
    # Suite that it is added to: title of its column.
    suites: Mapping[str, str] = field(default_factory=dict, hash=False)

    def load(self, data: DataSource, limit: int | None = None) -> TaskData:
        return self.read(self, data, limit)


def check_rows(located: Located, split: str, count: int) -> None:
    """Raise CorruptError unless a split has the catalog's number of scored rows."""
    expected = located.dataset.rows[split]
    if count != expected:
        raise CorruptError(
            f"{located.dataset.name} ({located.form}) {split}: {count} scored rows instead of {expected}."
        )


def compare(vectors: Lookup, pairs: Pairs) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return cosines (n,), 0 for a zero vector, and a mask (n,) of pairs without zero vectors."""
    from benchmark.metrics.correlation import cosine

    first, second = vectors(pairs.first), vectors(pairs.second)
    return cosine(first, second), np.asarray(first.any(axis=1) & second.any(axis=1))


class PairsData(TaskData):
    metrics = ("correlation",)

    def __init__(
        self,
        located: Located,
        subsets: dict[str, Pairs],
        dev: Pairs | None = None,
        others: Sequence[str] = (),
        limit: int | None = None,
        # Not scored, and never cut by `limit`.
        train: Pairs | None = None,
    ) -> None:
        self.located, self.train = located, train
        self.subsets = {name: pairs.head(limit) for name, pairs in subsets.items()}
        self.dev = None if dev is None else dev.head(limit)
        # Rows of `dev` that are test pairs. None: not measured.
        self.dev_in_test: Sequence[int] | None = None
        self.others = list(others)
        self.report = "; ".join(filter(None, (pairs.report for pairs in subsets.values())))
        self.rows = sum(len(pairs) for pairs in self.subsets.values())

    def texts(self) -> list[str]:
        return [text for pairs in self.subsets.values() for text in pairs.texts()]

    def unlabelled(self) -> list[str]:
        others = [text for pairs in (self.dev, self.train) if pairs for text in pairs.texts()]
        return list(map(str, self.texts() + others + self.others))

    def score(self, vectors: Lookup) -> Scores:
        """Return `all`, `mean`, `wmean` and per-subset Spearman and Pearson; `main` is the `all` Spearman, of `pairs`.

        A pair with a zero vector (an uncovered text) has cosine 0 and stays in every score; `covered` is `all` without
        such pairs.
        """
        return self.score_cosines([compare(vectors, pairs) for pairs in self.subsets.values()])

    def score_cosines(self, cosines: Sequence[tuple[NDArray[Any], NDArray[np.bool_]]]) -> Scores:
        """Score subsets' cosines (n,), each with a mask (n,) of pairs without zero vectors."""
        from benchmark.metrics.correlation import aggregate, correlations, undefined

        # As they are kept: whoever has the pair scores computes the same score to the last digit.
        compared = [
            (cos.astype(np.float32).astype(np.float64), covered, pairs.gold)
            for (cos, covered), pairs in zip(cosines, self.subsets.values(), strict=True)
        ]
        result = aggregate({name: (cos, gold) for name, (cos, _, gold) in zip(self.subsets, compared, strict=True)})
        known = [(cos[covered], gold[covered]) for cos, covered, gold in compared]
        predicted, gold = (np.concatenate(side) for side in zip(*known, strict=True))
        result["covered"] = {"pairs": len(gold), **correlations(predicted, gold)}
        main = result["all"]["spearman"]
        kept: PairScores = (
            np.concatenate([cos for cos, _, _ in compared]),
            np.concatenate([gold for _, _, gold in compared]),
        )
        reason = undefined(*kept, known=len(gold))
        return {"main": main, "main_metric": "all_spearman", "reason": reason, **result, "pairs": kept}  # type: ignore[typeddict-item]

    def score_dev(self, vectors: Lookup) -> float:
        """Return Spearman x100; NaN if undefined."""
        from benchmark.metrics.correlation import correlations

        if self.dev is None:
            return super().score_dev(vectors)
        value = correlations(compare(vectors, self.dev)[0], self.dev.gold)["spearman"]
        return float("nan") if value is None else 100 * value

    def dev_overlap(self) -> DevOverlap | None:
        if self.dev is None:
            return None
        rows = self.dev_in_test
        return DevOverlap(len(self.dev), None if rows is None else sum(row < len(self.dev) for row in rows))

    def geometry_dev(self, vectors: Lookup) -> dict[str, float]:
        """Return alignment of dev pairs above 4, uniformity of all dev sentences (SimCSE, footnote 3)."""
        from benchmark.metrics.geometry import alignment, uniformity

        if self.dev is None or not (self.dev.gold > 4).any():
            return {}
        first, second = vectors(self.dev.first), vectors(self.dev.second)
        positive = self.dev.gold > 4
        everything = vectors(list(dict.fromkeys(self.dev.texts())))
        return {"alignment": alignment(first[positive], second[positive]), "uniformity": uniformity(everything)}
