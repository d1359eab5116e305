"""Encoders of this project as models of mteb: `mteb.evaluate(benchmark.for_mteb("avg-last"), tasks)`.

Imports mteb and torch. mteb encodes the two sides of pairs separately and has no notion of uncovered texts: their zero
vectors have cosine 0 here, but 0.5 with any other vector in mteb.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mteb.models.model_meta import ModelMeta, ScoringFunction

from benchmark.run.objects import free_name, row_of
from benchmark.run.rows import check_name
from benchmark.tasks.mteb_model import TextModel
from zoo.api import create, load
from zoo.encoder import Encoder, Runtime
from zoo.errors import UsageError
from zoo.methods.base import BackboneEncoder
from zoo.plugins import METHODS
from zoo.recipes import all_recipes
from zoo.roles import encode_alike


def for_mteb(encoder: object, *, name: str | None = None, runtime: Runtime | None = None) -> TextModel:
    """Return a model for mteb, with its metadata.

    Args:
        encoder: A zoo Encoder, the folder of a saved or finished encoder, a recipe without training, a
            sentence-transformers model or a function of texts.
        name: The name in mteb's results.
        runtime: Device and precision; by default the CPU and fp32.

    Raises:
        UsageError: The encoder needs training, or is fitted on each task.
    """
    runtime = runtime or Runtime()
    called, files, recipes = name, None, all_recipes()
    check_name(name or "", recipes, encoder if isinstance(encoder, str) else "")
    if isinstance(encoder, Encoder):
        model: Encoder = encoder
    elif isinstance(encoder, Path) or (
        isinstance(encoder, str) and Path(encoder).is_dir() and encoder.lower() not in recipes
    ):
        model, called = load(encoder, runtime), name or free_name(Path(encoder).resolve().name, "saved")
    elif isinstance(encoder, str):
        model, called = create(encoder, runtime), name or encoder
        traits = type(model).traits(model.recipe)
        if traits.needs_corpus or traits.needs_pairs:
            raise UsageError(
                f"{encoder} has to be trained first: give mteb what zoo.fit({encoder!r}, sentences) returns, or the"
                " folder below encoders/ that a run wrote."
            )
    else:
        row = row_of(encoder, name, runtime, ())
        assert row.given is not None
        model, called, files = row.given.encoder, row.name, row.given.sources
    if type(model).traits(model.recipe).transductive:
        raise UsageError(
            f"{called or type(model).__name__} is fitted to all texts of a task, which mteb gives in parts; measure"
            " it here: benchmark.evaluate."
        )
    if files is None:
        files = type(model).sources(model.recipe, model.runtime)
    meta = metadata(model, called or METHODS.name_of(type(model)) or "encoder", files)
    return TextModel(functools.partial(encode_alike, model), model.roles, meta)


def metadata(encoder: Encoder, name: str, sources: Mapping[str, Any]) -> ModelMeta:
    """Leave unknown fields (licence, training sets) open.

    The revision is the start of the encoder's fingerprint: results of different weights get different files.
    """
    traits = type(encoder).traits(encoder.recipe)
    parameters = encoder.parameters() or None
    longest = None
    if isinstance(encoder, BackboneEncoder) and getattr(encoder, "library", None) is None:
        longest = float(encoder.length_limit)
    learned = traits.needs_corpus or traits.needs_pairs or traits.released or bool(sources)
    return ModelMeta.create_empty(
        {
            "name": "zoo-bench/" + re.sub(r"[^A-Za-z0-9._-]+", "-", name),
            "revision": encoder.fingerprint()[:16],
            "languages": ["eng-Latn"],
            "n_parameters": parameters,
            "memory_usage_mb": None if parameters is None else round(parameters * 4 / 2**20, 1),
            "max_tokens": longest,
            "embed_dim": encoder.dim,
            "framework": ["PyTorch"] if isinstance(encoder, BackboneEncoder) else ["NumPy"],
            "similarity_fn_name": ScoringFunction(encoder.roles.similarity),
            "use_instructions": any(encoder.roles.prompts.values()) or bool(encoder.roles.default),
            "training_datasets": None if learned else set(),
            "adapted_from": sources.get("backbone", {}).get("name"),
        }
    )
