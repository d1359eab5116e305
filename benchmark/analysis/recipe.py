"""Explains one recipe: settings with defaults and reasons, paper against code, conditions, cost on this machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from benchmark.data.corpora import load_corpus
from benchmark.data.sources import DataSource
from benchmark.run.estimate import parameters_of, seconds_of
from zoo.encoder import AnyRecipe, Runtime, Traits
from zoo.errors import MissingError, UsageError
from zoo.explain import notes, reasons
from zoo.papers import papers_of
from zoo.recipe import RecipeSpec, choices
from zoo.registry import METHODS

_SENTENCE = 110  # characters of a Wikipedia sentence, on average
_PAIR = 30  # tokens of both sentences of an NLI pair
_TOKENS = 27  # of a Wikipedia sentence
_MILLION = 1_000_000


def explained(spec: RecipeSpec, recipes: Mapping[str, RecipeSpec], runtime: Runtime, speed: float) -> dict[str, object]:
    """Return what is known about a recipe as plain values; `speed` is the FLOP/s of a matrix product here.

    Raises UsageError for a recipe that is wrong.
    """
    cls, recipe = spec.resolve()
    traits = cls.traits(recipe)
    why, allowed = reasons(cls.Recipe), choices(cls.Recipe)
    settings = []
    for field in dataclasses.fields(recipe):
        default = field.default if field.default is not dataclasses.MISSING else None
        value = getattr(recipe, field.name)
        settings.append(
            {
                "name": field.name,
                "value": value,
                "default": default,
                "stated_by": spec.stated_by.get(field.name, "default"),
                "reason": why.get(field.name, ""),
                "choices": list(allowed.get(field.name, ())),
            }
        )
    return {
        "name": spec.name,
        "method": spec.method,
        "family": METHODS.card(spec.method).family,
        "extends": spec.extends or None,
        "summary": spec.summary,
        "paper": spec.paper,
        "papers": [{"cited": one.cited(), "url": one.url} for one in papers_of(spec, recipes)],
        "control": spec.control,
        "origin": spec.origin,
        "notes": [{"recipe": name, "text": text} for name, text in notes(spec)],
        "settings": settings,
        "other_form": other_form(spec, recipe, recipes),
        "conditions": conditions_of(traits),
        "cost": cost(recipe, traits, runtime, speed),
    }


def other_form(spec: RecipeSpec, recipe: AnyRecipe, recipes: Mapping[str, RecipeSpec]) -> dict[str, Any] | None:
    """Return how the recipes of the paper and of its code (NAME and NAME-repo) differ; None without a counterpart."""
    base = spec.name.split(":")[0]
    name = base.removesuffix("-repo") if base.endswith("-repo") else f"{base}-repo"
    if name not in recipes or recipes[name].method != spec.method:
        return None
    try:
        _, other = recipes[name].resolve()
    except UsageError:
        return None
    fields = [field.name for field in dataclasses.fields(recipe)]
    differs = {f: [getattr(recipe, f), getattr(other, f)] for f in fields if getattr(recipe, f) != getattr(other, f)}
    return {"recipe": name, "summary": recipes[name].summary, "differs": differs}


def conditions_of(traits: Traits) -> list[str]:
    """Return sentences on what a method needs and reads: the conditions of its rows."""
    said = {
        "Its weights are finished and were trained elsewhere.": traits.released,
        "It is a backbone's own states, pooled; nothing is trained.": traits.untrained,
        "It learns from sentences (--corpus).": traits.needs_corpus,
        "It learns from labelled pairs (--pairs).": traits.needs_pairs and not traits.ignores_labels,
        "It learns from the sentences of labelled pairs (--pairs), not from the labels.": traits.needs_pairs
        and traits.ignores_labels,
        "It is fitted on the texts of each task (transductive).": traits.transductive,
        "A development set picks its checkpoint (--dev).": traits.picks_checkpoint,
        "Its vectors depend on the seed (--seeds).": traits.stochastic,
        "A task with a text that it does not know is n/a.": traits.needs_every_text,
        "Two single words have no similarity for it.": traits.needs_several_words,
        "Tasks that fine-tune the encoder can train it.": traits.fine_tunes,
        "`zoo-bench export` writes it for sentence-transformers.": traits.exports,
        f"It computes in {traits.precision} whatever --precision says.": traits.precision is not None,
    }
    return [sentence for sentence, holds in said.items() if holds]


def cost(recipe: AnyRecipe, traits: Traits, runtime: Runtime, speed: float) -> dict[str, Any]:
    """Return a cost estimate for this machine from sizes and a matrix product's speed, or `unknown` with the reason."""
    from zoo.engine.backbone import find_backbone

    here = {"device": runtime.device, "precision": traits.precision or runtime.precision}
    name = getattr(recipe, "backbone", None) or getattr(recipe, "model", None)
    if name is None:
        return {**here, "unknown": "no transformer whose size could be counted"}
    try:
        parameters = parameters_of(find_backbone(name, getattr(recipe, "revision", None)).folder / "config.json")
    except (MissingError, UsageError) as error:
        return {**here, "unknown": str(error)}
    if parameters is None:
        return {**here, "unknown": f"{name} does not say how large it is"}
    found: dict[str, Any] = {**here, "backbone": name}
    encoding = seconds_of(parameters, _SENTENCE * _MILLION, 0, 0, speed) / _MILLION
    found["sentences_per_second"] = round(1 / encoding)
    if traits.needs_corpus or traits.needs_pairs:
        longest = getattr(recipe, "train_max_length", None) or 512
        kind, each = ("labelled pairs", _PAIR) if traits.needs_pairs else ("sentences", _TOKENS)
        tokens = min(each, 2 * longest if traits.needs_pairs else longest)
        corpus = load_corpus("pocket-text", DataSource.from_options(None, hub=False), None)
        for count in (len(corpus.sentences), _MILLION):
            seconds = seconds_of(parameters, 0, tokens * count, traits.training_passes, speed)
            found.setdefault("fit", []).append({"texts": count, "kind": kind, "seconds_per_seed": round(seconds, 1)})
    return found
