"""Explains a recipe: settings with defaults and reasons, paper against code, conditions."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.encoder import AnyRecipe, Traits
from zoo.errors import UsageError
from zoo.plugins import METHODS
from zoo.recipes import OVERRIDE, RecipeSpec, choices, papers_of, parent_file, read_recipe


def explained(spec: RecipeSpec, recipes: Mapping[str, RecipeSpec]) -> dict[str, object]:
    """Raises UsageError for a wrong recipe."""
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
        "open": {k: v for k, v in spec.open.items() if spec.stated_by.get(k) != OVERRIDE},
        "settings": settings,
        "other_form": other_form(spec, recipe, recipes),
        "conditions": conditions_of(traits),
    }


def other_form(spec: RecipeSpec, recipe: AnyRecipe, recipes: Mapping[str, RecipeSpec]) -> dict[str, Any] | None:
    """Return the differences of a paper's recipe and its code's (NAME and NAME-repo)."""
    base = spec.recipe_name or spec.name
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
    sentences = {
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
    return [sentence for sentence, holds in sentences.items() if holds]


_FIELD = re.compile(r"    (\w+)\s*:(.*)")
_FOR_LINTERS = ("noqa", "type: ignore")


def reasons(recipe: type[Any]) -> dict[str, str]:
    """Return the comment of each field, on its line or directly above it, also of bases."""
    comments: dict[str, str] = {}
    for cls in reversed(recipe.__mro__):
        if dataclasses.is_dataclass(cls):
            comments |= {name: comment for name, comment in _of_class(cls).items() if comment}
    return {field.name: comments[field.name] for field in dataclasses.fields(recipe) if field.name in comments}


def _of_class(cls: type[Any]) -> dict[str, str]:
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):
        # A class without a source file, as in a notebook.
        return {}
    comments, above = {}, list[str]()
    for line in source.splitlines():
        if line.strip().startswith("# "):
            above.append(line.strip().removeprefix("# "))
            continue
        if field := _FIELD.match(line):
            behind = [text.strip() for text in field[2].split("  # ")[1:] if not text.startswith(_FOR_LINTERS)]
            comments[field[1]] = " ".join([*above, *behind])
        above = []
    return comments


def notes(spec: RecipeSpec) -> list[tuple[str, str]]:
    """Return (recipe, text) from the tops of the files of a recipe and its bases."""
    notes_of = []
    while spec.origin.endswith((".yaml", ".yml")):
        path = Path(spec.origin)
        lines = path.read_text(encoding="utf-8").splitlines()
        head = [line.lstrip("#").strip() for line in itertools.takewhile(lambda line: line.startswith("#"), lines)]
        notes_of += [(path.stem, " ".join(head))] if head else []
        if not spec.extends:
            break
        spec = read_recipe(parent_file(path, spec.extends))
    return notes_of
