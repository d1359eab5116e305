"""An encoder's cells: encode the texts of all its tasks once, score task by task, and make each cell's record."""

from __future__ import annotations

import dataclasses
import math
import shutil
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from benchmark.data.corpora import normalised_texts, overlap
from benchmark.keys import PROTOCOL_VERSION, code_digest
from benchmark.metrics.geometry import simplex
from benchmark.metrics.items import ItemsPart, accuracy_of, valued_part
from benchmark.reasons import reason
from benchmark.records.query import spearman
from benchmark.records.record import (
    MOST_OF_TRACEBACK,
    SCHEMA_VERSION,
    Adapt,
    Coverage,
    Encoding,
    Environment,
    MeasuredPart,
    MethodPart,
    MethodTraits,
    OverlapPart,
    Record,
    ScoresPart,
    Status,
    TaskPart,
    TrainingPart,
    TunedPart,
    plain,
)
from benchmark.run.cache import EmbeddingCache, Entry
from benchmark.run.fit import Fitter, read_fit, training_run
from benchmark.run.plan import Cell, EncoderPlan, Run
from benchmark.run.rows import Row, is_builtin
from benchmark.run.stop import Stop
from benchmark.run.vectors import Blocks, Timed, VectorStore, facts_of
from benchmark.tasks.base import PairScores, Scores, TaskData
from zoo import __version__
from zoo.check import probe
from zoo.encoder import Corpus, Encoder
from zoo.errors import ContractError, CorruptError, Interrupted, MissingError, ZooError, error_text
from zoo.files import slug
from zoo.machine import environment, forget_peak_memory, peak_memory_mb, utc_now
from zoo.recipes import portable_recipe

# Texts of a task that are encoded again, each alone.
_ALONE = 8


@dataclass(frozen=True)
class Measured:
    """The outcome of measuring a cell; `more` has the fields of its record that depend on the outcome."""

    cell: Cell
    status: Status
    reason: str | None = None
    pairs: PairScores | None = None
    more: MeasuredPart = field(default_factory=lambda: MeasuredPart())
    # Data, weights or a training text is not there or damaged, so no record is kept.
    absent: bool = False
    # Another machine may do without it.
    doubtful: bool = False


def not_measured(plan: EncoderPlan, cell: Cell) -> Measured | None:
    """Return why a cell cannot be measured at all, or None where it can."""
    if plan.inputs.failed is not None:
        return Measured(cell, "failed", plan.inputs.failed)
    if plan.inputs.missing is not None:
        return Measured(cell, "n/a", plan.inputs.missing, absent=True)
    if cell.task.data is None:
        return Measured(cell, "failed" if cell.task.damaged else "n/a", cell.task.reason, absent=True)
    return None


@contextmanager
def _tried(cells: Sequence[Cell], measured: list[Measured]) -> Iterator[None]:
    """Add failed or n/a cells, with the reason, for what is raised inside the block; the others go on."""
    try:
        yield
    except Interrupted:
        raise
    except Exception as error:
        more: MeasuredPart = {}
        if not isinstance(error, ZooError):
            # Its end says most.
            more = {"traceback": "".join(traceback.format_exception(error))[-MOST_OF_TRACEBACK:]}
        status: Status = "n/a" if isinstance(error, MissingError) else "failed"
        doubtful = not getattr(error, "anywhere", False)
        measured += [Measured(cell, status, error_text(error), more=more, doubtful=doubtful) for cell in cells]


class Overlap:
    """Finds the test texts that are in the training text; a corpus is normalised once for all cells."""

    def __init__(self) -> None:
        self._corpus: Corpus | None = None
        self._texts: set[str] = set()

    def of(self, corpus: Corpus, cell: Cell) -> dict[str, Any]:
        """Return the number of distinct test texts of the cell's task, and the digests of those in the corpus."""
        assert cell.task.data is not None
        if self._corpus is not corpus:
            self._corpus, self._texts = corpus, normalised_texts(corpus.sentences)
        tested = normalised_texts(cell.task.data.tested())
        return {"texts": len(tested), "digests": overlap(self._texts, tested)}


