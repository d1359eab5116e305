"""Contradictory records: two of a cell, or a table's column measured on different data.

No record wins silently: a cell with two scores counts as failed, and a column keeps only the rows of the same data
digest and version of its task.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from benchmark.keys import without_times
from benchmark.reasons import reason
from benchmark.records.record import Record

# Method, task, key; then sha256 of gold scores, or of data with its versions.
Cell = tuple[str, str, str]
_Digest = str | tuple[str | None, "Versions"]


class Versions(NamedTuple):
    """Versions that, with the data, decide if scores mix; a method's is in its row's key."""

    protocol: int
    task: int
    metrics: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return ", ".join(
            [f"version {self.task}", *(f"{name} {n}" for name, n in self.metrics), f"protocol {self.protocol}"]
        )


class StoredRecord(NamedTuple):
    record: Record
    place: str
    # Sha256 of a packed record's JSON where another record has its key.
    digest: str = ""


def cell_of(record: Record) -> Cell:
    return record["method"]["name"], record["task"]["name"], record["key"]


def _text(stored: StoredRecord) -> str:
    return json.dumps(stored.record, sort_keys=True)


def _measured(record: Record) -> tuple[object, ...]:
    return without_times(record["scores"]), _data(record), _gold(record)


def settle(several: Sequence[StoredRecord]) -> list[StoredRecord]:
    """Return the valid records of a cell: a single record, or all that contradict each other.

    Measured records take precedence over failures. The earliest of equal scores counts, and the latest failure.
    """
    replaced = {digest for stored in several for digest in stored.record.get("replaces", ())}
    kept = [stored for stored in several if stored.digest not in replaced] or list(several)
    kept = list({_text(stored): stored for stored in reversed(kept)}.values())
    kept.sort(key=lambda stored: (stored.record["started"], _text(stored)))
    measured = [stored for stored in kept if stored.record["status"] == "ok"]
    if not measured:
        return kept[-1:]
    first = _measured(measured[0].record)
    return measured[:1] if all(_measured(stored.record) == first for stored in measured) else measured


def settled(stored: Iterable[StoredRecord]) -> tuple[list[Record], list[str]]:
    """Also returns a sentence for each contradictory cell, failed with a reason naming the files."""
    cells: dict[Cell, list[StoredRecord]] = defaultdict(list)
    for stored_record in stored:
        cells[cell_of(stored_record.record)].append(stored_record)
    records, conflicts = [], []
    for (name, task, key), several in cells.items():
        kept = settle(several) if len(several) > 1 else several
        record = kept[0].record
        if len(kept) > 1:
            scores = " and ".join(str(entry.record["scores"] and entry.record["scores"]["main"]) for entry in kept)
            places = " and ".join(dict.fromkeys(entry.place for entry in kept))
            why = reason("contradiction", key=key[:8], scores=scores, places=places)
            conflicts.append(f"{name} on {task}: {why}.")
            record = {**record, "status": "failed", "reason": why, "scores": None, "pairs": None}
        records.append(record)
    return _newest(records), conflicts


def _newest(records: Sequence[Record]) -> list[Record]:
    """Drop records measured again by a later version of task or metric."""
    latest: dict[tuple[object, ...], int] = {}
    for record in records:
        if record["status"] == "ok":
            cell = _data_cell(record)
            latest[cell] = max(latest.get(cell, 0), _age(record))
    return [record for record in records if _age(record) >= latest.get(_data_cell(record), 0)]


def _data_cell(record: Record) -> tuple[object, ...]:
    """Return a cell's identity over versions of its task; a version of method or protocol is another row."""
    return record["method"]["name"], record["row_key"], record["seed"], record["task"]["name"], record["task"]["sha256"]


def _age(record: Record) -> int:
    return record["task"]["version"] + sum(record["task"].get("metrics", {}).values())


def versions_of(record: Record) -> Versions:
    task = record["task"]
    return Versions(record["protocol"], task["version"], tuple(sorted(task.get("metrics", {}).items())))


def _data(record: Record) -> _Digest:
    return record["task"]["sha256"], versions_of(record)


def _gold(record: Record) -> str | None:
    pairs = record.get("pairs")
    return pairs["gold_sha256"] if pairs else None


def one_digest(records: Sequence[Record]) -> list[Record]:
    """Return the records; a record on other data than most rows of its task becomes n/a.

    Compared are the sha256 of the files with the versions of task and protocol, then the known gold scores. A row with
    several digests is returned unchanged; its table has no value for it. Each --limit is compared separately.
    """
    by_task: dict[tuple[str, int | None], list[Record]] = defaultdict(list)
    for record in records:
        if record["status"] == "ok":
            by_task[record["task"]["name"], record["limit"]].append(record)
    refused: dict[int, str] = {}
    for (task, _), of_task in by_task.items():
        digests: tuple[tuple[Callable[[Record], _Digest | None], str], ...] = (
            (_data, "other data"),
            (_gold, "other gold"),
        )
        for digest, what in digests:
            kept = [r for r in of_task if id(r) not in refused]
            refused |= _others(task, kept, digest, what)
    return [
        {**record, "status": "n/a", "reason": refused[id(record)], "scores": None} if id(record) in refused else record
        for record in records
    ]


def _others(
    task: str, records: Sequence[Record], digest: Callable[[Record], _Digest | None], what: str
) -> dict[int, str]:
    rows: dict[tuple[str, str], set[_Digest]] = defaultdict(set)
    latest: dict[_Digest, str] = {}
    for record in records:
        if (value := digest(record)) is not None:
            rows[record["method"]["name"], record["row_key"]].add(value)
            latest[value] = max(latest.get(value, ""), record["started"])
    votes = Counter(value for values in rows.values() if len(values) == 1 for value in values)
    if len(votes) < 2:
        return {}
    most = max(votes, key=lambda value: (votes[value], latest[value], str(value)))
    reasons = {}
    for record in records:
        values, its_value = rows.get((record["method"]["name"], record["row_key"]), set()), digest(record)
        if its_value not in (None, most) and len(values) == 1:
            reasons[id(record)] = reason(what, task=task, digest=_short(its_value), most=_short(most))
    return reasons


def _short(value: _Digest) -> str:
    if isinstance(value, tuple):
        return f"sha256 {str(value[0])[:8]}, {value[1]}"
    return f"sha256 {value[:8]}"


def two_versions(records: Collection[Record]) -> str | None:
    """Return why a task's cells are not a single number, with a command to help."""
    measured = [record for record in records if record["status"] == "ok"]
    of_task = {(record["task"]["name"], versions_of(record)) for record in measured}
    if len(of_task) == len({task for task, _ in of_task}):
        return None
    newest = {task: max(version for name, version in of_task if name == task) for task, _ in of_task}
    older = {r["row_key"] for r in measured if versions_of(r) != newest[r["task"]["name"]]}
    return reason("two versions", command=command_of([r for r in measured if r["row_key"] in older]))


def command_of(records: Collection[Record]) -> str:
    latest = max(records, key=lambda record: (record.get("seeds", 0), record["started"]))
    words = [word for word in latest["command"] if word != "--remeasure"]
    if "--shard" in words:
        place = words.index("--shard")
        del words[place : place + 2]
    return shlex.join(words) if words[:1] == ["zoo-bench"] else "the same run"
