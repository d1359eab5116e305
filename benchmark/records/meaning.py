"""Scores of older records that carry no meaning: n/a with the reason that runs record today."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from benchmark.metrics.geometry import simplex

if TYPE_CHECKING:
    from benchmark.records.schema import Record


def without_meaning(record: Record) -> str | None:
    """Return why a record's score says nothing of its method, or None.

    Before, a record of whitening fitted to the task's texts had the rank among its facts and kept its score. Its number
    of texts is that of the scored ones: all that it was fitted to, in tasks with one part.
    """
    if record["status"] != "ok" or not record["method"]["traits"]["transductive"] or record.get("adapt"):
        return None
    coverage = record.get("coverage")
    rank, kept = record["facts"].get("rank"), record["facts"].get("k")
    if not isinstance(rank, int) or not isinstance(kept, int) or not coverage or not coverage["texts"]:
        return None
    return simplex(min(rank, kept), coverage["texts"])


def judged(records: Iterable[Record]) -> list[Record]:
    """Return the records, those without meaning as n/a with the reason."""
    found = []
    for record in records:
        reason = without_meaning(record)
        found.append(record if reason is None else {**record, "status": "n/a", "reason": reason, "scores": None})
    return found
