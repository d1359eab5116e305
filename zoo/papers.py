"""The papers that recipes cite, which recipes themselves state under `citation`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from zoo.card import Paper
from zoo.plugins import METHODS
from zoo.recipes import RecipeSpec


def papers_of(spec: RecipeSpec, recipes: Mapping[str, RecipeSpec]) -> list[Paper]:
    """Return a recipe's papers: first its method's, if its card names one, then its own, then those that it names."""
    known = {one.citation.name: one.citation for one in (*recipes.values(), spec) if one.citation is not None}
    names = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    named = re.findall(rf"(?<![\w-])(?:{names})(?![\w-])", spec.paper)
    own = [spec.citation.name] if spec.citation is not None else []
    return [known[name] for name in dict.fromkeys([METHODS.card(spec.method).paper, *own, *named]) if name in known]
