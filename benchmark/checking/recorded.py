"""The method and the encoder of a record, rebuilt or found here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmark.records.folder import Records
from benchmark.records.names import plugins_of, short_name, typed_label
from benchmark.records.record import MethodPart, Record, plain
from benchmark.run.objects import ObjectEncoder, ObjectRecipe
from benchmark.run.rows import Row, resolve_methods
from zoo.api import load
from zoo.encoder import Encoder, Run, Runtime, Traits
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.machine import make_runtime
from zoo.paths import is_dir, saved_encoder, user_path
from zoo.plugins import METHODS
from zoo.recipes import SOURCES, RecipeSpec, all_recipes, given_recipes, portable_recipe, read_tuned, taken
from zoo.selection import parse_methods, parts_of, saved_named

OBJECT = f"{ObjectEncoder.__module__}.{ObjectEncoder.__qualname__}"
"""The class that records state for objects that were given to `benchmark.evaluate`, and for saved encoders."""


def recipes_of(store: Records) -> dict[str, RecipeSpec]:
    """Return the recipes of this code and those tuned in the folder, without files under another's name."""
    recipes = all_recipes()
    for path in sorted((store.folder / "tuned").glob("*.yaml")):
        with suppress(UsageError):
            recipes.setdefault(path.stem, read_tuned(path, recipes))
    return recipes


def row_of_record(record: Record, recipes: Mapping[str, RecipeSpec], given: Sequence[RecipeSpec] = ()) -> Row:
    """Return the row of a record, of `given` recipes the one with its settings; MissingError for an unknown name."""
    method = record["method"]
    called, other = typed_label(method), taken(method["name"], recipes)
    if other is not None and (called or method["class"] == OBJECT) and method["name"].casefold() != called.casefold():
        raise CorruptError(
            f"it has the name of the recipe {other.name}, and is {short_name(called) if called else 'an object'}"
        )
    if method["class"] == OBJECT:
        traits: dict[str, Any] = {
            name: value for name, value in method["traits"].items() if name in Traits.__dataclass_fields__
        }
        named, parts = method["name"], tuple(method.get("unstated", ()))
        return Row(named, ObjectEncoder, ObjectRecipe(**method["recipe"]), Traits(**traits), named, unstated=parts)
    backbone = method["recipe"].get("backbone")
    defaults = {} if backbone is None else {"backbone": backbone}
    name = typed_label(method) or method["name"]
    copies = [spec for spec in given if spec.name == parts_of(name)[0] and spec.name not in recipes]
    rows: list[Row] = []
    for known in [{**recipes, spec.name: spec} for spec in reversed(copies)] or [dict(recipes)]:
        try:
            rows += resolve_methods(parse_methods(name, known), defaults)
        except UsageError as error:
            problem = error
    if not rows:
        raise MissingError(f"{problem}{plugins_of(record)}") from problem
    row = next((row for row in rows if _settings(row, method) == method["recipe"]), rows[0])
    return replace(row, name=method["name"], typed=row.name if typed_label(method) else None)


def _settings(row: Row, method: MethodPart) -> object:
    return plain(portable_recipe(row.recipe, method["sources"]))


def encoder_of(
    record: Record,
    store: Records,
    device: str,
    row: Row | None = None,
    weights: Sequence[Path] = (),
    stop: Callable[[], int | None] = lambda: None,
) -> Encoder:
    """Return the encoder of a record, before a transductive fit to a task's texts.

    A trained encoder lies in the folder; others are rebuilt. Weights are found by their sha256 among `weights` and the
    paths in the record. Raises MissingError with a reason, or the ZooError of loading.
    """
    runtime = replace(_runtime(device, record["precision"]), stop_signal=stop)
    # Never for an untrained method: a folder could hold anything under its name.
    if record["training"] is not None:
        folder = store.encoder_folder(record["method"]["name"], record["encoder_key"])
        if saved_encoder(folder) is None:
            raise MissingError("its trained encoder is not in the folder")
        return load(folder, runtime)
    row = row or row_of_record(record, recipes_of(store), given_recipes(store.folder))
    if row.cls is ObjectEncoder:
        return _saved(record, weights, runtime)
    if row.text_kind:
        raise CorruptError("it is stated to be untrained, and its method learns from text")
    encoder: Encoder = row.cls(_with_weights(record, row, weights, runtime), runtime)
    # Stores the seed.
    encoder.fit(None, run=Run(None, record["seed"] or 0))
    return encoder


