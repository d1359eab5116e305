"""Typed recipes from YAML: an unknown key, a duplicate key or a value of a wrong type is an error.

A recipe is a published configuration of a method. Its file has the keys `method`, `summary`, `paper` and `parameters`;
the parameters fill the method's frozen `Recipe` dataclass, with the paper's settings as defaults.

`extends`, in place of `method`, names another recipe, or a plugin's method: its method and parameters count, and the
file's own parameters replace those of the same name. Without `summary` the parameters are the summary. `control: true`
marks a control, for comparison in tables too. `updates` is the published training's number of updates; a row's own
number is shown as a share of it. `space` has values for `zoo-bench tune`, besides or instead of its usual changes: a
list, or a text LOW..HIGH or LOW..HIGH:log, for each key.

`citation`, with the keys of `Paper`, is the paper of a recipe it describes first; `paper` of any recipe may name it.
`open` lists the paper's open points and how they are filled: a text for each parameter (or for `pairs`, the data). A
recipe inherits those of its `extends` that it does not state as a parameter; its own `open`, also empty, replaces them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import typing
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from zoo.errors import ContractError, CorruptError, UsageError, ZooError, did_you_mean, error_text
from zoo.files import one_line, read_yaml
from zoo.paths import is_file, resource_folder
from zoo.plugins import METHODS

if TYPE_CHECKING:
    from zoo.encoder import Encoder

R = TypeVar("R")


_hints = functools.cache(typing.get_type_hints)


def choices(cls: type[Any]) -> dict[str, tuple[Any, ...]]:
    return {name: values for name, hint in _hints(cls).items() if (values := _allowed(hint))}  # type: ignore[arg-type]


def _allowed(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(value for argument in get_args(hint) for value in _allowed(argument))


def build(cls: type[R], values: Mapping[str, Any], where: str) -> R:
    """Make the dataclass `cls` from plain values; raises UsageError, beginning with `where`."""
    if not isinstance(values, Mapping):
        raise UsageError(f"{where}: expected a mapping of names to values, got {values!r:.80}.")
    names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    converted = {}
    for key, value in values.items():
        if key not in names:
            known = ", ".join(names) or "none"
            raise UsageError(f"{where}: unknown key {key!r}.{did_you_mean(str(key), names)} Known keys: {known}.")
        hint = _hints(cls)[key]  # type: ignore[arg-type]
        try:
            converted[key] = msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            raise UsageError(f"{where}: {key}: {_reason(error, hint, value)}.") from error
        if any(
            isinstance(item, float) and not math.isfinite(item) for item in (value if type(value) is list else [value])
        ):
            raise UsageError(f"{where}: {key}: expected a finite number, got {value}.")
    try:
        return cls(**converted)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {one_line(error)}.") from error


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "array": "a list",
    "object": "a mapping",
}


def _reason(error: msgspec.ValidationError, hint: Any, value: object) -> str:
    if allowed := _allowed(hint):
        return f"{value!r:.80} is not one of {', '.join(map(repr, allowed))}"
    kind = re.match(r"Expected `(\w+)", str(error))
    if kind is None:
        return one_line(error)
    quotes = " (put it in quotes)" if kind[1] == "str" else ""
    return f"expected {_KINDS.get(kind[1], kind[1])}, got {value!r:.80}{quotes}"


class Paper(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A citation, in the recipe of the paper's method; `venue` is "" for a preprint."""

    name: str
    title: str
    authors: str
    venue: str = ""
    year: int
    url: str

    def cited(self) -> str:
        return f"{self.authors}. {self.title}. {f'{self.venue} ' if self.venue else ''}{self.year}."


@dataclass(frozen=True, kw_only=True)
class Tuned:
    trials: int
    dev: str
    backbone: str
    corpus: str
    sentences: int
    # The sha256 of the trials' settings and scores.
    study: str
    # The standard deviation of the best dev scores of several studies; None: one was made.
    spread: float | None = None


@dataclass(frozen=True, kw_only=True)
class _RecipeFile:
    summary: str = ""
    method: str = ""
    extends: str = ""
    paper: str = ""
    control: bool = False
    citation: Paper | None = None
    updates: int | None = None
    parameters: dict[str, Any] | None = None
    space: dict[str, Any] | None = None
    tuned: Tuned | None = None
    open: dict[str, str] | None = None


OVERRIDE = "command line"


