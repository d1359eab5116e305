"""Makes a plan: methods x seeds x tasks give cells with content keys (benchmark.identity). Nothing is trained here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from benchmark.identity import cell_key, encoder_key, ingredients, scorer_digest, vectors_digest
from benchmark.records.names import printed_names
from benchmark.run.contain import contained
from benchmark.run.marks import Asked
from benchmark.tasks.loaded import LoadedTask
from zoo.conformance import PROBES, checked_start, checked_traits
from zoo.encoder import Corpus, Encoder, Runtime, Start, Traits
from zoo.errors import ContractError, CorruptError, MissingError, UsageError, ZooError, said
from zoo.files import sha256_json
from zoo.identity import code_digest
from zoo.recipe import RecipeSpec
from zoo.registry import METHODS


@dataclass(frozen=True)
class ResolvedMethod:
    """A recipe with its method's class and the frozen dataclass of its values; no model is loaded yet."""

    name: str
    cls: type[Encoder]
    recipe: Any
    traits: Traits
    recipe_name: str | None = None  # the recipe's, where `name` is a label
    unstated: tuple[str, ...] = ()  # see `unstated`
    anew: bool = False  # measured again in every run, and never from the embedding cache: an object without a version
    failed: str | None = None  # the error that asking for its recipe, traits or start raised
    start: Start | None = None  # the untrained vectors that it starts from; None: it learns nothing
    control: bool = False  # added to the run, so that the others are compared with it


@dataclass(frozen=True)
class TrainingTexts:
    """Sentences or labelled pairs to train on; where there are none, `missing` says why."""

    corpus: Corpus | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Cell:
    """One encoder and one task to measure it on; the result is one record."""

    task: LoadedTask
    key: str
    scorer: str  # digest of the code that turns vectors into the task's score


@dataclass(frozen=True)
class EncoderPlan:
    """One encoder to obtain (by training, fitting or loading), and the cells to measure with it."""

    name: str
    cls: type[Encoder]
    recipe: Any
    traits: Traits
    sources: dict[str, Any]
    seed: int | None
    key: str
    row_key: str
    cells: tuple[Cell, ...]
    code: str  # digest of the code that makes the vectors
    missing: str | None = None  # why it cannot run at all (no backbone, for example): its cells are n/a
    failed: str | None = None  # the error that the method's code raised while planning: its cells have failed
    corpus: Corpus | None = None  # what it is trained on: sentences, or labelled pairs
    corpus_identity: dict[str, Any] | None = None
    recipe_name: str | None = None  # the recipe's, where `name` is a label
    unstated: tuple[str, ...] = ()  # what a plugin does not state (see `unstated`): records leave it open
    called: str = ""  # the printed name, where that is shorter
    control: bool = False  # added to the run, so that the others are compared with it
    start: str | None = None  # the row key of the untrained vectors that it starts from, if the run has them
    anew: bool = False  # see ResolvedMethod
    vectors: str | None = None  # digest of a plugin's vectors of the tasks' texts; None for a built-in method

    @property
    def shown(self) -> str:
        """The name as it is printed, without the paths in it."""
        return self.called or self.name


@dataclass
class Plan:
    """All encoders of a run, in order."""

    encoders: list[EncoderPlan] = field(default_factory=list)

    def cells(self) -> int:
        """Number of cells."""
        return sum(len(encoder.cells) for encoder in self.encoders)


@dataclass(frozen=True)
class _NoRecipe:
    """In place of the recipe of a plugin's class that has none."""


def resolve_methods(specs: Sequence[RecipeSpec], defaults: Mapping[str, Any]) -> list[ResolvedMethod]:
    """Load the class of every recipe and build the recipe; raises UsageError for one that is wrong.

    A plugin's class that cannot give its recipe, traits or start is returned with what is wrong: its cells fail.
    """
    resolved = []
    for spec in specs:
        cls, recipe, traits, start, failed = METHODS.get(spec.method), _NoRecipe(), Traits(), None, None
        asked = "recipe"
        try:
            cls, recipe = spec.resolve(defaults)
            asked = "traits"
            traits = checked_traits(cls, recipe)
            asked = "start"
            start = checked_start(cls, recipe)
        except UsageError:
            raise
        except (Exception, SystemExit) as error:  # of a plugin: its cells fail, the others go on
            failed = f"its {asked}: {said(error)}"
        left = unstated(cls, traits)
        resolved.append(ResolvedMethod(spec.name, cls, recipe, traits, unstated=left, failed=failed, start=start))
    return resolved


_DEFAULT_SOURCES = getattr(Encoder.sources, "__func__", None)


def unstated(cls: type[Encoder], traits: Traits) -> tuple[str, ...]:
    """Return which of sources, precision and parameters a plugin's class does not state itself.

    A plugin derived from a built-in method inherits its statements; a built-in method states them all.
    """
    if _is_builtin(cls):
        return ()
    ours = any(parent.__module__.startswith("zoo.") for parent in cls.__mro__ if parent is not Encoder)
    left = {
        "sources": getattr(cls.sources, "__func__", None) is _DEFAULT_SOURCES,
        "precision": traits.precision is None and not ours,
        "parameters": cls.parameters is Encoder.parameters,
    }
    return tuple(what for what, open_ in left.items() if open_)


def _is_builtin(cls: type[Encoder]) -> bool:
    name = METHODS.name_of(cls)
    return name is not None and METHODS.is_builtin(name)