class EncoderMeasurement:
    """An encoder and its vectors, from which its cells are scored in turn."""

    def __init__(
        self,
        plan: EncoderPlan,
        folder: Path,
        fitter: Fitter,
        cache: EmbeddingCache | None,
        stop: Stop,
        overlap: Overlap,
    ) -> None:
        self.plan = plan
        self.folder = folder
        self._fitter, self._runtime = fitter, fitter.run.runtime
        # Vectors that depend on the task, and those of an object that has no version, are not cached.
        self._cache = None if plan.row.traits.transductive or plan.row.uncached else cache
        self._stop = stop
        self._overlap = overlap
        self._encoder: Encoder | None = None
        self._was_fitted = False
        self._stats_before: dict[str, object] = {}
        self._timed = Timed()
        self._blocks = Blocks(stop.check)
        self._store = VectorStore(self.encoder, plan.label, self._entry, self._timed, self._blocks)
        self._adapted: tuple[list[str], VectorStore] | None = None
        self._adaptation: Adapt | None = None
        self._peak_from_mb: float | None = None

    def encoder(self) -> Encoder:
        """Return the encoder; the first call loads or fits it."""
        if self._encoder is None:
            encoder = self._fitter.obtain(self.plan, self.folder, self._peak_from_mb)
            self._fit()
            asked = self._stop.asked
            probe(encoder, self.plan.label)
            if self._stop.asked == asked:
                self._blocks.shorten()
            self._encoder, self._stats_before = encoder, dict(encoder.encoding_stats())
        return self._encoder

    def _fit(self) -> dict[str, Any]:
        """Return the content of fit.json, {} if nothing was fitted; raises CorruptError if it has gone since."""
        fit = read_fit(self.folder)
        if fit is None and self._was_fitted:
            raise CorruptError(
                f"{self.folder} was removed or changed during the run, and with it what the record says of the"
                " training; run the same command again, which trains it anew."
            )
        self._was_fitted = fit is not None
        return fit or {}

    def _entry(self) -> Entry | None:
        if self._cache is None:
            return None
        fitted = self._fit().get("files")
        return self._cache.entry(self.plan.key, fitted, self._runtime.device)

    def read(self, several: Sequence[TaskData]) -> None:
        """Encode the texts of several tasks together: last digits depend on which texts are in a batch."""
        self._store.add([text for data in several for text in data.texts()])

    def measure(self, cells: Sequence[Cell]) -> Iterator[Measured]:
        """Yield each cell when it is measured; raises Interrupted after a signal. Every cell must have data."""
        # The peak of earlier encoders does not count.
        self._peak_from_mb = forget_peak_memory(self._runtime.device)
        measured: list[Measured] = []
        with _tried(cells, measured):
            if self.plan.row.traits.transductive:
                self.encoder()
                # Tasks on the same texts follow each other, so that a fit on these texts serves them all.
                cells = sorted(cells, key=lambda cell: (cell.task.task.dataset, cell.task.task.form))
            else:
                self.read([cell.task.data for cell in cells if cell.task.data])
        # An encoder that lacks a package or weights leaves no record.
        if measured:
            yield from (dataclasses.replace(cell, absent=cell.status == "n/a") for cell in measured)
            return
        for cell in cells:
            self._stop.check()
            with _tried([cell], measured):
                measured.append(self.measure_cell(cell))
            yield measured.pop()

    def vectors_for(self, texts: list[str]) -> VectorStore:
        """Return the vectors for scoring a data set with these unlabelled texts."""
        if not self.plan.row.traits.transductive:
            return self._store
        if self._adapted is None or self._adapted[0] != texts:
            # The previous vectors are freed.
            self._adapted = None
            encoder, started = self.encoder(), time.perf_counter()
            adapted = encoder.adapt(texts)
            seconds = round(time.perf_counter() - started, 3)
            self._adaptation = {"seconds": seconds, "texts": len(set(texts)), "rank": adapted.fitted_rank()}
            self._adapted = texts, VectorStore(adapted, self.plan.label, timed=self._timed, blocks=self._blocks)
        return self._adapted[1]

    def measure_cell(self, cell: Cell) -> Measured:
        """Measure a cell; raises what encoder or task raise."""
        started = time.perf_counter()
        data = cell.task.data
        assert data is not None
        vectors = self.vectors_for(data.unlabelled())
        if self._adaptation is not None and (why := simplex(self._adaptation["rank"], self._adaptation["texts"])):
            return Measured(cell, "n/a", why, more={"adapt": self._adaptation, "facts": self._facts(vectors)})
        data.device = self._runtime.device
        coverage = vectors.coverage(data.texts())
        if self.plan.row.traits.needs_every_text and (without := vectors.unknown(data.texts())):
            return Measured(cell, "n/a", reason("uncovered", without=without, texts=coverage["texts"]))
        if without := coverage["texts"] - coverage["covered"]:
            texts = f"{without:,} of {coverage['texts']:,} texts have the zero vector; their cosines are 0"
            self._runtime.progress.say(f"{self.plan.label} on {cell.task.name}: {texts}")
        if shared := coverage.get("shared"):
            texts = f"{shared:,} of {coverage['texts']:,} different texts have the vector of another text"
            self._runtime.progress.say(f"warning: {self.plan.label} on {cell.task.name}: {texts}.")
        # A task that trains the encoder resumes from this folder.
        folder = self.folder / f"{slug(cell.task.name)}-{cell.key[:16]}"
        training = training_run(self._fitter.run, self.plan, folder)
        scores = data.score_encoder(vectors.encoder, vectors, training) if data.trains_encoder else data.score(vectors)
        if data.trains_encoder:
            shutil.rmtree(folder, ignore_errors=True)
        if not data.trains_encoder:
            self._check_alone(cell, vectors)
        pairs, items = scores.pop("pairs", None), scores.pop("items", None)
        if items is not None:
            items, scores = _packed(dict(items), scores, data)
        finite = scores["main"] is not None and math.isfinite(scores["main"])
        if finite and pairs is not None:
            _check_pairs(scores["main"], pairs)
        return Measured(
            cell,
            "ok" if finite else "failed",
            None if finite else scores["reason"] or reason("not finite", score=scores["main"]),
            pairs if finite else None,
            {
                "scores": cast("ScoresPart", scores),
                "coverage": cast("Coverage", coverage),
                "training": self._training(cell),
                "encoding": self._encoding(),
                "adapt": self._adaptation,
                **cast("MeasuredPart", {} if items is None else {"items": items}),
                "facts": self._facts(vectors),
                "seconds": time.perf_counter() - started,
            },
        )

    def _check_alone(self, cell: Cell, vectors: VectorStore) -> None:
        """Raise ContractError if a text of the task has another vector alone; a built-in method's may be rounded."""
        if self._encoder is None or (is_builtin(self.plan.row.cls) and self._runtime.precision != "fp32"):
            return
        before = self.encoder().encoding_stats()
        try:
            vectors.check_alone(cell.task.sample[:_ALONE])
        except ContractError:
            if (entry := self._entry()) is not None:
                shutil.rmtree(entry.folder, ignore_errors=True)
            raise
        # The record counts the texts of tasks, and these are encoded a second time.
        for name, value in self.encoder().encoding_stats().items():
            if isinstance(value, int | float) and isinstance(counted := self._stats_before.get(name), int | float):
                self._stats_before[name] = counted + value - before.get(name, 0)

    def _training(self, cell: Cell) -> TrainingPart | None:
        training: TrainingPart | None = self._fit().get("training")
        if training is None or self.plan.inputs.corpus is None:
            return training
        return {**training, "overlap": cast("OverlapPart", self._overlap.of(self.plan.inputs.corpus, cell))}

    def _facts(self, vectors: VectorStore) -> dict[str, object]:
        cached = self._store.cached_facts
        facts = facts_of(vectors.encoder) if self._encoder is not None or cached is None else cached
        if self.plan.row.given is not None and self.plan.row.given.unfitted:
            facts = {**facts, "fitted": False}
        return {**facts, "parameters": None} if "parameters" in self.plan.row.unstated else facts

    def _encoding(self) -> Encoding:
        """Return counts and speed of the encoding for measuring; texts from the embedding cache do not count."""
        result: dict[str, Any] = {"texts": 0, "tokens": 0, "truncated": 0, "seconds": 0.0}
        if self._encoder is not None:
            result = dict(self._encoder.encoding_stats())
            uncounted = result.get("seconds", 0.0) == self._stats_before.get("seconds", 0.0)
            # The run times a method that states no seconds.
            if "seconds" not in result or (uncounted and self._timed.texts):
                result |= {"texts": self._timed.texts, "seconds": self._timed.seconds}
                self._stats_before |= {"texts": 0, "seconds": 0.0}
            for name in ("texts", "tokens", "truncated", "seconds"):
                if result.get(name) is not None:
                    result[name] = round(result[name] - self._stats_before[name], 6)
        if "seconds" in result:
            for name in ("texts", "tokens"):
                if name not in result:
                    continue
                rate = round(result[name] / result["seconds"], 1) if result["seconds"] else None
                result[f"{name}_per_second"] = rate
        if self._store.cached:
            result |= {"cached": self._store.cached, "truncated": None}
        if self._store.cached and not result["texts"]:
            # Memory is no encoder's where none has encoded.
            return cast("Encoding", {**result, "peak_memory_mb": None, "peak_from_mb": None})
        peak = peak_memory_mb(self._runtime.device)
        return cast("Encoding", {**result, "peak_memory_mb": peak, "peak_from_mb": self._peak_from_mb})


