"""Makes a plan: methods x seeds x tasks give cells with content keys (benchmark.keys). Nothing is trained here."""

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
class Cell:
    """One encoder and one task to measure it on; the result is one record."""

    task: LoadedTask
    key: str


@dataclass(frozen=True)
class EncoderPlan:
    """One encoder to obtain (by training, fitting or loading), and the cells to measure with it.

    `resolve_methods` gives a row's settings, `identify` adds what its vectors depend on, `make_plan` seeds and cells.
    """

    name: str
    cls: type[Encoder]
    recipe: Any
    traits: Traits
    recipe_name: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    # The recipe's name with these settings, where `name` is a label.
    typed: str | None = None
    unstated: tuple[str, ...] = ()
    # Measured in every run, and never from the embedding cache: an object without a version.
    anew: bool = False
    # The untrained vectors that it starts from. None: it learns nothing.
    start: Start | None = None
    # Added to the run, so that the others are compared with it.
    control: bool = False
    updates: int | None = None
    tuned: Tuned | None = None
    given: Encoder | None = None
    sources: dict[str, Any] = field(default_factory=dict)
    # Why it cannot run at all (no backbone, for example): its cells are n/a.
    missing: str | None = None
    # What it raised when it was to say what its vectors depend on: its cells fail.
    failed: str | None = None
    corpus: Corpus | None = None
    corpus_identity: dict[str, object] | None = None
    row_key: str = ""
    seed: int | None = None
    # How many seeds, from 0, its row is planned to have. None: it depends on none.
    seeds: int | None = None
    key: str = ""
    cells: tuple[Cell, ...] = ()
    called: str = ""
    start_key: str | None = None
    # About how long it takes (benchmark.run.estimate). 0: not known.
    seconds: float = 0.0

    def encoder(self, runtime: Runtime) -> Encoder:
        """Return the object, or a new encoder, which is not trained."""
        return self.cls(self.recipe, runtime) if self.given is None else self.given

    @property
    def trained(self) -> bool:
        """Whether it is trained, which takes minutes; a transform that is only fitted does not depend on a seed."""
        return bool(text_kind(self.traits)) and self.traits.stochastic

    @property
    def round(self) -> int:
        """Its place in the order of a plan: what is not trained has 0, and of trained rows, seed N has N + 1."""
        return 1 + (self.seed or 0) if self.trained else 0

    @property
    def label(self) -> str:
        """The name as it is printed, without the paths in it."""
        return self.called or self.name

    @property
    def title(self) -> str:
        """The printed name with the seed."""
        return self.label if self.seed is None else f"{self.label}, seed {self.seed}"


@dataclass(frozen=True)
class TrainingTexts:
    """Sentences or labelled pairs to train on; where there are none, `missing` says why."""

    corpus: Corpus | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Run:
    """A run: what was asked for, and what `prepare` finds for it."""

    options: RunOptions
    command: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    progress: Progress | None = None
    given: tuple[tuple[str | None, object], ...] | None = None
    version: str | None = None
    # What was measured or trained until then is made again (--remeasure); "": nothing is.
    since: str = ""
    checkpoints: Mapping[str, Any] = field(default_factory=dict)
    runtime: Runtime = field(default_factory=Runtime)
    suites: tuple[str, ...] = ()
    methods: tuple[EncoderPlan, ...] = ()
    tasks: tuple[LoadedTask, ...] = ()
    dev: LoadedTask | None = None
    texts: Mapping[str, TrainingTexts] = field(default_factory=dict)
    # First what is not trained, then seed by seed over the methods.
    encoders: tuple[EncoderPlan, ...] = ()

    def for_worker(self, options: RunOptions) -> Run:
        """Return what another process needs to prepare the same run, and to print what it does."""
        progress = Progress(enabled=self.runtime.progress.enabled)
        return Run(options, self.command, self.plugins, progress, since=self.since, checkpoints=self.checkpoints)


