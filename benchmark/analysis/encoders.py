"""The encoder that a record is of."""

from __future__ import annotations

from benchmark.records.folder import Records
from benchmark.records.record import Record, plain
from benchmark.run.plan import resolve_methods
from zoo.api import load
from zoo.encoder import Encoder
from zoo.errors import MissingError
from zoo.machine import make_runtime
from zoo.recipes import all_recipes, portable_recipe
from zoo.selection import parse_methods


def encoder_of(record: Record, store: Records, device: str) -> Encoder:
    """Return the encoder that a record is of: a trained one lies in the folder, others are made.

    Raises MissingError with the reason where it cannot be had, or the ZooError of loading it.
    """
    method = record["method"]
    if method["traits"]["transductive"]:
        raise MissingError("it is fitted to each task's texts")
    runtime = make_runtime(device, record["precision"])
    folder = store.encoder_folder(method["name"], record["encoder_key"])
    if folder.is_dir():
        return load(folder, runtime)
    if record["training"] is not None:
        raise MissingError("its trained encoder is not in the folder")
    name, backbone = method.get("recipe_name", method["name"]), method["recipe"].get("backbone")
    given = {} if backbone is None else {"backbone": backbone}
    (found,) = resolve_methods(parse_methods(name, all_recipes()), given)
    cls, recipe = found.cls, found.recipe
    if plain(portable_recipe(recipe, cls.sources(recipe, runtime))) != method["recipe"]:
        raise MissingError("the recipe of its name has other settings here")
    made: Encoder = cls(recipe, runtime)
    return made