def untrained_start(record: Record, row: Row, weights: Sequence[Path], runtime: Runtime) -> Encoder | None:
    """Return the untrained encoder that a training started from; raises MissingError without its weights."""
    if (start := row.cls.start(row.recipe)) is None:
        return None
    cls, method = METHODS.get(start.method), record["method"]
    kinds = {kind: source for kind, source in method["sources"].items() if hasattr(start.recipe, kind)}
    of_start: Record = {**record, "method": {**method, "sources": kinds}}
    return cls(_with_weights(of_start, replace(row, cls=cls, recipe=start.recipe), weights, runtime), runtime)


def _with_weights(record: Record, row: Row, weights: Sequence[Path], runtime: Runtime) -> object:
    stated = record["method"]["sources"]
    local = any(source.get("local") for source in stated.values() if isinstance(source, Mapping))
    fields = [name for name in SOURCES[:3] if name in row.recipe.__dataclass_fields__]
    others = [replace(row.recipe, **dict.fromkeys(fields[:1], str(folder))) for folder in _folders(record, weights)]
    reason = ""
    for recipe in (row.recipe, *(others if local else [])):
        try:
            here = row.cls.sources(recipe, runtime)
        except ZooError as error:
            reason = reason or str(error)
            continue
        pairs = [(kind, source, here.get(kind)) for kind, source in stated.items()]
        other = [
            k for k, s, stated in pairs if not isinstance(stated, Mapping) or stated.get("sha256") != s.get("sha256")
        ]
        if not other:
            return recipe
        reason = reason or f"the {other[0]} of its name has other weights here"
    if local:
        reason = "its weights were given by a path, and no folder here has their sha256; name it with --weights FOLDER"
    raise MissingError(reason)


def _saved(record: Record, weights: Sequence[Path], runtime: Runtime) -> Encoder:
    fingerprint = record["method"]["recipe"].get("fingerprint")
    for folder in _folders(record, weights):
        with suppress(ZooError):
            if saved_named(folder) and fingerprint == (encoder := load(folder, runtime)).fingerprint():
                return encoder
    raise MissingError(
        "it was an object in Python, which no folder keeps; --plugin FILE names a method in a file, --weights FOLDER a"
        " saved encoder"
    )


def _folders(record: Record, weights: Sequence[Path]) -> Iterator[Path]:
    words = [part for word in (*record["command"], record["method"]["name"]) for part in word.split(",")]
    places = [*weights, *(user_path(word.rpartition("=")[2]) for word in words if "/" in word or "\\" in word)]
    yield from (folder for folder in dict.fromkeys(places) if is_dir(folder))


def _runtime(device: str, precision: str) -> Runtime:
    """Use the record's precision, or float32 on a machine without it."""
    try:
        return make_runtime(device, precision)
    except UsageError:
        return make_runtime(device, "fp32")


def is_object(record: Record) -> bool:
    """True for an object in Python, or a saved encoder."""
    return record["method"]["class"] == OBJECT


@contextmanager
def without_hub(fetch: bool) -> Iterator[None]:
    """Keep the hub's clients off the network: a record's sender names the targets."""
    import huggingface_hub.constants as constants

    before = os.environ.get("HF_HUB_OFFLINE"), constants.HF_HUB_OFFLINE
    if not fetch:
        os.environ["HF_HUB_OFFLINE"], constants.HF_HUB_OFFLINE = "1", True
    try:
        yield
    finally:
        if not fetch:
            os.environ.pop("HF_HUB_OFFLINE")
            if before[0] is not None:
                os.environ["HF_HUB_OFFLINE"] = before[0]
            constants.HF_HUB_OFFLINE = before[1]