def resolve_methods(specs: Sequence[RecipeSpec], defaults: Mapping[str, Any]) -> list[EncoderPlan]:
    """Load the class of every recipe and build the recipe; raises UsageError for one that is wrong."""
    resolved = []
    for spec in specs:
        cls, recipe = spec.resolve(defaults)
        traits, start = checked_traits(cls, recipe), checked_start(cls, recipe)
        parts = unstated(cls, traits)
        more: dict[str, Any] = {"updates": spec.updates, "tuned": spec.tuned, "overrides": spec.overrides}
        named = spec.recipe_name or spec.name
        resolved.append(EncoderPlan(spec.name, cls, recipe, traits, named, unstated=parts, start=start, **more))
    return resolved


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


def make_plan(methods: Sequence[EncoderPlan], seeds: Sequence[int], run: Run) -> tuple[EncoderPlan, ...]:
    """Return the encoders of all methods and seeds with their cells, n/a where a backbone or text is missing."""
    hashed: Hashed = {}
    rows = [identify(method, run, hashed) for method in methods]
    called = printed_names(row.name for row in rows)
    encoders = []
    for row in rows:
        row = replace(row, called=called[row.name], start_key=_start_key(row.start, rows))
        planned = max(seeds) + 1 if row.traits.stochastic else None
        for seed in seeds if row.traits.stochastic else [None]:
            key = encoder_key(row.row_key, seed)
            cells = tuple(Cell(task, cell_key(key, task.identity())) for task in run.tasks)
            encoders.append(replace(row, seed=seed, seeds=planned, key=key, cells=cells))
    return tuple(sorted(encoders, key=lambda plan: plan.round))


Hashed = dict[tuple[str, str], tuple[Corpus, dict[str, object]]]
"""Training texts and their identities, by kind and name: a million sentences are hashed once for all methods."""


def identify(method: EncoderPlan, run: Run, hashed: Hashed) -> EncoderPlan:
    """Return a method with what its vectors depend on; one that cannot say it has failed, with the reason."""
    kind = text_kind(method.traits)
    texts = run.texts.get(kind, TrainingTexts())
    unknown = sha256_json({"method": method.name, "failed": True})
    now = replace(method, row_key=unknown, missing=texts.missing)
    try:
        if texts.corpus is not None:
            read = method.cls.reads(method.recipe, texts.corpus)
            if (kind, read.name) not in hashed:
                hashed[kind, read.name] = read, read.identity()
            corpus, identity = hashed[kind, read.name]
            now = replace(now, corpus=corpus, corpus_identity=identity)
        try:
            if method.given is None:
                now = replace(now, sources=method.cls.sources(method.recipe, run.runtime))
        except MissingError as error:
            now = replace(now, missing=str(error))
        return replace(now, row_key=_row_key(now, run))
    except Exception as error:
        # A damaged model, or anything of a plugin: its cells fail, the others go on.
        if isinstance(error, ZooError) and not isinstance(error, CorruptError) and _is_builtin(method.cls):
            # The request itself is wrong.
            raise
        return replace(now, corpus=now.corpus or texts.corpus, failed=error_text(error))


def _row_key(method: EncoderPlan, run: Run) -> str:
    dev = run.dev
    made_of = ingredients(
        method.cls,
        method.recipe,
        method.traits,
        method.sources,
        corpus=method.corpus_identity,
        dev=dev.identity() if dev is not None and dev.data is not None else None,
        precision=method.traits.precision or run.runtime.precision,
        limit=run.options.limit,
    )
    if method.missing is None and not text_kind(method.traits) and not _is_builtin(method.cls):
        made_of = replace(made_of, probe=vectors_digest(method.encoder(run.runtime).encode, SENTENCES))
    return made_of.key()


def _start_key(start: Start | None, methods: Sequence[EncoderPlan]) -> str | None:
    """Return the row key of the method that is a start, or None where none of them is."""
    if start is None:
        return None
    same = (m.row_key for m in methods if METHODS.name_of(m.cls) == start.method and m.recipe == start.recipe)
    return next(same, None)
