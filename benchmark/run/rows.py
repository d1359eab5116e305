"""Rows of a run: its methods or a caller's objects, resolved, and their controls. Reads no data."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmark.run.options import RunOptions
from zoo.check import checked_start, checked_traits
from zoo.encoder import Encoder, Runtime, Start, Traits
from zoo.errors import UsageError
from zoo.files import parse_yaml
from zoo.plugins import METHODS
from zoo.recipes import RecipeSpec, Tuned, taken
from zoo.selection import parse_methods, saved_items, saved_named

# The name of a row and its encoder. None: the encoder's own name.
Named = tuple[str | None, object]


@dataclass(frozen=True)
class Given:
    """An encoder object, and the files behind its vectors."""

    encoder: Encoder
    sources: dict[str, Any]
    uncached: bool = False
    # Its method learns, but its fingerprint is a new encoder's.
    unfitted: bool = False


@dataclass(frozen=True)
class Row:
    """A resolved recipe or object. Its seeds together are a row of a table."""

    name: str
    cls: type[Encoder]
    recipe: Any
    traits: Traits
    recipe_name: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    # The recipe's name with these settings, beside a label.
    typed: str | None = None
    unstated: tuple[str, ...] = ()
    # The untrained vectors before its training. None: it learns nothing.
    start: Start | None = None
    # Added to the run for comparison.
    control: bool = False
    # The updates of the published training.
    updates: int | None = None
    tuned: Tuned | None = None
    given: Given | None = None

    @property
    def uncached(self) -> bool:
        """Whether each run measures it anew, without the embedding cache: an object without a version."""
        return self.given is not None and self.given.uncached

    @property
    def text_kind(self) -> str:
        """Its training text: "pairs", "target" (the tasks' texts), "neighbours", "corpus", or ""."""
        if self.traits.needs_pairs or not self.traits.needs_corpus:
            return "pairs" if self.traits.needs_pairs else ""
        if self.traits.reads_target:
            return "target"
        return "neighbours" if self.traits.needs_neighbours else "corpus"

    @property
    def trained(self) -> bool:
        """Whether it trains for minutes. A fitted transform does not, and depends on no seed."""
        return bool(self.text_kind) and self.traits.stochastic

    def encoder(self, runtime: Runtime) -> Encoder:
        """Return the object, or a new untrained encoder."""
        return self.cls(self.recipe, runtime) if self.given is None else self.given.encoder


@dataclass(frozen=True)
class Asked:
    """The rows of a request, before its data is read."""

    # An encoder not yet loaded stands for its row.
    rows: tuple[Row | Named, ...]
    # The recipes among them.
    recipes: tuple[Row, ...]
    # Rows for comparison.
    controls: tuple[Row, ...]
    # The task that picks checkpoints. None: the suite's.
    dev: str | None


def asked_rows(options: RunOptions, objects: Sequence[Named]) -> Asked:
    """Resolve the options' methods or the given encoders; raises UsageError for a wrong name or setting."""
    known, stated = options.recipes(), {"backbone": options.backbone, "revision": options.revision}
    defaults = {name: value for name, value in stated.items() if value}
    if options.backbone in known:
        raise UsageError(f"--backbone {options.backbone}: that is a method: --methods {options.backbone}.")
    # A saved encoder is loaded like an object: its comparison with the library needs the tasks' texts.
    if not objects and (items := saved_items(options.methods)):
        names = zip(_labels(options.label, items), items, strict=True)
        objects = [(None if name == item else name, item) for name, item in names]
    rows: list[Row | Named] = []
    for name, candidate in objects or [(None, options.methods)]:
        if not isinstance(candidate, str | Path) or saved_named(candidate):
            check_name(name or "", known)
            rows.append((name, candidate))
            continue
        named = resolve_methods(parse_methods(str(candidate), known), defaults)
        if name is not None and len(named) > 1:
            raise UsageError(f"{name!r} names {len(named)} recipes ({candidate}); name one.")
        rows += named if name is None else [labelled(named[0], name, known)]
    recipes = [row for row in rows if isinstance(row, Row)]
    if not objects and options.label is not None:
        labels = _labels(options.label, [row.name for row in recipes])
        recipes = [labelled(row, name, known) for name, row in zip(labels, recipes, strict=True)]
        rows = [*recipes]
    controls = _controls(recipes, known, defaults) if options.controls else []
    if options.pairs and not options.allow_missing and not any(row.traits.needs_pairs for row in recipes + controls):
        raise UsageError(
            f"--pairs {options.pairs}: none of these methods learns from labelled pairs, as simcse-sup and sbert do;"
            " leave it out."
        )
    return Asked(tuple(rows), tuple(recipes), tuple(controls), options.dev or _tuned_on(recipes))


def labelled(row: Row, name: str, recipes: Mapping[str, RecipeSpec]) -> Row:
    """Return a recipe's row with a label; raises UsageError for the name of another recipe."""
    check_name(name, recipes, row.name)
    return replace(row, name=name, typed=row.name)


def check_name(name: str, recipes: Mapping[str, RecipeSpec], typed: str = "") -> None:
    """Raise UsageError for a recipe's name, unless it was `typed`."""
    if (other := taken(name, recipes)) is not None and name.casefold() != typed.casefold():
        raise UsageError(
            f"the name {name!r:.100} is that of the recipe {other.name}, and the row is {typed or 'an object'}."
            " Give it another name."
        )


def _tuned_on(rows: Sequence[Row]) -> str | None:
    """Return the tuning task of tuned rows, or None; raises UsageError for several."""
    names = sorted({row.tuned.dev for row in rows if row.tuned is not None})
    if len(names) > 1:
        raise UsageError(
            f"these recipes were tuned on {' and '.join(names)}, and one task picks the checkpoints of all rows:"
            " name it with --dev, or run them apart."
        )
    return names[0] if names else None


def _controls(rows: Sequence[Row], recipes: Mapping[str, RecipeSpec], defaults: Mapping[str, object]) -> list[Row]:
    """Return the starts and the recipes marked `control`, without those among `rows`."""
    wanted = [_nearest_recipe(row.start, recipes, defaults) for row in rows if row.start is not None]
    wanted += [spec for spec in recipes.values() if spec.control]
    added: list[Row] = []
    for control in resolve_methods(wanted, defaults):
        if not any(other.cls is control.cls and other.recipe == control.recipe for other in (*rows, *added)):
            added.append(replace(control, control=True))
    return added


def _nearest_recipe(start: Start, recipes: Mapping[str, RecipeSpec], defaults: Mapping[str, object]) -> RecipeSpec:
    """Return the start's recipe with the fewest changed settings, and these in its name."""
    of_method = [spec for spec in recipes.values() if spec.method == start.method]
    if not of_method:
        raise UsageError(f"the method {start.method!r}, from which another one starts, has no recipe.")
    changes = [(spec, _changed(start, spec.resolve(defaults)[1])) for spec in of_method]
    spec, changed = min(changes, key=lambda change: len(change[1]))
    return spec.changed(":".join([spec.name, *(f"{key}={_typed(value)}" for key, value in changed.items())]), changed)


def _changed(start: Start, recipe: object) -> dict[str, object]:
    names = [field.name for field in dataclasses.fields(start.recipe)]
    return {name: getattr(start.recipe, name) for name in names if getattr(start.recipe, name) != getattr(recipe, name)}


def _typed(value: object) -> str:
    """Return a setting as --methods takes it. Quotes keep a text a text in YAML."""
    if isinstance(value, str):
        try:
            return value if parse_yaml(value, "") == value else json.dumps(value)
        except UsageError:
            pass
    return json.dumps(value)


def _labels(labels: str | None, methods: list[str]) -> list[str]:
    """Return `labels` in place of methods; raises UsageError unless each method has its label."""
    if labels is None:
        return methods
    if not labels.isascii() and any("\ud800" <= letter <= "\udfff" for letter in labels):
        raise UsageError(f"--label {labels!r} is not UTF-8, which records and tables are; write it in UTF-8.")
    names = [name.strip() for name in labels.split(",")]
    if len(names) != len(methods) or not all(names):
        called = ", ".join(methods)
        raise UsageError(f"--label {labels}: give a name for each method, separated by commas: {called}.")
    if len(set(names)) < len(names):
        raise UsageError(f"--label {labels}: two rows would have one name.")
    return names


def resolve_methods(specs: Sequence[RecipeSpec], defaults: Mapping[str, Any]) -> list[Row]:
    """Load each recipe's class and build the recipe; raises UsageError for a wrong setting."""
    rows = []
    for spec in specs:
        cls, recipe = spec.resolve(defaults)
        traits, start = checked_traits(cls, recipe), checked_start(cls, recipe)
        more: dict[str, Any] = {"updates": spec.updates, "tuned": spec.tuned, "overrides": spec.overrides}
        named, parts = spec.recipe_name or spec.name, unstated(cls, traits)
        rows.append(Row(spec.name, cls, recipe, traits, named, unstated=parts, start=start, **more))
    return rows


def unstated(cls: type[Encoder], traits: Traits) -> tuple[str, ...]:
    """Return what a plugin's class leaves unstated: sources, precision or parameters."""
    if is_builtin(cls):
        return ()
    stated = ("precision",) if traits.precision is not None else ()
    return tuple(what for what in Encoder.unstated if what in cls.unstated and what not in stated)


def is_builtin(cls: type[Encoder]) -> bool:
    name = METHODS.name_of(cls)
    return name is not None and METHODS.is_builtin(name)
