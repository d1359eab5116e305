"""The contract of a task: which texts it needs vectors of, and the scores it makes from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from benchmark.data.readers import Pairs

if TYPE_CHECKING:
    from benchmark.data.sources import DataSource, Located
    from zoo.encoder import Vectors

Scores = dict[str, Any]
"""`main` (a number, or None with `reason`), `main_metric`, and whatever else the task measures."""

Lookup = Callable[[Sequence[str]], "Vectors"]


class TaskData(ABC):
    """A task's rows in memory."""

    located: Located
    rows: int
    device: str = "cpu"  # where scoring may compute; the runner sets it

    @abstractmethod
    def texts(self) -> list[str]:
        """Return the texts whose vectors scoring needs."""

    def unlabelled(self) -> list[str]:
        """Return all texts of the data set, of every split, without labels: what a transductive method may fit on."""
        return self.texts()

    @abstractmethod
    def score(self, vectors: Lookup) -> Scores:
        """Return scores from a function that gives the vectors (n, dim) of n texts."""

    def score_dev(self, vectors: Lookup) -> float:
        """Return the development score x100 that picks checkpoints; tasks without a dev split have none."""
        raise TypeError(f"{type(self).__name__} has no development split")

    def geometry_dev(self, vectors: Lookup) -> dict[str, float]:
        """Return `alignment` and `uniformity` of the development split, for the training log; {} where undefined."""
        return {}


class Task(ABC):
    """One row of `zoo-bench tasks`; subclasses set the class variables and load their data."""

    title: ClassVar[str]
    dataset: ClassVar[str]
    form: ClassVar[str] = "plain"
    metric: ClassVar[str] = "Spearman, cosine"
    version: ClassVar[int] = 1  # raised when the same vectors would score differently

    @abstractmethod
    def load(self, data: DataSource, limit: int | None = None) -> TaskData:
        """Read the data (the first `limit` rows of each subset); raises MissingError or CorruptError."""


class PairsData(TaskData):
    """Scored pairs in subsets; the score is the correlation of cosine and gold."""

    def __init__(
        self,
        located: Located,
        subsets: dict[str, Pairs],
        dev: Pairs | None = None,
        others: Sequence[str] = (),
        limit: int | None = None,
    ) -> None:
        self.located = located
        self.subsets = {name: pairs.head(limit) for name, pairs in subsets.items()}
        self.dev = None if dev is None else dev.head(limit)
        self.others = list(others)
        self.rows = sum(len(pairs) for pairs in self.subsets.values())

    def texts(self) -> list[str]:
        """Both sides of all subsets."""
        return [text for pairs in self.subsets.values() for text in pairs.texts()]

    def unlabelled(self) -> list[str]:
        """Both sides of all subsets and splits."""
        return self.texts() + ([] if self.dev is None else self.dev.texts()) + self.others

    def score(self, vectors: Lookup) -> Scores:
        """Return `all`, `mean`, `wmean` and per-subset Spearman and Pearson; `main` is the `all` Spearman."""
        from benchmark.metrics.correlation import aggregate, cosine

        scored = {
            name: (cosine(vectors(pairs.first), vectors(pairs.second)), pairs.gold)
            for name, pairs in self.subsets.items()
        }
        result = aggregate(scored)
        main = result["all"]["spearman"]
        reason = None if main is not None else "constant_scores"
        return {"main": main, "main_metric": "all_spearman", "reason": reason, **result}

    def score_dev(self, vectors: Lookup) -> float:
        """Return the Spearman x100 of the development split (NaN when it is undefined)."""
        from benchmark.metrics.correlation import correlations, cosine

        if self.dev is None:
            return super().score_dev(vectors)
        value = correlations(cosine(vectors(self.dev.first), vectors(self.dev.second)), self.dev.gold)["spearman"]
        return float("nan") if value is None else 100 * value

    def geometry_dev(self, vectors: Lookup) -> dict[str, float]:
        """Alignment of the dev pairs scored above 4, uniformity of all dev sentences (SimCSE, footnote 3)."""
        from benchmark.metrics.geometry import alignment, uniformity

        if self.dev is None or not (self.dev.gold > 4).any():
            return {}
        first, second = vectors(self.dev.first), vectors(self.dev.second)
        positive = self.dev.gold > 4
        everything = vectors(list(dict.fromkeys(self.dev.texts())))
        return {"alignment": alignment(first[positive], second[positive]), "uniformity": uniformity(everything)}
