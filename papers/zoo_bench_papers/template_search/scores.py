"""Scores templates on STS-B dev, a JSON record per template: a killed search can go on."""

from __future__ import annotations

import dataclasses
import math
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeGuard

from benchmark.reasons import reason
from benchmark.report.markdown import code_block, code_span, markdown_row
from benchmark.report.write import csv_text
from benchmark.run.vectors import VectorStore
from benchmark.tasks.base import PairsData
from zoo import __version__
from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone
from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import read_signed, sha256_json, slug, write_json, write_signed, write_text
from zoo.machine import utc_now
from zoo.methods.prompt import Prompt, PromptRecipe
from zoo.progress import Bar, Progress, print_safe

RECORD_VERSION = 1


class HasSpearman(TypedDict):
    spearman: float | None


class Result(HasSpearman):
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
    """A template's correlation, or -inf, sorted last."""
    return -math.inf if result["spearman"] is None else result["spearman"]


class DevScorer:
    """Scores on development pairs: vectors of the method `prompt`, scored as a run scores a checkpoint."""

    def __init__(self, backbone: Backbone, data: PairsData, runtime: Runtime, *, period: bool = False) -> None:
        """`period` adds a period to sentences without an end mark, as in PromptBERT's evaluation."""
        assert data.dev is not None
        recipe = PromptRecipe(backbone=backbone.source.name, template="[X] [MASK]", period=period)
        self.encoder = Prompt(recipe, dataclasses.replace(runtime, progress=Progress.silent()), backbone)
        self.data, self.texts = data, data.dev.texts()

    def vectors(self, template: str) -> VectorStore:
        """[MASK] states (n, dim) float32 of the distinct dev sentences (Eq. 2)."""
        self.encoder.put_in(template)
        store = VectorStore(self.encoder, f"template {template!r}")
        store.add(self.texts)
        return store

    def __call__(self, template: str) -> float | None:
        """Spearman correlation (-1..1), or None if undefined (constant cosines)."""
        score = self.data.score_dev(self.vectors(template))
        return None if math.isnan(score) else score / 100


@dataclass
class Search:
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
        """Results of templates in order; a failure is recorded, and the search continues."""
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


class TemplateRow(HasSpearman):
    stage: str
    template: str
    published: float | None
    reason: str | None
    seconds: float


@dataclass(frozen=True)
class SearchTable:
    kind: str
    conditions: dict[str, Any]
    stages: dict[str, list[Result]]
    # Spearman x100 of bert-base-uncased by template.
    published: dict[str, float]
    command: list[str]
    environment: dict[str, Any]

    def rows(self) -> list[TemplateRow]:
        rows: list[TemplateRow] = []
        for stage, results in self.stages.items():
            for result in sorted(results, key=spearman_of, reverse=True):
                rows.append(
                    {
                        "stage": stage,
                        "template": result["template"],
                        "spearman": None if result["spearman"] is None else 100 * result["spearman"],
                        "published": self.published.get(result["template"]),
                        "reason": result["reason"],
                        "seconds": result["seconds"],
                    }
                )
        return rows

    def best(self, count: int) -> list[TemplateRow]:
        scored = [row for row in self.rows() if row["spearman"] is not None]
        return sorted(scored, key=spearman_of, reverse=True)[:count]


def _score(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"


def markdown(table: SearchTable) -> str:
    conditions, environment = table.conditions, table.environment
    data, backbone = conditions["data"], conditions["backbone"]
    period = "a" if conditions["representation"].endswith(" a period added") else "no"
    lines = [f"# Templates on {data['task']} dev", "", "Made by:", "", *code_block([shlex.join(table.command)]), ""]
    lines += [
        f"Spearman x100 on the first {data['pairs']} pairs of {data['task']} dev ({data['form']}): cosine of the [MASK]"
        f" states of {backbone['name']} in {conditions['precision']}, {period} period added. Published: PromptBERT,"
        " table 4 and section 4.2, bert-base-uncased on all 1500 pairs of STS-B dev.",
        "",
    ]
    best = {row["template"] for row in table.best(1)}
    rows = table.rows()
    for stage in table.stages:
        lines += [f"## {stage}", "", f"| Template | {data['task']} dev | Published |", "|:--|--:|--:|"]
        for row in (row for row in rows if row["stage"] == stage):
            score = f"**{_score(row['spearman'])}**" if row["template"] in best else _score(row["spearman"])
            published = "" if row["published"] is None else _score(row["published"])
            lines.append(markdown_row([code_span(row["template"]), score, published]))
        lines.append("")
    notes = [f"- {code_span(row['template'])}: {row['reason']}" for row in rows if row["spearman"] is None]
    if notes:
        lines += ["Not available:", "", *notes, ""]
    device = environment["gpu"] or f"{environment['cpu']}, {environment['threads']} threads"
    packages = environment["packages"]
    lines.append(
        f"zoo-bench {__version__}, torch {packages['torch']}, transformers {packages['transformers']}; {device};"
        f" scoring took {sum(row['seconds'] for row in rows):.0f} s."
    )
    return "\n".join(lines) + "\n"


def write_search(table: SearchTable, folder: Path) -> list[Path]:
    paths = [folder / f"{table.kind}.{ending}" for ending in ("md", "csv", "json")]
    rows = table.rows()
    write_text(paths[0], markdown(table))
    write_text(paths[1], csv_text(rows))
    content = {"kind": table.kind, "command": table.command, "conditions": table.conditions}
    write_json(paths[2], {**content, "environment": table.environment, "version": __version__, "rows": rows})
    return paths


def print_best(table: SearchTable, count: int = 10) -> None:
    for row in table.best(count):
        print_safe(f"{_score(row['spearman']):>6}  {row['template']}", sys.stdout)
    failed = sum(row["spearman"] is None for row in table.rows())
    if failed:
        print_safe(f"{failed} without a score; the tables say why", sys.stdout)
