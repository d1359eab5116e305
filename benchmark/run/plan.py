"""Makes a plan: rows x seeds x tasks give cells with content keys (benchmark.keys). Nothing is trained here.

`Request` has the options. A `Row` is a resolved recipe or object. An `EncoderPlan` is a row with a seed, its inputs and
its cells. A `Run` is a request with its plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmark.keys import cell_key, encoder_key, ingredients, vectors_digest
from benchmark.records.folder import Records
from benchmark.records.names import printed_names, short_name
from benchmark.run.options import RunOptions
from benchmark.run.rows import Named, Row, is_builtin
from benchmark.tasks.loaded import LoadedTask
from zoo.check import SENTENCES
from zoo.encoder import Corpus, Runtime, Start
from zoo.engine.backbone import BackboneSource, find_backbone
from zoo.errors import CorruptError, MissingError, ZooError, error_text
from zoo.files import sha256_json
from zoo.plugins import METHODS
from zoo.progress import Progress


@dataclass(frozen=True)
class TrainingTexts:
    """Sentences or labelled pairs to train on, or the reason of their absence."""

    corpus: Corpus | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Request:
    """The options of a run, and what only its caller can give."""

    options: RunOptions
    command: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    # None: progress on standard error.
    progress: Progress | None = None
    # Instead of the options' methods.
    objects: tuple[Named, ...] = ()
    version: str | None = None
    checkpoints: Mapping[str, Any] = field(default_factory=dict)
    # Training texts in memory, by kind.
    texts: Mapping[str, TrainingTexts] = field(default_factory=dict)
    # Older records and weights are made again (--remeasure). "": none.
    since: str = ""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a row's vectors beside its recipe, and the key of both."""

    row_key: str
    sources: dict[str, Any] = field(default_factory=dict)
    # The recipe's checkpoint.
    backbone: BackboneSource | None = None
    corpus: Corpus | None = None
    corpus_identity: dict[str, object] | None = None
    # Why its cells are n/a: no backbone, for example.
    missing: str | None = None
    # Why its cells fail: an exception while its inputs were read.
    failed: str | None = None


@dataclass(frozen=True)
class Cell:
    """A task of an encoder. Its result is a record."""

    task: LoadedTask
    key: str


@dataclass(frozen=True)
class EncoderPlan:
    """An encoder to train, fit or load, with its cells."""

    row: Row
    inputs: Inputs
    # The row's printed name, without paths.
    label: str
    seed: int | None
    # The planned seeds of its row, from 0. None: no seed.
    seeds: int | None
    key: str
    cells: tuple[Cell, ...]
    # The row key of its start. None: the start is no row of the run.
    start_key: str | None

    @property
    def round(self) -> int:
        """Its place in the plan's order: 0 without training, else the seed + 1."""
        return 1 + (self.seed or 0) if self.row.trained else 0

    @property
    def title(self) -> str:
        return self.label if self.seed is None else f"{self.label}, seed {self.seed}"

    @property
    def sentences(self) -> int:
        """The number of training sentences; 0 without training."""
        corpus = self.inputs.corpus if self.row.trained and self.inputs.missing is None else None
        return 0 if corpus is None else len(corpus.sentences)

    @property
    def cost(self) -> float:
        """Its relative cost, in training sentences. An untrained encoder costs about a hundred."""
        return 100.0 + self.sentences * float(getattr(self.row.recipe, "epochs", 1))


@dataclass(frozen=True)
class Run:
    """A request ready to run, with its tasks, training texts and planned encoders."""

    request: Request
    runtime: Runtime
    suites: tuple[str, ...]
    tasks: tuple[LoadedTask, ...]
    # Picks checkpoints.
    dev: LoadedTask | None
    texts: Mapping[str, TrainingTexts]
    # The untrained first, then all rows of a seed, seed by seed.
    encoders: tuple[EncoderPlan, ...]
    # Estimated seconds of an encoder, by row key (benchmark.run.estimate).
    seconds: Mapping[str, float] = field(default_factory=dict)
    # The slowdown by other work on the machine, as a factor.
    stretch: float = 1.0
    # The number of processes.
    workers: int = 1

    @property
    def options(self) -> RunOptions:
        return self.request.options

    def open_cells(self, plan: EncoderPlan, records: Records) -> list[Cell]:
        """An encoder's cells without a score, or with one older than --remeasure."""

        def is_open(cell: Cell) -> bool:
            record = None if plan.row.uncached else records.finished(plan.row.name, cell.task.name, cell.key)
            return record is None or record["started"] <= self.request.since

        return [cell for cell in plan.cells if is_open(cell)]