def _checked_sources(sources: Any) -> dict[str, Any]:
    """Return the result of `sources()`; raises ContractError unless it maps names to plain values."""
    try:
        sha256_json(sources)
        if isinstance(sources, dict) and all(isinstance(name, str) for name in sources):
            return sources
    except (TypeError, ValueError, RecursionError):
        pass
    raise ContractError(f"sources() must return names with their identity in plain values, not {sources!r:.100}.")


def _known_by(method: ResolvedMethod, runtime: Runtime, tasks: Sequence[LoadedTask]) -> tuple[str, list[str | None]]:
    """Return digests of a plugin's vectors, before training: of fixed texts, and of 64 texts of each task with data."""
    made: list[Encoder] = []

    def encode(texts: Sequence[str]) -> object:
        if not made:
            made.append(method.cls(method.recipe, runtime))
        return made[0].encode(texts)

    with contained():
        return vectors_digest(encode, PROBES), [
            None if task.data is None else vectors_digest(encode, task.sample) for task in tasks
        ]


def text_kind(traits: Traits) -> str:
    """Return what a method is trained on: "pairs", "neighbours" (a corpus with its documents), "corpus", or ""."""
    if traits.needs_pairs or not traits.needs_corpus:
        return "pairs" if traits.needs_pairs else ""
    return "neighbours" if traits.needs_neighbours else "corpus"


def make_plan(
    methods: Sequence[ResolvedMethod],
    tasks: Sequence[LoadedTask],
    *,
    seeds: Sequence[int],
    runtime: Runtime,
    dev: LoadedTask | None,
    limit: int | None,
    corpus: TrainingTexts | None = None,
    neighbours: TrainingTexts | None = None,
    pairs: TrainingTexts | None = None,
    asked: Asked | None = None,
) -> Plan:
    """Return the encoders and cells of all methods and seeds; `asked` marks the plugin method whose code is running.

    `neighbours` is the corpus for methods that need to know which sentences follow each other. Where a backbone or a
    training text is missing, the cells of the methods that need it are n/a.
    """
    plan = Plan()
    scorers = [scorer_digest(task.task) for task in tasks]
    row_keys: list[str] = []  # of the methods
    called = printed_names(method.name for method in methods)
    given = {"corpus": corpus, "neighbours": neighbours, "pairs": pairs, "": None}
    texts = {kind: text or TrainingTexts() for kind, text in given.items()}
    parts: dict[tuple[str, str], tuple[Corpus, dict[str, Any]]] = {}  # a million sentences are hashed once
    for method in methods:
        kind = text_kind(method.traits)
        sources, missing, failed = {}, texts[kind].missing, method.failed
        text, identity = texts[kind].corpus, None
        row_key = sha256_json({"method": method.name, "failed": True})  # for a method whose properties are unknown
        code, known = row_key, list[str | None]([None] * len(tasks))
        noted = ExitStack()
        try:
            if (
                asked is not None
                and not _is_builtin(method.cls)
                and (died := noted.enter_context(asked.asking(method.name)))
            ):
                raise ContractError(died)
            if text is not None:
                text = method.cls.reads(method.recipe, text)
                if (kind, text.name) not in parts:
                    parts[kind, text.name] = text, text.identity()
                text, identity = parts[kind, text.name]
            try:
                sources = _checked_sources(method.cls.sources(method.recipe, runtime))
            except MissingError as error:
                missing = str(error)
            parts_of = method.cls.code_parts(method.recipe)
            made_of = ingredients(
                method.cls,
                method.recipe,
                method.traits,
                sources,
                corpus=identity,
                dev=dev.identity() if dev is not None and dev.data is not None else None,
                precision=method.traits.precision or runtime.precision,
                limit=limit,
            )
            if missing is None and failed is None and not all(map(_is_builtin, parts_of)):
                probed, known = _known_by(method, runtime, tasks)
                made_of = replace(made_of, probe=probed)
            row_key = made_of.key()
            code = code_digest(*parts_of)
        except ZooError as error:
            if _is_builtin(method.cls) and not isinstance(error, CorruptError):
                raise  # the request itself is wrong; this is not merely one damaged model
            failed = failed or str(error)
        except (Exception, SystemExit) as error:  # of a plugin: its cells fail, the others go on
            failed = failed or f"the method cannot say what it is: {said(error)}"
        finally:
            noted.close()
        row_keys.append(row_key)
        for seed in seeds if method.traits.stochastic else [None]:
            key = encoder_key(row_key, seed)
            cells = tuple(
                Cell(task, cell_key(key, task.identity(), vectors), scorer)
                for task, scorer, vectors in zip(tasks, scorers, known, strict=True)
            )
            plan.encoders.append(
                EncoderPlan(
                    method.name,
                    method.cls,
                    method.recipe,
                    method.traits,
                    sources,
                    seed,
                    key,
                    row_key,
                    cells,
                    code,
                    missing,
                    failed,
                    corpus=text,
                    corpus_identity=identity,
                    recipe_name=method.recipe_name,
                    unstated=method.unstated,
                    called=called[method.name],
                    control=method.control,
                    anew=method.anew,
                    vectors=sha256_json(known) if any(known) else None,
                )
            )
    starts = {key: _row_key_of(method.start, methods, row_keys) for method, key in zip(methods, row_keys, strict=True)}
    plan.encoders = [replace(encoder, start=starts[encoder.row_key]) for encoder in plan.encoders]
    return plan


def _row_key_of(start: Start | None, methods: Sequence[ResolvedMethod], row_keys: Sequence[str]) -> str | None:
    """Return the row key of the method that is a start, or None where none of them is."""
    if start is None:
        return None
    pairs = zip(methods, row_keys, strict=True)
    return next((key for m, key in pairs if METHODS.name_of(m.cls) == start.method and m.recipe == start.recipe), None)
