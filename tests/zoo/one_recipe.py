"""One recipe of each registered method, so that tests of all methods have a new one among them."""

from __future__ import annotations

from zoo.plugins import METHODS
from zoo.recipes import all_recipes


def one_recipe_a_method() -> dict[str, str]:
    recipes = all_recipes()
    return {recipes[name].method: name for name in sorted(recipes, key=len, reverse=True)}


def has_backbone(method: str) -> bool:
    """Return whether a recipe of the method names the transformer that it reads."""
    return bool({"backbone", "model"} & set(METHODS.get(method).Recipe.__dataclass_fields__))
