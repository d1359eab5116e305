"""`zoo-bench pack`: joins the loose records of a results folder, and their pair scores, into two Parquet files.

Loose files are removed after the packed files were read back from the disk. After an interruption at any moment, each
record is in its own file, packed, or both; packing again continues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from benchmark.records.conflicts import Cell, StoredRecord, cell_of, settle
from benchmark.records.folder import Records, pause_garbage_collection
from benchmark.records.packed import PAIRS, RECORDS, Packed, pair_rows, read_packed, text_of, write_packed
from benchmark.records.record import Record
from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import SUMS, check_writable, remove_dead, temporary_prefix

if TYPE_CHECKING:
    import pyarrow as pa

    from benchmark.tasks.base import PairScores


@dataclass
class Packing:
    records: int = 0
    added: int = 0
    skipped: list[str] = field(default_factory=list)


def pack(folder: Path) -> Packing:
    """Pack loose records; damaged or contradictory records stay. Raises MissingError without records, CorruptError."""
    if not folder.is_dir():
        # Raises UsageError for a file.
        Records(folder)
        raise MissingError(f"{folder} does not exist; name a results folder with --results.")
    check_writable(folder)
    # Beside the records: all machines see it.
    with FileLock(folder / ".pack.lock"), pause_garbage_collection():
        # Whoever wrote these had the lock, and is dead.
        for name in (PAIRS, RECORDS, SUMS):
            remove_dead(folder, temporary_prefix(name), seconds=0)
        for place in (folder / "records").glob("*/"):
            remove_dead(place)
        return _pack(folder)


def _pack(folder: Path) -> Packing:
    store, done = Records(folder), Packing()
    before = read_packed(folder)
    loose = [(stored, (folder / stored.place).read_bytes()) for stored in store.loose()]
    done.skipped = [reason for _, reason in store.corrupt]
    if not loose and before is None:
        raise MissingError(" ".join([f"no record to pack in {folder}.", *done.skipped]))
    cells: dict[Cell, list[StoredRecord]] = defaultdict(list)
    for number in range(len(before) if before else 0):
        assert before is not None
        record = before.record(number)
        cells[cell_of(record)].append(StoredRecord(record, RECORDS, before.digest(number)))
    new: dict[Cell, PairScores | None] = {}
    removable: list[tuple[StoredRecord, bytes]] = []
    for stored, content in loose:
        cell = cell_of(stored.record)
        kept = settle([*cells[cell], stored])
        if len(kept) > 1:
            done.skipped.append(f"{folder / stored.place}: conflict: a packed record of this cell has another score.")
            continue
        if kept[0] is stored:
            try:
                new[cell] = store.loose_pairs(stored.record) if store.pairs_file(stored.record) else None
            except (MissingError, CorruptError) as error:
                done.skipped.append(f"{folder / stored.place}: {error}")
                continue
            cells[cell] = kept
        removable.append((stored, content))
    records = sorted((stored.record for several in cells.values() for stored in several), key=store.place)
    if new:
        texts = [text_of(record) for record in records]
        write_packed(folder, list(zip(texts, records, strict=True)), _tables(before, new, records))
        again = read_packed(folder)
        written = [] if again is None else [again.text(number) for number in range(len(again))]
        if again is None or written != texts or any(again.pairs(cell[1]) is None for cell in new):
            raise ZooError(f"{folder / RECORDS} was not written as it should be; nothing was removed.")
    done.records, done.added = len(records), len(new)
    for stored, content in removable:
        path, pairs = folder / stored.place, store.pairs_file(stored.record)
        # Else a run has written a new record meanwhile.
        if path.read_bytes() == content:
            if pairs is not None:
                pairs.unlink()
            path.unlink()
    return done


def _tables(
    before: Packed | None, new: dict[Cell, PairScores | None], records: Collection[Record]
) -> Iterator[pa.Table]:
    by_task: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.get("pairs"):
            by_task[record["task"]["name"]].append(record)
    for task in sorted(by_task):
        scores = []
        there = before.pairs(task) if before else {}
        for record in by_task[task]:
            cell = cell_of(record)
            pair = new[cell] if cell in new else there.get((cell[0], cell[2]))
            if pair is not None:
                scores.append((record, pair))
        if scores:
            yield pair_rows(scores)
