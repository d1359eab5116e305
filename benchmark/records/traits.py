"""What a record says of its method: its traits, also those that older records do not state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_POOLED = ("zoo.methods.pooled.Cls", "zoo.methods.pooled.Maximum", "zoo.methods.pooled.Average")


def traits_of(method: Mapping[str, Any]) -> dict[str, Any]:
    """Return the traits of a record's `method`: needs_corpus, needs_pairs, ignores_labels, untrained, released ...

    Records made before a trait existed do not state it. Their methods were then told by class and recipe.
    """
    traits, recipe, name = method["traits"], method["recipe"], method["class"]
    before = {
        "needs_corpus": False,
        "needs_pairs": False,
        # A transform with no trained base reads the sentences of the pairs and not their labels.
        "ignores_labels": recipe.get("fit_on") == "pairs" and not recipe.get("base"),
        "untrained": name in _POOLED,
        "released": name == "zoo.methods.pretrained.Pretrained",
    }
    return {**before, **traits}
