"""Makes a plan: rows x seeds x tasks give cells with content keys (benchmark.keys). Nothing is trained here.

A run goes through three types: `Request` is what was asked for, a `Row` is a recipe or an object that was resolved, and
an `EncoderPlan` is a row with a seed, what its vectors depend on, and its cells. A `Run` has the plans of a request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmark.keys import cell_key, encoder_key, ingredients, vectors_digest
from benchmark.records.names import printed_names
from benchmark.run.options import RunOptions
from benchmark.tasks.loaded import LoadedTask
from zoo.check import SENTENCES, checked_start, checked_traits
from zoo.encoder import Corpus, Encoder, Runtime, Start, Traits
from zoo.errors import CorruptError, MissingError, ZooError, error_text
from zoo.files import sha256_json
from zoo.plugins import METHODS
from zoo.progress import Progress
from zoo.recipes import RecipeSpec, Tuned


@dataclass(frozen=True)
class TrainingTexts:
    """Sentences or labelled pairs to train on; where there are none, `missing` says why."""

    corpus: Corpus | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Request:
    """What was asked for: the options, and what only the caller of a run can give."""

    options: RunOptions
    command: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    # None: progress goes to standard error.
    progress: Progress | None = None
    # Encoders with the names of their rows, in place of the methods of the options.
    objects: tuple[tuple[str | None, object], ...] = ()
    version: str | None = None
    checkpoints: Mapping[str, Any] = field(default_factory=dict)
    # Training texts that are not read again, by kind.
    texts: Mapping[str, TrainingTexts] = field(default_factory=dict)
    # What was measured or trained until then is made again (--remeasure); "": nothing is.
    since: str = ""


@dataclass(frozen=True)
class Given:
    """An encoder object, and the files that its vectors depend on."""

    encoder: Encoder
    sources: dict[str, Any]
    anew: bool = False


@dataclass(frozen=True)
class Row:
    """A recipe or an object, resolved: all seeds of it are one row of a table."""

    name: str
    cls: type[Encoder]
    recipe: Any
    traits: Traits
    recipe_name: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    # The recipe's name with these settings, where `name` is a label.
    typed: str | None = None
    unstated: tuple[str, ...] = ()
    # The untrained vectors that it starts from. None: it learns nothing.
    start: Start | None = None
    # Added to the run, so that the others are compared with it.
    control: bool = False
    # Of the published training.
    updates: int | None = None
    tuned: Tuned | None = None
    given: Given | None = None

    @property
    def anew(self) -> bool:
        """Whether it is measured in every run, and never from the embedding cache: an object without a version."""
        return self.given is not None and self.given.anew

    @property
    def trained(self) -> bool:
        """Whether it is trained, which takes minutes; a transform that is only fitted does not depend on a seed."""
        return bool(text_kind(self.traits)) and self.traits.stochastic

    def encoder(self, runtime: Runtime) -> Encoder:
        """Return the object, or a new encoder, which is not trained."""
        return self.cls(self.recipe, runtime) if self.given is None else self.given.encoder


@dataclass(frozen=True)
class Inputs:
    """What the vectors of a row depend on beside its recipe, and the key of all of it."""

    row_key: str
    sources: dict[str, Any] = field(default_factory=dict)
    corpus: Corpus | None = None
    corpus_identity: dict[str, object] | None = None
    # Why it cannot run at all (no backbone, for example): its cells are n/a.
    missing: str | None = None
    # What it raised when it was to say what its vectors depend on: its cells fail.
    failed: str | None = None


@dataclass(frozen=True)
class Cell:
    """One encoder and one task to measure it on; the result is one record."""

    task: LoadedTask
    key: str


@dataclass(frozen=True)
class EncoderPlan:
    """One encoder to obtain (by training, fitting or loading), and the cells to measure with it."""

    row: Row
    inputs: Inputs
    # The row's name as it is printed, without the paths in it.
    label: str
    seed: int | None
    # How many seeds, from 0, its row is planned to have. None: it depends on none.
    seeds: int | None
    key: str
    cells: tuple[Cell, ...]
    # The row key of its start, where this is a row of the run too.
    start_key: str | None

    @property
    def round(self) -> int:
        """Its place in the order of a plan: what is not trained has 0, and of trained rows, seed N has N + 1."""
        return 1 + (self.seed or 0) if self.row.trained else 0

    @property
    def title(self) -> str:
        """The printed name with the seed."""
        return self.label if self.seed is None else f"{self.label}, seed {self.seed}"


@dataclass(frozen=True)
class Run:
    """A request that is ready to be carried out: its tasks and training texts are read, its encoders planned."""

    request: Request
    runtime: Runtime
    suites: tuple[str, ...]
    tasks: tuple[LoadedTask, ...]
    # Its development pairs pick checkpoints.
    dev: LoadedTask | None
    texts: Mapping[str, TrainingTexts]
    # First what is not trained, then seed by seed over the rows.
    encoders: tuple[EncoderPlan, ...]
    # About how long each encoder of a row takes, by row key (benchmark.run.estimate).
    seconds: Mapping[str, float] = field(default_factory=dict)
    # How many times as long it takes beside the other work that the machine has as the run begins.
    stretch: float = 1.0

    @property
    def options(self) -> RunOptions:
        return self.request.options


def resolve_methods(specs: Sequence[RecipeSpec], defaults: Mapping[str, Any]) -> list[Row]:
    """Load the class of every recipe and build the recipe; raises UsageError for one that is wrong."""
    rows = []
    for spec in specs:
        cls, recipe = spec.resolve(defaults)
        traits, start = checked_traits(cls, recipe), checked_start(cls, recipe)
        more: dict[str, Any] = {"updates": spec.updates, "tuned": spec.tuned, "overrides": spec.overrides}
        named, parts = spec.recipe_name or spec.name, unstated(cls, traits)
        rows.append(Row(spec.name, cls, recipe, traits, named, unstated=parts, start=start, **more))
    return rows


def unstated(cls: type[Encoder], traits: Traits) -> tuple[str, ...]:
    """Return which of sources, precision and parameters a plugin's class does not state itself."""
    if _is_builtin(cls):
        return ()
    stated = ("precision",) if traits.precision is not None else ()
    return tuple(what for what in Encoder.unstated if what in cls.unstated and what not in stated)


