"""Keeps what was read from a folder of loose records, so that the next reading opens only new and changed files.

The index is one file in the cache folder of this machine. Each record is a line in it, known by the name, size, times
and inode of its file; parts that records share (recipes, machines, commands) are kept once, also in memory. An index
that is damaged, or of another schema, is made again from the records.
"""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from benchmark.records.schema import SCHEMA, Record
from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import atomic_path, read_text, reading, sha256_file, sha256_json, write_text
from zoo.paths import cache_folder

_FORM = 1  # increased when the same lines would be read as other records


class Parts:
    """Parts of records, equal ones once: the records that it returns share them and must not be changed."""

    def __init__(self, kept: list[Any] | None = None) -> None:
        self.kept = [] if kept is None else kept
        self._numbers: dict[bytes, int] = {}

    def _number(self, part: object) -> int:
        if len(self._numbers) < len(self.kept):  # as they were read from an index
            self._numbers = {_digest(one): number for number, one in enumerate(self.kept)}
        number = self._numbers.setdefault(_digest(part), len(self.kept))
        if number == len(self.kept):
            self.kept.append(_with_shared_keys(part))
        return number

    def row(self, record: Record) -> list[Any]:
        """Return a record as a list: the number of its keys' part, then its values, a part as a list of its number."""
        values = ([self._number(value)] if isinstance(value, dict | list) else value for value in record.values())
        return [self._number(list(record)), *values]

    def record(self, row: list[Any]) -> Record:
        """Return the record that `row` made a list of."""
        values = (self.kept[value[0]] if isinstance(value, list) else value for value in row[1:])
        return cast(Record, dict(zip(self.kept[row[0]], values, strict=True)))


def _with_shared_keys(part: Any) -> Any:
    """Return an equal part whose keys are interned: each decoded file has its own strings, a third of the memory."""
    if isinstance(part, dict):
        return {sys.intern(key): _with_shared_keys(value) for key, value in part.items()}
    return [_with_shared_keys(value) for value in part] if isinstance(part, list) else part


def _digest(part: object) -> bytes:
    return hashlib.sha256(json.dumps(part).encode()).digest()  # keys in their order, as tables may show them


class Index:
    """The index of a results folder; `record` and `add` are called for each file, then `write` once."""

    def __init__(self, folder: Path) -> None:
        named = sha256_json([str(folder.resolve()), sha256_file(SCHEMA), _FORM])
        self.path = cache_folder() / "records" / f"{named[:32]}.jsonl"
        self.sum = self.path.with_suffix(".sha256")
        self.parts = Parts()
        self._before: dict[str, tuple[list[int], str]] = {}  # place -> state of the file, line
        self._lines: list[str] = []
        with suppress(MissingError, CorruptError):
            self._read()

    def _read(self) -> None:
        if sha256_file(self.path) != read_text(self.sum):
            raise CorruptError(f"{self.path} is damaged.")
        before: dict[str, tuple[list[int], str]] = {}
        with reading(self.path), self.path.open(encoding="utf-8") as file:
            parts = Parts(json.loads(next(file)))
            for line in file:
                place, state, _ = json.loads(line)
                before[place] = state, line
        self.parts, self._before = parts, before

    def record(self, place: str, state: list[int]) -> Record | None:
        """Return the record of a file that is as it was when it was read, else None."""
        known, line = self._before.get(place, (None, ""))
        if known != state or not state:
            return None
        self._lines.append(line)
        return self.parts.record(json.loads(line)[2])

    def add(self, place: str, state: list[int], record: Record) -> Record:
        """Keep the record that a file holds; returns it with the parts that it shares with others."""
        row = self.parts.row(record)
        self._lines.append(json.dumps([place, state, row]) + "\n")
        return self.parts.record(row)

    def write(self) -> None:
        """Write the index if any file is new, changed or gone; it is not needed, so may fail."""
        if self._lines == [line for _, line in self._before.values()]:
            return
        with suppress(ZooError):
            with atomic_path(self.path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(self.parts.kept) + "\n")
                file.writelines(self._lines)
            write_text(self.sum, sha256_file(self.path))
