"""The rows that a run's methods are compared with: controls, and the untrained vectors that each one starts from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

from benchmark.run.plan import ResolvedMethod, resolve_methods
from benchmark.tasks.loaded import LoadedTask
from zoo.encoder import Start
from zoo.errors import UsageError
from zoo.files import parse_yaml
from zoo.recipes import OVERRIDE, RecipeSpec


def controls_for(
    methods: Sequence[ResolvedMethod],
    tasks: Sequence[LoadedTask],
    recipes: Mapping[str, RecipeSpec],
    defaults: Mapping[str, object],
) -> list[ResolvedMethod]:
    """Return what a run of `methods` lacks: the start of each method that learns, and every recipe marked `control`.

    Left out is what one of the tasks cannot score: a method without trainable weights where the encoder itself is
    trained, and one that needs several words where all texts are single words.
    """
    wanted = [nearest_recipe(method.start, recipes, defaults) for method in methods if method.start is not None]
    wanted += [spec for spec in recipes.values() if spec.control]
    found: list[ResolvedMethod] = []
    for control in resolve_methods(wanted, defaults):
        there = any(one.cls is control.cls and one.recipe == control.recipe for one in (*methods, *found))
        if not there and all(_scores(task, control) for task in tasks):
            found.append(dataclasses.replace(control, control=True))
    return found


def _scores(task: LoadedTask, control: ResolvedMethod) -> bool:
    """Return whether a task can score a control; one without data cannot be asked and rules nothing out."""
    if task.data is None:
        return True
    if task.data.trains_encoder and not control.traits.fine_tunes:
        return False
    return not control.traits.needs_several_words or any(len(text.split()) > 1 for text in task.data.texts())


def nearest_recipe(start: Start, recipes: Mapping[str, RecipeSpec], defaults: Mapping[str, object]) -> RecipeSpec:
    """Return the recipe of a start's method that needs the fewest changed settings, with these settings.

    The changed settings stand in the name, as they would be typed. Raises UsageError where the method has no recipe.
    """
    of_method = [spec for spec in recipes.values() if spec.method == start.method]
    if not of_method:
        raise UsageError(f"the method {start.method!r}, from which another one starts, has no recipe.")
    changes = [(spec, _changed(start, spec.resolve(defaults)[1])) for spec in of_method]
    spec, changed = min(changes, key=lambda one: len(one[1]))
    return dataclasses.replace(
        spec,
        name=":".join([spec.name, *(f"{key}={_typed(value)}" for key, value in changed.items())]),
        parameters={**spec.parameters, **changed},
        stated_by={**spec.stated_by, **dict.fromkeys(changed, OVERRIDE)},
    )


def _changed(start: Start, recipe: object) -> dict[str, object]:
    names = [field.name for field in dataclasses.fields(start.recipe)]
    return {name: getattr(start.recipe, name) for name in names if getattr(start.recipe, name) != getattr(recipe, name)}


def _typed(value: object) -> str:
    """Return a setting as --methods takes it; a text that YAML would read otherwise is quoted."""
    if isinstance(value, str):
        try:
            return value if parse_yaml(value, "") == value else json.dumps(value)
        except UsageError:
            pass
    return json.dumps(value)
