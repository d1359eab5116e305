"""The encoder that a record is of."""

from __future__ import annotations

from collections.abc import Mapping

from benchmark.records.folder import Records
from benchmark.records.names import typed_label
from benchmark.records.record import Record, plain
from benchmark.run.plan import resolve_methods, text_kind
from zoo.api import load
from zoo.encoder import Encoder, Run, Runtime
from zoo.errors import CorruptError, MissingError, UsageError
from zoo.machine import make_runtime
from zoo.recipes import all_recipes, portable_recipe
from zoo.selection import parse_methods


def encoder_of(record: Record, store: Records, device: str) -> Encoder:
    """Return the encoder that a record is of: a trained one lies in the folder, others are made.

    Raises MissingError with the reason where it cannot be had, or the ZooError of loading it.
    """
    if record["method"]["traits"]["transductive"]:
        raise MissingError("it is fitted to each task's texts")
    return unadapted_encoder_of(record, store, device)


def unadapted_encoder_of(record: Record, store: Records, device: str) -> Encoder:
    """Return the encoder of a record, before a transductive one is fitted to a task's texts; raises as above."""
    runtime = _runtime(device, record["precision"])
    method, training = record["method"], record["training"]
    # Never for an untrained method: a folder could hold anything under its name.
    if training is not None:
        folder = store.encoder_folder(method["name"], record["encoder_key"])
        if not folder.is_dir():
            raise MissingError("its trained encoder is not in the folder")
        return load(folder, runtime)
    name, backbone = typed_label(method) or method["name"], method["recipe"].get("backbone")
    given = {} if backbone is None else {"backbone": backbone}
    (resolved,) = resolve_methods(parse_methods(name, all_recipes()), given)
    cls, recipe = resolved.cls, resolved.recipe
    sources = cls.sources(recipe, runtime)
    if plain(portable_recipe(recipe, sources)) != method["recipe"]:
        raise MissingError("the recipe of its name has other settings here")
    for kind, source in method["sources"].items():
        here = sources.get(kind)
        if isinstance(here, Mapping) and source.get("sha256") != here.get("sha256"):
            raise MissingError(f"the {kind} of its name has other weights here")
    if text_kind(resolved.traits):
        raise CorruptError("it is stated to be untrained, and its method learns from text")
    encoder: Encoder = cls(recipe, runtime)
    # Stores the seed.
    encoder.fit(None, run=Run(None, record["seed"] or 0))
    return encoder


def _runtime(device: str, precision: str) -> Runtime:
    """Return a runtime of the record's precision, or of float32 where this machine lacks that."""
    try:
        return make_runtime(device, precision)
    except UsageError:
        return make_runtime(device, "fp32")