def _packed(items: dict[str, Any], scores: Scores, data: TaskData) -> tuple[ItemsPart, Scores]:
    """Pack a plugin's `{"values": [...]}`; raises ContractError unless the main score is their mean."""
    if "right" in items:
        return cast("ItemsPart", items), scores
    part = valued_part(items["values"], [data.located.sha256, *map(str, data.tested())])
    mean, main = accuracy_of(part), scores["main"]
    if main is None or abs(mean - main) > 1e-9:
        raise ContractError(f"score() gives {main} as `main`, and the mean of its items' values is {mean}.")
    # To the last digit, as a reader computes it.
    return part, cast("Scores", {**scores, "main": mean})


def _check_pairs(main: float | None, pairs: PairScores) -> None:
    """Raise ContractError unless the main score is Spearman's correlation of the kept pairs, as readers take it."""
    again = spearman(*pairs)
    if main is None or again is None or abs(100 * main - again) > 0.01:
        raise ContractError(
            f"score() gives {main} as `main`, and Spearman's correlation of its `pairs` is {(again or 0) / 100:.6f}."
            " Take `pairs` out of the scores where `main` is another number."
        )


def method_part(row: Row, sources: dict[str, Any]) -> MethodPart:
    """Return a method as records state it, with the files that its vectors depend on."""
    method: MethodPart = {
        "name": row.name,
        "version": row.cls.version,
        "recipe_name": row.recipe_name,
        "overrides": plain(row.overrides),
        "class": f"{row.cls.__module__}.{row.cls.__qualname__}",
        "recipe": portable_recipe(row.recipe, sources),
        "sources": sources,
        "traits": cast("MethodTraits", dataclasses.asdict(row.traits)),
    }
    if row.typed is not None:
        method["typed"] = row.typed
    if row.tuned is not None:
        method["tuned"] = cast("TunedPart", dataclasses.asdict(row.tuned))
    if row.unstated:
        method["unstated"] = list(row.unstated)
    return method


