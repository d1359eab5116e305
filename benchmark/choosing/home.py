"""A user's own test as a task of a run: its development part picks checkpoints and methods, its test part judges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmark.choosing.candidates import CARD, vectors_of
from benchmark.choosing.data import MEASURES, Texts, Values
from benchmark.choosing.measures import measure, score
from benchmark.data.catalog import Dataset
from benchmark.data.sources import DataSource, Located
from benchmark.tasks.base import DevOverlap, Lookup, Scores, Task, TaskData
from zoo.encoder import Encoder, Run
from zoo.files import sha256_json

HOME = "home"


class HomeScores(Scores, total=False):
    """The score of the development part x100, and the value of each unit of the test part."""

    development: float
    values: list[float]


class HomeData(TaskData):
    """Both parts of the user's test."""

    trains_encoder = True

    def __init__(self, development: Texts, test: Texts) -> None:
        self.development, self.test, self.rows = development, test, test.units
        content = [[part.texts, *(a.tolist() for a in (part.first, part.second, part.gold))] for part in self.parts]
        self.located = Located(Dataset(HOME, "own texts", "not stated"), "plain", "folder", {}, sha256_json(content))

    @property
    def parts(self) -> tuple[Texts, Texts]:
        return self.development, self.test

    def texts(self) -> list[str]:
        return [text for part in self.parts for text in part.texts]

    def tested(self) -> list[str]:
        return self.test.texts

    def score(self, vectors: Lookup) -> Scores:
        return self._scores(*(measure(part, vectors(part.texts))[0] for part in self.parts))

    def score_encoder(self, encoder: Encoder, vectors: Lookup, run: Run) -> Scores:
        """Return the scores; an encoder of queries and documents has the roles of its card."""
        if not self.test.queries:
            return self.score(vectors)
        return self._scores(*(measure(part, vectors_of(encoder, part, CARD))[0] for part in self.parts))

    def _scores(self, development: Values, test: Values) -> HomeScores:
        main = float(score(self.test, test[None])[0])
        return {
            "main": main,
            "main_metric": MEASURES[self.test.kind],
            "reason": None,
            "development": 100 * float(score(self.development, development[None])[0]),
            "values": np.asarray(test, np.float64).tolist(),
        }

    def score_dev(self, vectors: Lookup) -> float:
        values = measure(self.development, vectors(self.development.texts))[0]
        return 100 * float(score(self.development, values[None])[0])

    def dev_overlap(self) -> DevOverlap:
        """Return the number of development units, none of which is in the test."""
        return DevOverlap(self.development.units, 0)


@dataclass(frozen=True)
class HomeTask(Task):
    """The task of one user's texts, which is in no registry."""

    data: HomeData
    title: str = "Own texts"
    dataset: str = HOME
    metric: str = "that of the labels"
    version: int = 2

    def load(self, data: DataSource, limit: int | None = None) -> Any:
        """Return the data, which is read already."""
        return self.data
