"""`zoo-bench pack`: joins the loose records of a results folder, and their pair scores, into one file.

Nothing is removed before the whole pack has been read back from the disk. If packing is stopped at any moment, each
record is in its own file, in the pack, or in both; packing again continues.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import os
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from benchmark.records.conflicts import Cell, StoredRecord, cell_of, settle
from benchmark.records.packed import (
    FORM,
    LINES,
    ORDER,
    PACK_VERSION,
    RECORDS,
    SCORES,
    Pack,
    PairFile,
    key_in,
    member_of,
    read_pack,
)
from benchmark.records.schema import Record, pairs_of
from benchmark.records.store import Records, pause_garbage_collection
from zoo import __version__
from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import atomic_path, check_writable
from zoo.paths import cache_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

PairForm = Literal["scores", "order", "none"]
_LEFTOVER = ".packed"  # the suffix of a file that is about to be removed
_PRESET = 6

_Rows = dict[tuple[str, str], dict[str, "NDArray[Any]"]]  # kind, gold -> sha256 of a pair file -> predictions (n,)


@dataclass
class Packing:
    """What packing did: the number of records in the pack, how many of them are new, and why others stay loose."""

    records: int = 0
    added: int = 0
    lessened: int = 0  # records in the pack that kept more of their pair scores before than now
    removed: int = 0
    left: list[str] = field(default_factory=list)


class _Loose(NamedTuple):
    """A record in a file of its own."""

    record: Record
    path: Path
    sha256: str
    pairs: Path | None  # the file of its pair scores; None where it is absent


def pack(
    folder: Path,
    chosen: Callable[[Record], bool] = lambda _: True,
    *,
    pairs: PairForm = "scores",
    keep: bool = False,
    replace: bool = False,
) -> Packing:
    """Add the chosen loose records of a results folder to its pack, then remove their files (not with `keep`).

    `pairs` says what is kept of pair scores: float32 scores, each pair's place among the distinct scores, or nothing.
    Chosen records that are already packed lose whatever exceeds that. With `replace`, a loose record takes the place of
    a packed record of the same cell with another score; without, it stays loose. Raises MissingError where there is
    nothing to pack, CorruptError where the existing pack is damaged.
    """
    from filelock import FileLock

    if not folder.is_dir():
        Records(folder)  # raises UsageError for a file
        raise MissingError(f"{folder} does not exist; name a results folder with --results.")
    check_writable(folder)
    lock = cache_folder() / "locks" / f"{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:32]}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock), pause_garbage_collection():
        return _Packer(folder, pairs, keep, replace).run(chosen)


class _Packer:
    def __init__(self, folder: Path, pairs: PairForm, keep: bool, replace: bool) -> None:
        self.folder, self.kind, self.keep, self.replace = folder, pairs, keep, replace
        self.store = Records(folder)
        self.done = Packing()

    def run(self, chosen: Callable[[Record], bool]) -> Packing:
        self._put_back()
        before = read_pack(self.folder)
        lines = {} if before is None else {before.lines[i]: before.record(i) for i in range(len(before.lines))}
        loose = [one for one in self._read_loose() if chosen(one.record)]
        if not loose and before is None:
            reasons = [reason for _, reason in self.store.corrupt]
            there = sorted({one.record["method"]["name"] for one in self.store.loose()})
            reasons += [f"It has other records, of {', '.join(there)}."] if there else []
            raise MissingError(" ".join([f"no record to pack in {self.folder}.", *reasons]))
        loose, rows, golds = self._read_pairs(loose)
        old = set(lines)
        lessened = self._lessened(before, lines.values(), chosen)
        packed = self._merge(lines, loose)
        self.done.records, self.done.added = len(lines), len(set(lines) - old)
        self.done.lessened = sum(map(len, lessened.values()))
        if set(lines) != old or before is None or lessened:
            ordered = sorted(lines, key=lambda line: (*self.store.place(lines[line]), line))
            write_pack(self.folder, self._pairs(before, lines.values(), lessened, rows, golds), ordered)
            self._verify(lines, [one for one in packed if self.kind != "none"])
        self.done.left += [reason for _, reason in self.store.corrupt]
        if not self.keep:
            self._remove(packed)
        return self.done

    def _put_back(self) -> None:
        """Restore the names of files that an interrupted packing was about to remove; remove its unfinished pack."""
        for unfinished in self.folder.glob(f".{RECORDS}.*.tmp"):  # the lock is held: nobody is writing it
            unfinished.unlink(missing_ok=True)
        for leftover in (self.folder / "records").glob(f"*/*{_LEFTOVER}"):
            original = leftover.with_name(leftover.name.removesuffix(_LEFTOVER))
            _rename_to_nothing(leftover, original)

    def _read_loose(self) -> list[_Loose]:
        found = []
        for record, place, _ in self.store.loose():
            path = self.folder / place
            with contextlib.suppress(OSError):
                found.append(_Loose(record, path, _sha256(path.read_bytes()), self.store.pairs_file(record)))
        return found

    def _read_pairs(self, loose: list[_Loose]) -> tuple[list[_Loose], dict[str, _Rows], dict[str, NDArray[Any]]]:
        """Return the records whose pair scores are valid or absent, the predictions by task, and the gold scores."""
        whole: list[_Loose] = []
        rows: dict[str, _Rows] = defaultdict(lambda: defaultdict(dict))
        golds: dict[str, NDArray[Any]] = {}
        for one in loose:
            if one.pairs is not None:
                said = pairs_of(one.record)
                try:
                    predicted, gold = self.store.loose_pairs(one.record)
                except (MissingError, CorruptError) as error:
                    self.done.left.append(f"{one.path}: {error}")
                    continue
                if self.kind != "none":
                    golds[said["gold_sha256"]] = gold
                    stored = predicted if self.kind == SCORES else _places(predicted)
                    rows[one.record["task"]["name"]][self.kind, said["gold_sha256"]][said["sha256"]] = stored
            whole.append(one)
        return whole, rows, golds

    def _merge(self, lines: dict[bytes, Record], loose: list[_Loose]) -> list[_Loose]:
        """Add loose records to the lines of the pack; returns those that the pack now contains unchanged."""
        cells: dict[Cell, list[bytes]] = defaultdict(list)
        for line, record in lines.items():
            cells[cell_of(record)].append(line)
        packed = []
        for one in loose:
            line, cell = _line(one.record), cell_of(one.record)
            there = [other for other in cells[cell] if other != line]
            if there and line not in lines:
                why = (
                    None
                    if self.replace
                    else _why_not([StoredRecord(lines[o], RECORDS, _sha256(o)) for o in there], one)
                )
                if why is not None:
                    self.done.left.append(f"{one.path}: {why}; --replace packs this one instead.")
                    continue
                for other in there:
                    del lines[other]
            lines[line] = one.record
            cells[cell] = [line]
            packed.append(one)
        return packed

    def _lessened(
        self, before: Pack | None, records: Iterable[Record], chosen: Callable[[Record], bool]
    ) -> dict[str, set[str]]:
        """Return, by task, the sha256 of the pair files of packed records whose pair scores are to be reduced."""
        wanted: dict[str, dict[bool, set[str]]] = defaultdict(lambda: {True: set(), False: set()})
        for record in records if self.kind != SCORES else ():
            if said := record.get("pairs"):
                wanted[record["task"]["name"]][chosen(record)].add(said["sha256"])
        found = {}
        for task, by_choice in wanted.items():
            file = before.file(task) if before is not None and by_choice[True] else None
            rows = {} if file is None else file.rows
            more = {sha256 for sha256, (kind, _, _) in rows.items() if kind != self.kind}
            found[task] = more & by_choice[True] - by_choice[False]
        return {task: rows for task, rows in found.items() if rows}

    def _pairs(
        self,
        before: Pack | None,
        records: Iterable[Record],
        lessened: dict[str, set[str]],
        rows: dict[str, _Rows],
        golds: dict[str, NDArray[Any]],
    ) -> Iterator[tuple[str, bytes]]:
        """Yield each task that has pair scores, with the bytes of its member in the new pack."""
        wanted: dict[str, set[str]] = defaultdict(set)
        for record in records:
            if said := record.get("pairs"):
                wanted[record["task"]["name"]].add(said["sha256"])
        for task in sorted(wanted):
            there = None if before is None else before.file(task)
            less = lessened.get(task, set())
            if before is not None and there and not less and task not in rows and set(there.rows) <= wanted[task]:
                yield task, before.pair_bytes(task)
                continue
            merged = _joined(there, rows.get(task, {}), wanted[task], less, self.kind)
            if merged:
                yield task, _pair_bytes(merged, {**(there.golds if there is not None else {}), **golds})

    def _verify(self, lines: dict[bytes, Record], packed: Iterable[_Loose]) -> None:
        """Read the pack from the disk as any reader will; raises ZooError unless it is complete."""
        again = read_pack(self.folder)
        if again is None or sorted(again.lines) != sorted(lines):
            raise ZooError(f"{self.folder / RECORDS} was not written as it should be; nothing was removed.")
        for task in again.pairs:
            again.pair_bytes(task)
        for one in packed:
            if one.pairs is None:
                continue
            expected = self.store.loose_pairs(one.record)
            found = again.pair_scores(one.record)
            stored = expected[0] if self.kind == SCORES else _places(expected[0]).astype(np.float32)
            if found[0].tobytes() != stored.tobytes() or found[1].tobytes() != expected[1].tobytes():
                raise ZooError(f"{again.path} has not the pair scores that it should have; nothing was removed.")

    def _remove(self, packed: Iterable[_Loose]) -> None:
        """Remove the files of packed records, unless a run has written new ones meanwhile."""
        for one in packed:
            if one.pairs is not None:  # before the record, so that a stop in between leaves no unreferenced pair file
                _remove_file(one.pairs, pairs_of(one.record)["sha256"])
            self.done.removed += _remove_file(one.path, one.sha256)
            with contextlib.suppress(OSError):  # the folder is not empty
                one.path.parent.rmdir()
        with contextlib.suppress(OSError):
            (self.folder / "records").rmdir()


def _why_not(there: list[StoredRecord], one: _Loose) -> str | None:
    """Return why a loose record does not replace the packed records of its cell, or None where it does."""
    left = settle([*there, StoredRecord(one.record, one.path.name)])
    if len(left) > 1:
        return "conflict: the pack has another score of this cell"
    if left[0].record != one.record:
        return "the pack has a record of this cell that counts instead"
    left_out = {found.digest for found in there if found.record["status"] == "ok"} - {*one.record.get("replaces", ())}
    return "the pack has the same score of this cell" if left_out else None


def _remove_file(path: Path, sha256: str) -> bool:
    """Remove a file if it still has this content; returns whether it is gone.

    The file is renamed first, so that a file which a run writes there meanwhile is not removed.
    """
    aside = path.with_name(path.name + _LEFTOVER)
    try:
        path.rename(aside)
        if _sha256(aside.read_bytes()) == sha256:
            aside.unlink()
            return True
        _rename_to_nothing(aside, path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ZooError(f"{path} is packed but cannot be removed: {error.strerror or error}.") from error
    return False


def _rename_to_nothing(aside: Path, path: Path) -> None:
    """Rename a file back to `path`; if a new file has been written there, remove the older one instead."""
    with contextlib.suppress(FileExistsError):
        os.link(aside, path)
    aside.unlink()


def _joined(there: PairFile | None, new: _Rows, wanted: set[str], less: set[str], kind: PairForm) -> _Rows:
    """Join a task's packed predictions with the new ones: one row for each wanted record.

    Rows in `less` keep no more than `kind`.
    """
    joined: _Rows = defaultdict(dict)
    have: set[str] = set()
    for group, of_group in sorted(new.items(), key=lambda item: item[0][0] != SCORES):
        for sha256, predicted in of_group.items():
            if sha256 in wanted and sha256 not in have:
                joined[group][sha256] = predicted
                have.add(sha256)
    for sha256, (form, gold, _) in there.rows.items() if there is not None else ():
        assert there is not None
        if sha256 not in wanted - have or (sha256 in less and kind == "none"):
            continue
        predicted = there.scores(sha256)[0]
        if form == SCORES and sha256 not in less:
            joined[SCORES, gold][sha256] = predicted
        else:
            joined[ORDER, gold][sha256] = _places(predicted)
    return joined


def _pair_bytes(rows: _Rows, golds: dict[str, NDArray[Any]]) -> bytes:
    """Return the bytes of a member of pair scores; the same rows give the same bytes."""
    from safetensors.numpy import save

    arrays: dict[str, NDArray[Any]] = {}
    for (kind, gold), of_group in sorted(rows.items()):
        keys = sorted(of_group)
        matrix = np.stack([of_group[key] for key in keys])
        if kind == ORDER:
            order, bases = _alike(matrix)
            keys, matrix = [keys[row] for row in order], matrix[order].astype(np.int64)
            matrix[1:] -= matrix[bases[1:]]
            matrix = (matrix << 1) ^ (matrix >> 63)  # zigzag code: 0, -1, 1, -2, 2 ... as 0, 1, 2, 3, 4
            arrays[f"bases.{gold}"] = bases
        matrix = matrix.astype("<f4" if kind == SCORES else "<u2" if matrix.max(initial=0) < 1 << 16 else "<u4")
        planes = matrix.view(np.uint8).reshape(*matrix.shape, matrix.itemsize)
        arrays[f"{kind}.{gold}"] = np.ascontiguousarray(np.moveaxis(planes, -1, 0))
        arrays[f"keys.{kind}.{gold}"] = np.array([list(bytes.fromhex(key)) for key in keys], dtype=np.uint8)
        arrays[f"gold.{gold}"] = golds[gold]
    return _xz(save(arrays))


def _alike(places: NDArray[Any]) -> tuple[list[int], NDArray[np.uint32]]:
    """Return an order of the rows (n,), and for each row but the first the position of the most similar earlier row.

    This is Prim's minimum spanning tree. For tasks of up to about 200,000 pairs the distances are integers that float64
    holds exactly, so that the order is the same on every machine.
    """
    numbers = places.astype(np.float64)
    products = numbers @ numbers.T
    distance = products.diagonal()[:, None] + products.diagonal() - 2 * products
    order, bases = [0], [0]
    nearest, base = distance[0].copy(), np.zeros(len(places), dtype=np.int64)
    nearest[0] = np.inf
    while len(order) < len(places):
        row = int(np.argmin(nearest))
        bases.append(int(base[row]))
        closer = distance[row] < nearest
        nearest[closer], base[closer] = distance[row, closer], len(order)
        order.append(row)
        nearest[order] = np.inf
    return order, np.array(bases, dtype=np.uint32)


def write_pack(folder: Path, pairs: Iterable[tuple[str, bytes]], lines: Iterable[bytes]) -> None:
    """Write a pack: the pair scores of tasks, then the records, one per line. The same content gives the same bytes."""
    named = {}
    with atomic_path(folder / RECORDS) as temporary, zipfile.ZipFile(temporary, "w") as file:
        for task, content in pairs:
            named[task] = _sha256(content)
            file.writestr(_stored(member_of(task)), content)
        head = json.dumps({FORM: PACK_VERSION, "version": __version__, "pairs": named}, separators=(",", ":"))
        file.writestr(_stored(LINES), _xz(b"\n".join([head.encode(), *lines]) + b"\n"))


def _stored(name: str) -> zipfile.ZipInfo:
    """Return a zip member's header that is the same everywhere: fixed time, Unix permissions, no compression."""
    member = zipfile.ZipInfo(name)
    member.create_system, member.external_attr = 3, 0o644 << 16
    return member


def _places(predicted: NDArray[Any]) -> NDArray[np.uint32]:
    """Return each pair's place (n,), from 0, among the distinct predictions: equal ones share it."""
    return np.unique(predicted, return_inverse=True)[1].astype(np.uint32)


def _line(record: Record) -> bytes:
    """Return a record as one line of JSON that begins with the record's key."""
    line = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    if key_in(line) != record["key"]:
        line = json.dumps({"key": record["key"], **record}, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    return line


def _xz(content: bytes) -> bytes:
    return lzma.compress(content, format=lzma.FORMAT_XZ, check=lzma.CHECK_SHA256, preset=_PRESET)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
