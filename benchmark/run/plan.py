"""Methods x seeds x tasks -> cells with content keys. Nothing is trained or encoded here.

A key is a sha256 over everything a score depends on; a finished cell is not run again, a changed input is another cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmark.data.sources import DataSource
from benchmark.records.store import PROTOCOL_VERSION
from benchmark.tasks import TASKS, Task, TaskData
from zoo.encoder import Corpus, Encoder, Runtime, Traits
from zoo.errors import CorruptError, MissingError
from zoo.files import sha256_json
from zoo.recipe import RecipeSpec, later_at_default, portable_recipe
from zoo.registry import code_identity


@dataclass(frozen=True)
class LoadedTask:
    """A task with its data, or with the reason why it has none."""

    name: str
    task: Task
    data: TaskData | None
    reason: str | None = None
    damaged: bool = False  # the data is here but wrong: its cells fail instead of being n/a

    def identity(self) -> dict[str, Any]:
        """Return what goes into keys and records."""
        located = self.data.located if self.data is not None else None
        return {
            "name": self.name,
            "version": self.task.version,
            "dataset": self.task.dataset,
            "form": self.task.form,
            "sha256": None if located is None else located.sha256,
        }


@dataclass(frozen=True)
class Cell:
    """One record to be: an encoder measured on a task."""

    task: LoadedTask
    key: str


@dataclass(frozen=True)
class EncoderPlan:
    """One encoder to obtain (train, fit or just load), and the cells measured with it."""

    name: str
    cls: type[Encoder]
    recipe: Any
    traits: Traits
    sources: dict[str, Any]
    seed: int | None
    key: str
    row_key: str
    cells: tuple[Cell, ...]
    missing: str | None = None  # why it cannot run at all (backbone not here, say): its cells are n/a
    corpus: Corpus | None = None  # what it is trained on: sentences, or labelled pairs
    corpus_identity: dict[str, Any] | None = None


@dataclass
class Plan:
    """All encoders of a run, in order."""

    encoders: list[EncoderPlan] = field(default_factory=list)

    def cells(self) -> int:
        """Number of cells."""
        return sum(len(encoder.cells) for encoder in self.encoders)


def load_tasks(names: Sequence[str], data: DataSource, limit: int | None) -> list[LoadedTask]:
    """Load the data of every task; a task whose data is missing keeps the reason."""
    loaded = []
    for name in names:
        task = TASKS.get(name)()
        try:
            loaded.append(LoadedTask(name, task, task.load(data, limit)))
        except (MissingError, CorruptError) as error:
            loaded.append(LoadedTask(name, task, None, str(error), damaged=isinstance(error, CorruptError)))
    return loaded


def encoder_inputs(
    cls: type[Encoder],
    recipe: Any,
    traits: Traits,
    sources: dict[str, Any],
    *,
    corpus: dict[str, Any] | None,
    dev: dict[str, Any] | None,
    precision: str,
    limit: int | None,
) -> dict[str, Any]:
    """Return everything but the seed that an encoder's vectors depend on: what its key hashes."""
    left_out = later_at_default(recipe)
    return {
        "protocol": PROTOCOL_VERSION,
        "code": code_identity(cls),
        "recipe": {k: v for k, v in portable_recipe(recipe, sources).items() if k not in left_out},
        "sources": sources,
        "corpus": corpus,
        "dev": dev if traits.picks_checkpoint else None,
        "precision": precision,
        "limit": limit,
    }


def make_plan(
    specs: Sequence[RecipeSpec],
    tasks: Sequence[LoadedTask],
    *,
    seeds: Sequence[int],
    runtime: Runtime,
    defaults: dict[str, Any],
    corpus: Corpus | None,
    dev: LoadedTask | None,
    limit: int | None,
    no_corpus: str | None = None,
    pairs: Corpus | None = None,
    no_pairs: str | None = None,
) -> Plan:
    """Resolve every method and seed into encoders and cells.

    Raises UsageError for a recipe that is wrong. A backbone that is not here, or a text (`no_corpus` and `no_pairs` say
    why), makes the cells of the methods that need it n/a.
    """
    plan = Plan()
    texts = {"corpus": corpus, "pairs": pairs}
    identities = {kind: None if text is None else text.identity() for kind, text in texts.items()}
    resolved = [(spec, *spec.resolve(defaults)) for spec in specs]  # every recipe is checked before anything runs
    for spec, cls, recipe in resolved:
        traits = cls.traits(recipe)
        kind = "pairs" if traits.needs_pairs else "corpus" if traits.needs_corpus else ""
        sources, missing = {}, {"pairs": no_pairs, "corpus": no_corpus}.get(kind)
        try:
            sources = cls.sources(recipe, runtime)
        except MissingError as error:
            missing = str(error)
        inputs = encoder_inputs(
            cls,
            recipe,
            traits,
            sources,
            corpus=identities.get(kind),
            dev=dev.identity() if dev is not None and dev.data is not None else None,
            precision=runtime.precision,
            limit=limit,
        )
        row_key = sha256_json(inputs)
        for seed in seeds if traits.stochastic else [None]:
            key = sha256_json({"row": row_key, "seed": seed})
            cells = tuple(Cell(task, sha256_json({"encoder": key, "task": task.identity()})) for task in tasks)
            plan.encoders.append(
                EncoderPlan(
                    spec.name,
                    cls,
                    recipe,
                    traits,
                    sources,
                    seed,
                    key,
                    row_key,
                    cells,
                    missing,
                    corpus=texts.get(kind),
                    corpus_identity=identities.get(kind),
                )
            )
    return plan


def texts_needed(specs: Sequence[RecipeSpec], defaults: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether any of the methods reads sentences, and whether any reads labelled pairs."""
    traits = [cls.traits(recipe) for cls, recipe in (spec.resolve(defaults) for spec in specs)]
    return any(t.needs_corpus for t in traits), any(t.needs_pairs for t in traits)
