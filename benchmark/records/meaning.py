"""How older records are read: traits that they do not state, and scores that are n/a by today's rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from benchmark.metrics.geometry import simplex

if TYPE_CHECKING:
    from benchmark.records.schema import Record

_POOLED = ("zoo.methods.pooled.Cls", "zoo.methods.pooled.Maximum", "zoo.methods.pooled.Average")


def traits_of(method: Mapping[str, Any]) -> dict[str, Any]:
    """Return the traits of a record's `method`: needs_corpus, needs_pairs, ignores_labels, untrained, released ...

    Records made before a trait existed do not state it; for them it is derived from the method's class and recipe.
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


def without_meaning(record: Record) -> str | None:
    """Return why a record's score says nothing about its method, or None.

    Older records of whitening that was fitted on the task's texts kept such a score and stated the rank in their facts.
    Their coverage counts only the scored texts; in tasks with one part, whitening was fitted on exactly these.
    """
    if record["status"] != "ok" or not record["method"]["traits"]["transductive"] or record.get("adapt"):
        return None
    coverage = record.get("coverage")
    rank, components = record["facts"].get("rank"), record["facts"].get("k")
    if not isinstance(rank, int) or not isinstance(components, int) or not coverage or not coverage["texts"]:
        return None
    return simplex(min(rank, components), coverage["texts"])


def judged(records: Iterable[Record]) -> list[Record]:
    """Return the records; those whose score says nothing about its method become n/a with the reason."""
    found = []
    for record in records:
        reason = without_meaning(record)
        found.append(record if reason is None else {**record, "status": "n/a", "reason": reason, "scores": None})
    return found