def _is_builtin(cls: type[Encoder]) -> bool:
    name = METHODS.name_of(cls)
    return name is not None and METHODS.is_builtin(name)


def text_kind(traits: Traits) -> str:
    """Return what a method is trained on: "pairs", "target" (the tasks' texts), "neighbours", "corpus", or ""."""
    if traits.needs_pairs or not traits.needs_corpus:
        return "pairs" if traits.needs_pairs else ""
    if traits.reads_target:
        return "target"
    return "neighbours" if traits.needs_neighbours else "corpus"


@dataclass(frozen=True)
class Planner:
    """Plans rows on tasks and training texts that were read."""

    runtime: Runtime
    tasks: Sequence[LoadedTask]
    dev: LoadedTask | None
    texts: Mapping[str, TrainingTexts]
    limit: int | None = None
    # Texts and their identities, by kind and name: a million sentences are hashed once for all rows.
    _hashed: dict[tuple[str, str], tuple[Corpus, dict[str, object]]] = field(default_factory=dict)

    def encoders(self, rows: Sequence[Row], seeds: Sequence[int]) -> tuple[EncoderPlan, ...]:
        """Return the encoders of all rows and seeds with their cells, n/a where a backbone or text is missing."""
        known = [(row, self.inputs(row)) for row in rows]
        labels = printed_names(row.name for row in rows)
        plans = []
        for row, inputs in known:
            planned = max(seeds) + 1 if row.traits.stochastic else None
            start = _start_key(row.start, known)
            for seed in seeds if row.traits.stochastic else [None]:
                key = encoder_key(inputs.row_key, seed)
                cells = tuple(Cell(task, cell_key(key, task.identity())) for task in self.tasks)
                plans.append(EncoderPlan(row, inputs, labels[row.name], seed, planned, key, cells, start))
        return tuple(sorted(plans, key=lambda plan: plan.round))

    def inputs(self, row: Row) -> Inputs:
        """Return what the vectors of a row depend on; one that cannot say it has failed, with the reason."""
        kind = text_kind(row.traits)
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
                inputs = replace(inputs, sources=sources)
            except MissingError as error:
                inputs = replace(inputs, missing=str(error))
            return replace(inputs, row_key=self._row_key(row, inputs))
        except Exception as error:
            # A damaged model, or anything of a plugin: its cells fail, the others go on.
            if isinstance(error, ZooError) and not isinstance(error, CorruptError) and _is_builtin(row.cls):
                # The request itself is wrong.
                raise
            return replace(inputs, corpus=inputs.corpus or texts.corpus, failed=error_text(error))

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
        if inputs.missing is None and not text_kind(row.traits) and not _is_builtin(row.cls):
            made_of = replace(made_of, probe=vectors_digest(row.encoder(self.runtime).encode, SENTENCES))
        return made_of.key()


def _start_key(start: Start | None, rows: Sequence[tuple[Row, Inputs]]) -> str | None:
    """Return the row key of the row that is a start, or None where none of them is."""
    if start is None:
        return None
    for row, inputs in rows:
        if METHODS.name_of(row.cls) == start.method and row.recipe == start.recipe:
            return inputs.row_key
    return None
