"""Scores templates on STS-B dev, with one JSON record per template, so that a killed search can be continued."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeGuard

from benchmark.reasons import reason
from benchmark.run.vectors import VectorStore
from benchmark.tasks.base import PairsData
from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone
from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import read_signed, sha256_json, slug, write_signed
from zoo.machine import utc_now
from zoo.methods.prompt import Prompt, PromptRecipe
from zoo.progress import Bar, Progress

RECORD_VERSION = 1


class HasSpearman(TypedDict):
    """Anything that has the correlation of a template, or None."""

    spearman: float | None


class Result(HasSpearman):
    """The record of one template under the conditions of a search."""

    schema: int
    key: str
    template: str
    status: Literal["ok", "failed"]
    reason: str | None
    seconds: float
    started: str
    conditions: dict[str, Any]
    environment: dict[str, Any]


def spearman_of(result: HasSpearman) -> float:
    """Return a template's correlation, or -inf if it has none, so that it is sorted last."""
    return -math.inf if result["spearman"] is None else result["spearman"]


class DevScorer:
    """Scores templates on development pairs: vectors of the method `prompt`, scored as a run scores a checkpoint."""

    def __init__(self, backbone: Backbone, data: PairsData, runtime: Runtime, *, period: bool = False) -> None:
        """Make a scorer; `period` adds a period to sentences without an end mark, as PromptBERT's evaluation does."""
        assert data.dev is not None
        recipe = PromptRecipe(backbone=backbone.source.name, template="[X] [MASK]", period=period)
        self.encoder = Prompt(recipe, dataclasses.replace(runtime, progress=Progress.silent()), backbone)
        self.data, self.texts = data, data.dev.texts()

    def vectors(self, template: str) -> VectorStore:
        """Return the [MASK] states (n, dim) float32 of the distinct dev sentences (Eq. 2)."""
        self.encoder.put_in(template)
        store = VectorStore(self.encoder, f"template {template!r}")
        store.add(self.texts)
        return store

    def __call__(self, template: str) -> float | None:
        """Return the Spearman correlation (-1..1), or None where it is undefined (constant cosines)."""
        score = self.data.score_dev(self.vectors(template))
        return None if math.isnan(score) else score / 100


@dataclass
class Search:
    """Keeps the records of a search under its conditions, and scores the templates that have no record."""

    folder: Path
    conditions: dict[str, Any]
    environment: dict[str, Any]
    scorer: Callable[[str], float | None]
    progress: Progress
    stop: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.key = sha256_json(self.conditions)
        self.results: dict[str, Result] = {}
        self.scored, self.seconds, self.done = 0, 0.0, 0

    def score(self, templates: Sequence[str], bar: Bar) -> list[Result]:
        """Return the results of templates in their order; a failure is recorded, and the search continues."""
        for template in templates:
            self.stop()
            self.done += 1
            if template in self.results:
                continue
            recorded = self._read(template)
            self.results[template] = recorded or self._measure(template)
            if recorded is None:
                bar.update(self.done, self._note())
        return [self.results[template] for template in templates]

    def best(self, results: Iterable[Result]) -> list[Result]:
        """Return the scored results, highest first; ties keep the order of trying."""
        return sorted((r for r in results if r["status"] == "ok"), key=spearman_of, reverse=True)

    def _note(self) -> str:
        best = self.best(self.results.values())
        rate = f"{self.scored / max(self.seconds, 1e-9):.1f} templates/s"
        return f"{rate}, best {100 * spearman_of(best[0]):.2f}: {best[0]['template']}" if best else rate

    def _path(self, template: str) -> Path:
        return self.folder / "records" / f"{slug(template)}.json"

    def _read(self, template: str) -> Result | None:
        path = self._path(template)
        try:
            record = read_signed(path)
            if not _is_record(record):
                raise CorruptError(f"{path} is no record of a template.")
        except MissingError:
            return None
        except CorruptError as error:
            self.progress.say(f"warning: {error} It is scored again.")
            return None
        same = (record["template"], record["key"]) == (template, self.key)
        return record if same and record["status"] == "ok" else None

    def _measure(self, template: str) -> Result:
        started, began = utc_now(), time.perf_counter()
        score, why = None, None
        try:
            score = self.scorer(template)
            why = reason("constant") if score is None else None
        except ZooError as error:
            # One template's failure is recorded; the others go on.
            why = str(error)
        seconds = time.perf_counter() - began
        self.scored, self.seconds = self.scored + 1, self.seconds + seconds
        record: Result = {
            "schema": RECORD_VERSION,
            "key": self.key,
            "template": template,
            "status": "failed" if score is None else "ok",
            "reason": why,
            "spearman": score,
            "seconds": round(seconds, 4),
            "started": started,
            "conditions": self.conditions,
            "environment": self.environment,
        }
        write_signed(self._path(template), record)
        return record


def _is_record(record: dict[str, object]) -> TypeGuard[Result]:
    if not {"template", "key", "status", "reason", "spearman", "seconds"} <= set(record):
        return False
    score = record["spearman"]
    return record["status"] != "ok" or (isinstance(score, float) and -1 <= score <= 1)
