"""Links from a row to its papers and, if near the page, its page of the handbook."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from benchmark.report.conditions import recipes
from zoo.plugins import METHODS
from zoo.recipes import papers_of

if TYPE_CHECKING:
    from benchmark.report.rows import Row
    from zoo.recipes import Paper, RecipeSpec


_WORDS = {"repo": "code", "sup": "sup."}
# What no paper describes first, as tables name it. LaTeX would read a bracket at the beginning as an argument.
_PLAIN = {
    "cls": "CLS token",
    "avg-last": "Average, last layer",
    "avg-first-last": "Average, first and last layer",
    "avg-top2": "Average, last two layers",
    "max": "Maximum",
    "moco": "MoCo",
    "bag-of-words": "Bag of words",
    "random": "Random vectors",
}


class Links(NamedTuple):
    """A row's papers, the most specific first, its short name with the year, its handbook page."""

    papers: list[Paper]
    paper: str
    page: str | None


def links_of(row: Row) -> Links:
    if row.spec is None:
        return Links([], "", None)
    return _shipped(row.spec.name) if row.spec is recipes().get(row.spec.name) else _links(row.spec)


def display_name(row: Row) -> str:
    """Return a row's name for a paper: "SimCSE (crop, temperature 0.1)" for simcse-crop:temperature=0.1."""
    # A recipe of the user's own keeps its name.
    return row.name if row.recipe else paper_name(*row.made_of) or row.name


def display_names(rows: Sequence[Row], conditions: Mapping[str, str]) -> dict[str, str]:
    """Rows of equal display names and conditions keep their keys."""
    shown = {row.name: display_name(row) for row in rows}
    counted = Counter((shown[row.name], conditions[row.name]) for row in rows)
    return {
        row.name: f"{shown[row.name]} [{row.row_key[:8]}]"
        if counted[shown[row.name], conditions[row.name]] > 1
        else shown[row.name]
        for row in rows
    }


def paper_name(recipe: str, overrides: Mapping[str, object] = MappingProxyType({})) -> str:
    """Return a recipe's name in papers: "PT-BERT (code)" for ptbert-repo; "" if it has none."""
    parts = recipe.split("-")
    for end in range(len(parts), 0, -1):
        spec = recipes().get("-".join(parts[:end]))
        if spec is not None and spec.citation is not None:
            more = [_WORDS.get(part, part) for part in parts[end:]]
            more += [f"{key.replace('_', ' ')} {value}" for key, value in overrides.items()]
            return f"{spec.citation.name} ({', '.join(more)})" if more else spec.citation.name
    return "" if overrides else _PLAIN.get(recipe, "")


@functools.cache
def _shipped(name: str) -> Links:
    return _links(recipes()[name])


def _links(spec: RecipeSpec) -> Links:
    papers = papers_of(spec, recipes())
    first = next((f"{paper.name} {paper.year}" for paper in papers), "")
    return Links(papers, first, METHODS.card(spec.method).page or None)


def handbook_from(folder: Path) -> str:
    """Return the relative path from `folder` to the handbook's pages of methods; "" outside a checkout.

    A wheel and an editable install write the same page.
    """
    folder = folder.resolve()
    for root in folder.parents:
        methods = root / "docs" / "methods"
        if methods.is_dir() and (root / "zoo" / "recipes.py").is_file():
            return Path(os.path.relpath(methods, folder)).as_posix()
    return ""
