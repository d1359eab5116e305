"""Edits of records and of results folders, as a forger would make them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmark.checking.bound import (
    STATED,
)
from benchmark.checking.verify import Check
from benchmark.records.folder import Records
from benchmark.records.record import Record, parse_record
from zoo.errors import CorruptError
from zoo.files import sha256_json


def leaves(value: Any, where: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the place of each value of a record, and of each mapping and list in it."""
    if where:
        yield where
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in items:
        yield from leaves(part, (*where, str(name)))


def edited(value: Any) -> Any:
    """Return a value of the same kind that is another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if isinstance(value, int) else 1.03 * value + 0.02
    if isinstance(value, str):
        return ("1" if value[0] == "0" else "0") + value[1:] if value else "x"
    if isinstance(value, list):
        return value[1:] if value else ["x"]
    return "x" if value is None else dict(list(value.items())[1:]) if value else {"x": 1}


def at(record: Any, where: tuple[str, ...]) -> tuple[Any, Any]:
    """Return the mapping or list that contains a place, and its last step."""
    for step in where[:-1]:
        record = record[int(step) if isinstance(record, list) else step]
    return record, int(where[-1]) if isinstance(record, list) else where[-1]


def is_stated(where: tuple[str, ...], more: set[str]) -> bool:
    """Return whether a place is in a field that nothing here can say again."""
    return any(".".join(where[: name.count(".") + 1]) == name for name in {*STATED, *more})


def word_of(record: Any, check: Check) -> str:
    """Return the verdict on a record that is signed again; readers leave out what is no record."""
    try:
        return check.verdict(parse_record(json.dumps({**record, "sha256": sha256_json(record)}), "")).word
    except CorruptError:
        return "differs"


def copied(folder: Path, name: str, task: str = "") -> tuple[Records, list[Record]]:
    """Return a folder's records of a method, of one task if it is named, after the others were taken out."""
    store = Records(folder)
    kept = []
    for record in store.all():
        if record["method"]["name"].startswith(name) and record["task"]["name"].startswith(task):
            kept.append(record)
        else:
            store.path(record["method"]["name"], record["task"]["name"], record["key"]).unlink()
    return store, kept
