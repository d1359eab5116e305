"""Scores of templates on STS-B dev, one JSON record each, so that a killed search goes on where it stood."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmark.tasks.base import PairsData
from zoo.conformance import check_vectors
from zoo.encoder import Runtime, Vectors
from zoo.engine.backbone import Backbone
from zoo.engine.batching import EncodingStats, encode_table
from zoo.engine.tokens import TokenTable
from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import read_json, sha256_json, slug, write_json
from zoo.hardware import utc_now
from zoo.modules.templates import BoundTemplate, Template
from zoo.progress import Bar, Progress

RECORD_VERSION = 1
Result = dict[str, Any]
"""A record: `template`, `status` ("ok" or "failed"), `spearman` (-1..1 or None), `reason`, `seconds`, `key` ..."""


class DevScorer:
    """Scores templates on STS-B dev with one backbone: the sentences are tokenised once, not once a template."""

    def __init__(self, backbone: Backbone, data: PairsData, runtime: Runtime, *, period: bool = False) -> None:
        """`period` ends every sentence in a period, as PromptBERT's released evaluation does."""
        assert data.dev is not None
        self.backbone, self.data, self.period = backbone, data, period
        self.runtime = dataclasses.replace(runtime, progress=Progress.silent())
        self.texts = list(dict.fromkeys(data.dev.texts()))
        self.rows = {text: row for row, text in enumerate(self.texts)}
        self.stats = EncodingStats()
        self._sentences: dict[str, TokenTable] = {}  # with and without a blank in front, which RoBERTa's tokens keep

    def table(self, bound: BoundTemplate) -> TokenTable:
        """Return the prompted rows of the dev sentences."""
        longest = self.backbone.max_length
        room = bound.room(longest)
        if bound.lead not in self._sentences:
            self._sentences[bound.lead] = bound.sentences(self.texts, longest)
        sentences = self._sentences[bound.lead]
        if int(sentences.lengths.max(initial=0)) > room:
            return bound.table(self.texts, longest)
        return bound.fill(sentences)

    def vectors(self, template: str) -> Vectors:
        """Return the [MASK] states (n, dim) float32 of the distinct dev sentences (Eq. 2)."""
        bound = Template.parse(template).bind(self.backbone.tokenizer, period=self.period)

        def forward(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return bound.mask_states(self.backbone.model, ids, mask)

        vectors = encode_table(
            self.table(bound),
            forward,
            dim=self.backbone.dim,
            pad_id=self.backbone.pad_id,
            runtime=self.runtime,
            stats=self.stats,
        )
        check_vectors(vectors, self.texts, self.backbone.dim, f"template {template!r}")
        return vectors

    def __call__(self, template: str) -> float | None:
        """Return the Spearman correlation (-1..1), or None where it is undefined (constant cosines)."""
        vectors = self.vectors(template)
        score = self.data.score_dev(lambda texts: vectors[[self.rows[text] for text in texts]])
        return None if math.isnan(score) else score / 100


@dataclass
class Search:
    """The records of one search's conditions; scores only the templates that have none."""

    folder: Path
    conditions: dict[str, Any]
    environment: dict[str, Any]
    scorer: Callable[[str], float | None]
    progress: Progress
    stop: Callable[[], None] = lambda: None  # raises when the search has to end

    def __post_init__(self) -> None:
        self.key = sha256_json(self.conditions)
        self.results: dict[str, Result] = {}  # of this run, scored or read
        self.scored, self.seconds, self.done = 0, 0.0, 0

    def score(self, templates: Sequence[str], bar: Bar) -> list[Result]:
        """Return the results of templates in their order; failures are recorded and the others go on."""
        for template in templates:
            self.stop()
            self.done += 1
            if template in self.results:
                continue
            kept = self._read(template)
            self.results[template] = kept or self._measure(template)
            if kept is None:
                bar.update(self.done, self._note())
        return [self.results[template] for template in templates]

    def best(self, results: Iterable[Result]) -> list[Result]:
        """Return the scored results, highest first; of equals the one tried first."""
        return sorted((r for r in results if r["status"] == "ok"), key=lambda r: -r["spearman"])

    def _note(self) -> str:
        best = self.best(self.results.values())
        rate = f"{self.scored / max(self.seconds, 1e-9):.1f} templates/s"
        return f"{rate}, best {100 * best[0]['spearman']:.2f}: {best[0]['template']}" if best else rate

    def _path(self, template: str) -> Path:
        return self.folder / "records" / f"{slug(template)}.json"

    def _read(self, template: str) -> Result | None:
        path = self._path(template)
        try:
            record = read_json(path)
            if not _is_record(record):
                raise CorruptError(f"{path} is no record of a template.")
        except MissingError:
            return None
        except CorruptError as error:
            self.progress.say(f"warning: {error} It is scored again.")
            return None
        same = (record["template"], record["key"]) == (template, self.key)
        return dict(record) if same and record["status"] == "ok" else None

    def _measure(self, template: str) -> Result:
        started, began = utc_now(), time.perf_counter()
        score, reason = None, None
        try:
            score = self.scorer(template)
            reason = "constant_scores" if score is None else None
        except ZooError as error:  # one template's failure is recorded; the others go on
            reason = str(error)
        seconds = time.perf_counter() - began
        self.scored, self.seconds = self.scored + 1, self.seconds + seconds
        record: Result = {
            "schema": RECORD_VERSION,
            "key": self.key,
            "template": template,
            "status": "failed" if score is None else "ok",
            "reason": reason,
            "spearman": score,
            "seconds": round(seconds, 4),
            "started": started,
            "conditions": self.conditions,
            "environment": self.environment,
        }
        write_json(self._path(template), record)
        return record


def _is_record(record: object) -> bool:
    if not isinstance(record, dict) or not {"template", "key", "status", "spearman", "seconds"} <= set(record):
        return False
    score = record["spearman"]
    return record["status"] != "ok" or (isinstance(score, float) and -1 <= score <= 1)