def record_of(plan: EncoderPlan, measured: Measured, run: Run) -> Record:
    """Return the record of a measured, failed or n/a cell."""
    cell, data, file = measured.cell, measured.cell.task.data, run.options.file
    stated = {"run_file": file and dataclasses.asdict(file), "seeds": plan.seeds, "start_key": plan.start_key}
    source, rows = (None, None) if data is None else (data.located.source, data.rows)
    task = cast("TaskPart", {**cell.task.identity(), "source": source, "rows": rows})
    if data is not None and data.located.revision is not None:
        task["revision"] = data.located.revision
    return {
        "schema": SCHEMA_VERSION,
        "protocol": PROTOCOL_VERSION,
        "key": cell.key,
        "encoder_key": plan.key,
        "row_key": plan.inputs.row_key,
        "status": measured.status,
        "reason": measured.reason,
        "method": method_part(plan.row, plan.inputs.sources),
        "task": task,
        "seed": plan.seed,
        "precision": plan.row.traits.precision or run.runtime.precision,
        "limit": run.options.limit,
        "scores": None,
        "coverage": None,
        "training": None,
        "encoding": None,
        "adapt": None,
        "facts": {},
        "environment": cast("Environment", environment(run.runtime.device)),
        "started": utc_now(),
        "seconds": 0.0,
        "version": __version__,
        "code": {"digest": code_digest()},
        "command": list(run.request.command),
        **cast("MeasuredPart", {key: value for key, value in stated.items() if value} | measured.more),
    }