@dataclass(frozen=True)
class RecipeSpec:
    """A named configuration before its method is loaded; imports no torch."""

    name: str
    method: str
    summary: str
    paper: str
    origin: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    control: bool = False
    extends: str = ""
    # Parameter -> the recipe that states it, or OVERRIDE.
    stated_by: Mapping[str, str] = field(default_factory=dict)
    citation: Paper | None = None
    # Those of the published training; None where they are not stated.
    updates: int | None = None
    space: Mapping[str, Any] = field(default_factory=dict)
    tuned: Tuned | None = None
    open: Mapping[str, str] = field(default_factory=dict)
    recipe_name: str = ""
    # Settings that were typed behind `recipe_name`.
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def changed(self, name: str, overrides: Mapping[str, Any]) -> RecipeSpec:
        return dataclasses.replace(
            self,
            name=name,
            recipe_name=self.recipe_name or self.name,
            overrides={**self.overrides, **overrides},
            parameters={**self.parameters, **overrides},
            stated_by={**self.stated_by, **dict.fromkeys(overrides, OVERRIDE)},
        )

    def resolve(self, defaults: Mapping[str, Any] | None = None) -> tuple[type[Encoder], Any]:
        """Load the method and build its recipe; `defaults` fill unstated keys.

        Raises UsageError for a wrong value, and for a stated key without effect: a recipe class's static method
        `without_effect` takes the parameters and returns the problem or None. Raises ContractError for a class with a
        Recipe that is no dataclass or raises an error.
        """
        cls, place = METHODS.get(self.method), METHODS.origin(self.method)
        if not dataclasses.is_dataclass(getattr(cls, "Recipe", None)):
            raise ContractError(
                f"method {self.method!r} ({place}): Recipe is no dataclass; decorate it with @dataclass."
            )
        known = {f.name for f in dataclasses.fields(cls.Recipe)}
        base = {k: v for k, v in (defaults or {}).items() if k in known}
        try:
            if problem := getattr(cls.Recipe, "without_effect", lambda _: None)(self.parameters):
                raise UsageError(f"recipe {self.name} ({self.origin}): {problem}.")
            return cls, build(cls.Recipe, {**base, **self.parameters}, f"recipe {self.name} ({self.origin})")
        except ZooError:
            raise
        except Exception as error:
            raise ContractError(f"method {self.method!r} ({place}): its Recipe raises {error_text(error)}") from error


def added(default: Any) -> Any:
    """A field younger than some records; at its default it is absent from keys."""
    return field(default=default, metadata={"added": True})


def added_at_default(recipe: Any) -> set[str]:
    every = dataclasses.fields(recipe)
    return {f.name for f in every if f.metadata.get("added") and getattr(recipe, f.name) == f.default}


SOURCES = ("backbone", "model", "path", "frequencies")


def portable_recipe(recipe: Any, sources: dict[str, Any]) -> dict[str, Any]:
    """The recipe's fields, with sources' names for paths, which differ between machines."""
    fields = dataclasses.asdict(recipe)
    named = {"model": sources["backbone"], **sources} if "backbone" in sources else sources
    for key in SOURCES:
        if key in fields and key in named:
            fields[key] = named[key]["name"]
    return fields


def read_recipe(path: Path) -> RecipeSpec:
    return _read_recipe(path, {})


def recipe_files(path: Path) -> list[Path]:
    """Return a recipe's file and the files beside it that it extends."""
    files = [path]
    while (name := build(_RecipeFile, read_yaml(files[-1]), str(files[-1])).extends) and name not in METHODS:
        parent = parent_file(files[-1], name, tuple(files[:-1]))
        if parent.parent == _recipe_folder():
            break
        files.append(parent)
    return files


def given_recipes(results: Path) -> list[RecipeSpec]:
    """Return the readable recipes whose files runs copied into a results folder, the oldest content first.

    What neither lies there nor is shipped is a plugin's method, which need not be here.
    """
    specs: list[RecipeSpec] = []
    files = [path for path in (results / "given" / "recipes").glob("*/*.yaml") if is_file(path)]
    for path in sorted(files, key=lambda path: (path.stat().st_mtime, str(path))):
        with suppress(UsageError, CorruptError):
            specs.append(_read_recipe(path, {}, given=True))
    return specs


@functools.cache
def _recipe_folder() -> Path:
    return resource_folder("zoo", "configs") / "methods"


def _read_recipe(
    path: Path, known: dict[Path, RecipeSpec], children: tuple[Path, ...] = (), *, given: bool = False
) -> RecipeSpec:
    if path in known:
        return known[path]
    head = build(_RecipeFile, read_yaml(path), str(path))
    if bool(head.method) == bool(head.extends):
        raise UsageError(
            f"{path}: a recipe states either 'method' or 'extends' (the name of a recipe, whose method it takes)."
        )
    settings = head.parameters or {}
    spec = RecipeSpec(
        path.stem,
        head.method,
        head.summary or ", ".join([head.extends or head.method, *(f"{key} {settings[key]}" for key in settings)]),
        head.paper,
        str(path),
        settings,
        head.control,
        head.extends,
        dict.fromkeys(settings, path.stem),
        head.citation,
        head.updates,
        head.space or {},
        head.tuned,
        head.open or {},
    )
    if head.extends:
        shipped = is_file(_recipe_folder() / f"{head.extends}.yaml")
        absent = given and not is_file(path.parent / f"{head.extends}.yaml")
        of_plugin = absent or (head.extends in METHODS and not METHODS.is_builtin(head.extends))
        if of_plugin and not shipped:
            parent = _of_method(head.extends)
        else:
            parent = _read_recipe(parent_file(path, head.extends, children), known, (*children, path), given=given)
        spec = replace(
            spec,
            method=parent.method,
            parameters={**parent.parameters, **spec.parameters},
            stated_by={**parent.stated_by, **spec.stated_by},
            updates=parent.updates if spec.updates is None else spec.updates,
            space={**parent.space, **spec.space},
            open={k: v for k, v in parent.open.items() if k not in spec.parameters} if head.open is None else spec.open,
        )
    known[path] = spec
    return spec