@dataclass(frozen=True)
class Planner:
    """Plans rows for tasks and training texts in memory."""

    runtime: Runtime
    tasks: Sequence[LoadedTask]
    dev: LoadedTask | None
    texts: Mapping[str, TrainingTexts]
    limit: int | None = None
    # Texts and their identities, by kind and name: a million sentences are hashed once for all rows.
    _hashed: dict[tuple[str, str], tuple[Corpus, dict[str, object]]] = field(default_factory=dict)

    def encoders(
        self, rows: Sequence[Row], seeds: Sequence[int], part: tuple[int, int] = (0, 1)
    ) -> tuple[EncoderPlan, ...]:
        """Return the encoders of all rows and seeds, or a part of them, with their cells."""
        known = [(row, self.inputs(row)) for row in rows]
        labels = printed_names(row.name for row in rows)
        plans = []
        for row, inputs in known:
            label = labels[row.name] + (f" ({short_name(row.typed)})" if row.typed not in (None, row.name) else "")
            planned = max(seeds) + 1 if row.traits.stochastic else None
            start = _start_key(row.start, known)
            for seed in seeds if row.traits.stochastic else [None]:
                key = encoder_key(inputs.row_key, seed)
                cells = tuple(Cell(task, cell_key(key, task.identity())) for task in self.tasks)
                plans.append(EncoderPlan(row, inputs, label, seed, planned, key, cells, start))
        return shard(sorted(plans, key=lambda plan: plan.round), *part)

    def inputs(self, row: Row) -> Inputs:
        """Return the inputs of a row's vectors, or the reason of their absence."""
        kind = row.text_kind
        texts = self.texts.get(kind, TrainingTexts())
        inputs = Inputs(sha256_json({"method": row.name, "failed": True}), missing=texts.missing)
        try:
            if texts.corpus is not None:
                read = row.cls.reads(row.recipe, texts.corpus)
                if (kind, read.name) not in self._hashed:
                    self._hashed[kind, read.name] = read, read.identity()
                corpus, identity = self._hashed[kind, read.name]
                inputs = replace(inputs, corpus=corpus, corpus_identity=identity)
            try:
                sources = row.cls.sources(row.recipe, self.runtime) if row.given is None else row.given.sources
                inputs = replace(inputs, sources=sources, backbone=self._backbone(row, sources))
            except MissingError as error:
                inputs = replace(inputs, missing=str(error))
            return replace(inputs, row_key=self._row_key(row, inputs))
        except Exception as error:
            # A damaged model or a plugin's fault: its cells fail. The other rows go on.
            if isinstance(error, ZooError) and not isinstance(error, CorruptError) and is_builtin(row.cls):
                # The request itself is wrong.
                raise
            return replace(inputs, corpus=inputs.corpus or texts.corpus, failed=error_text(error))

    def _backbone(self, row: Row, sources: Mapping[str, Any]) -> BackboneSource | None:
        if "backbone" not in sources or not hasattr(row.recipe, "backbone"):
            return None
        revision = getattr(row.recipe, "revision", None)
        return find_backbone(row.recipe.backbone, revision, allow_pickle=self.runtime.allow_pickle)

    def _row_key(self, row: Row, inputs: Inputs) -> str:
        made_of = ingredients(
            row.cls,
            row.recipe,
            row.traits,
            inputs.sources,
            corpus=inputs.corpus_identity,
            dev=self.dev.identity() if self.dev is not None and self.dev.data is not None else None,
            precision=row.traits.precision or self.runtime.precision,
            limit=self.limit,
        )
        if inputs.missing is None and not row.text_kind and not is_builtin(row.cls):
            made_of = replace(made_of, probe=vectors_digest(row.encoder(self.runtime).encode, SENTENCES))
        return made_of.key()


def _start_key(start: Start | None, rows: Sequence[tuple[Row, Inputs]]) -> str | None:
    """Return the row key of a start, or None if it is no row."""
    if start is None:
        return None
    # The class's name is looked up for few of them.
    alike = ((row, inputs) for row, inputs in rows if row.recipe == start.recipe)
    return next((inputs.row_key for row, inputs in alike if METHODS.name_of(row.cls) == start.method), None)


def shard(encoders: Sequence[EncoderPlan], index: int, parts: int) -> tuple[EncoderPlan, ...]:
    """Return a part of a plan. Every job divides it alike: the dearest encoder first, to the part of least cost."""
    costs = [plan.cost for plan in encoders]
    loads, part_of = [0.0] * parts, {}
    for place in sorted(range(len(encoders)), key=lambda place: (-costs[place], place)):
        part_of[place] = loads.index(min(loads))
        loads[part_of[place]] += costs[place]
    return tuple(plan for place, plan in enumerate(encoders) if part_of[place] == index)
