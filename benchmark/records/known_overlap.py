"""The overlap of test and training texts for older records, read from overlap.json in their results folder.

Newer records state their own overlap. overlap.json: corpus sha256 -> task -> {"sha256" of the task's data, "texts",
"digests"}; `zoo-bench data overlap` makes it from the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import CorruptError, MissingError
from zoo.files import read_mapping

if TYPE_CHECKING:
    from benchmark.records.schema import OverlapPart, Record

FILE = "overlap.json"


def read_overlap(results: Path) -> dict[str, Any]:
    """Return the content of a results folder's overlap.json, {} without one; raises CorruptError for a damaged one."""
    try:
        found = read_mapping(results / FILE)
    except MissingError:
        return {}
    for tasks in found.values():
        if not isinstance(tasks, dict) or not all(_is_entry(entry) for entry in tasks.values()):
            raise CorruptError(f"{results / FILE} does not say of each corpus and task what they share; delete it.")
    return found


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("sha256"), str)
        and type(entry.get("texts")) is int
        and isinstance(entry.get("digests"), list)
        and all(isinstance(digest, str) for digest in entry["digests"])
    )


def with_overlap(records: Iterable[Record], known: Mapping[str, Any]) -> list[Record]:
    """Return the records; those without an overlap get the known one for their corpus and task data, if any."""
    return [_completed(record, known) for record in records]


def _completed(record: Record, known: Mapping[str, Any]) -> Record:
    training = record["training"]
    if training is None:
        return record
    corpus = training.get("corpus") or {}
    entry = known.get(corpus.get("sha256") or "", {}).get(record["task"]["name"])
    if "overlap" in training or entry is None or entry["sha256"] != record["task"]["sha256"]:
        return record
    overlap: OverlapPart = {"texts": entry["texts"], "digests": entry["digests"]}
    return {**record, "training": {**training, "overlap": overlap}}