def _of_method(name: str) -> RecipeSpec:
    summary, origin = (METHODS.summary(name), METHODS.origin(name)) if name in METHODS else ("", "")
    return RecipeSpec(name, name, summary, "plugin", origin)


def parent_file(path: Path, name: str, children: tuple[Path, ...] = ()) -> Path:
    folders = list(dict.fromkeys((_recipe_folder(), path.parent)))
    places = [folder / f"{name}.yaml" for folder in folders if Path(name).name == name]
    # A shipped recipe's name is its own, whatever lies beside the file.
    parent = next((place for place in places if is_file(place) and (place != path or place == places[0])), None)
    if parent is None:
        files = {file.stem for folder in folders for file in folder.glob("*.yaml")}
        names = sorted({*files, *filterfalse(METHODS.is_builtin, METHODS.names())} - {path.stem})
        raise UsageError(
            f"{path}: extends the unknown recipe {name!r:.100}.{did_you_mean(name[:100], names)} It is looked for"
            " beside the file, among the recipes of `zoo-bench methods`, and among the methods of --plugin."
        )
    chain = (*children, path, parent)
    if parent in chain[:-1]:
        circle = " > ".join(file.stem for file in chain[chain.index(parent) :])
        raise UsageError(f"{path}: `extends` goes in a circle: {circle}. One of them must state its method.")
    return parent


# Methods that name a base ask for it for each of their rows.
@functools.cache
def _all_shipped() -> dict[str, RecipeSpec]:
    known: dict[Path, RecipeSpec] = {}
    files = sorted(_recipe_folder().glob("*.yaml"), key=lambda p: p.stem)
    return {path.stem: _read_recipe(path, known) for path in files}


def all_recipes() -> dict[str, RecipeSpec]:
    recipes = dict(_all_shipped())
    methods_with_recipe = {spec.method for spec in recipes.values()}
    for name in METHODS.names():
        if name in methods_with_recipe:
            continue
        if other := taken(name, recipes):
            reason = f"it has the name of the recipe {other.origin}. Rename the method."
            if METHODS.leave_out(name, reason):
                continue
            raise UsageError(f"method {name!r} from {METHODS.origin(name)}: {reason}")
        recipes[name] = _of_method(name)
    return recipes


def taken(name: str, recipes: Mapping[str, RecipeSpec]) -> RecipeSpec | None:
    """Return the recipe that has a name already, with or without settings, in any case; else None."""
    by_name = {known.casefold(): spec for known, spec in recipes.items()}
    return by_name.get(unicodedata.normalize("NFKC", name).partition(":")[0].strip().casefold())


def check_file_name(spec: RecipeSpec, recipes: Mapping[str, RecipeSpec]) -> RecipeSpec:
    """Raise UsageError for a file with the name of another recipe; returns a file of any other name."""
    other = taken(spec.name, recipes)
    if other is not None and (other.method != spec.method or other.resolve()[1] != spec.resolve()[1]):
        raise UsageError(
            f"{spec.origin} has the name of the recipe {other.name} ({other.origin}), and is another one."
            f" Rename the file, as in my-{spec.name}.yaml."
        )
    return spec


def read_tuned(path: Path, recipes: Mapping[str, RecipeSpec]) -> RecipeSpec:
    """Read a recipe that `zoo-bench tune` wrote; raises UsageError unless its name says what it was tuned from."""
    spec = check_file_name(read_recipe(path), recipes)
    start = re.match(rf"{re.escape(spec.extends)}(_.*)?-tuned", path.stem) if spec.extends else None
    if spec.tuned is None or start is None:
        base = spec.extends or spec.method
        raise UsageError(
            f"{path} is no tuned recipe of its name: it is {'' if spec.tuned is None else 'tuned from '}{base}."
            f" Move it elsewhere, and name it by its path: --methods {path.name}."
        )
    return spec


def tuned_recipes(results: Path) -> dict[str, RecipeSpec]:
    """Return the recipes that were tuned in a results folder; raises UsageError for a file with another's name."""
    recipes = all_recipes()
    return {path.stem: read_tuned(path, recipes) for path in sorted((results / "tuned").glob("*.yaml"))}


def papers_of(spec: RecipeSpec, recipes: Mapping[str, RecipeSpec]) -> list[Paper]:
    """A recipe's papers: its method's, its own, then those it names."""
    known = {other.citation.name: other.citation for other in (*recipes.values(), spec) if other.citation is not None}
    names = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    named = re.findall(rf"(?<![\w-])(?:{names})(?![\w-])", spec.paper)
    cited = [spec.citation.name] if spec.citation is not None else []
    return [known[name] for name in dict.fromkeys([METHODS.card(spec.method).paper, *cited, *named]) if name in known]
