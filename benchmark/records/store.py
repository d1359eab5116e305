"""A results folder: one JSON record per cell, written atomically, validated when written and when read; or packed.

A run writes loose records; `zoo-bench pack` joins them into one file. Every reader reads both, also beside each other.
Reading renames nothing and needs no right to write. A run alone (`set_aside=True`) moves a damaged record aside.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmark.records.conflicts import Found, cell_of, settled
from benchmark.records.meaning import judged
from benchmark.records.packed import RECORDS, Pack, check_pairs, read_pack
from benchmark.records.schema import (
    MOST_BYTES,
    NewerRecordError,
    Record,
    pairs_of,
    parse_record,
    plain,
)
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.files import read_arrays, sha256_file, sha256_json, slug, write_arrays, write_text
from zoo.progress import print_safe

if TYPE_CHECKING:
    from benchmark.tasks.base import PairScores

_PAIRS_SPARE = 4096  # bytes of a pair file beside its numbers
_MANY_PAIRS = 1 << 20  # pairs that a file may hold, or the number that its record states


class UnreadableError(CorruptError):
    """A record that is not a file or that may not be read; what it holds may be undamaged."""


@dataclass
class Records:
    """A folder of records; `corrupt` lists what was left out while reading, with a sentence for each.

    Where there is a pack, every method raises CorruptError if that is damaged.
    """

    folder: Path
    set_aside: bool = False  # True: a damaged record whose cell is asked for is renamed to *.corrupt
    corrupt: list[tuple[Path, str]] = field(default_factory=list)
    _pack: tuple[object, Pack | None] = field(default=(None, None), repr=False, compare=False)

    def packed(self) -> Pack | None:
        """Return the packed records of the folder (None: there are none), read again when their file has changed."""
        try:
            status = (self.folder / RECORDS).stat()
        except OSError:
            return read_pack(self.folder)
        mark = (status.st_mtime_ns, status.st_size, status.st_ino)
        if self._pack[0] != mark:
            self._pack = (mark, read_pack(self.folder))
        return self._pack[1]

    def path(self, name: str, task: str, key: str) -> Path:
        """Return where the record of a cell lies: by method, then task and the start of its key."""
        return self.folder.joinpath("records", *_place(name, task, key))

    def encoder_folder(self, name: str, encoder_key: str) -> Path:
        """Return the folder of an encoder that learned something: `encoder`, fit.json and the training's log."""
        return self.folder / "encoders" / f"{slug(name)}-{encoder_key[:16]}"

    def finished(self, name: str, task: str, key: str) -> Record | None:
        """Return the record of a cell that was measured, else None (failed and n/a cells are tried again).

        Raises UsageError where a later version of zoo-bench measured it: its record is not for us to write over.
        """
        loose, path = [], self.path(name, task, key)
        try:
            loose = [_read(path)]
        except MissingError:
            pass
        except (NewerRecordError, UnreadableError) as error:
            raise UsageError(f"{error} Or name another results folder.") from error
        except CorruptError as error:
            self.corrupt.append((self._aside(path), str(error)))
        packed = self._packed_of((name, task, key))
        if any(digest in loose[0].get("replaces", ()) for _, digest in packed if loose):
            packed = []
        for record in (*loose, *(record for record, _ in packed)):
            if cell_of(record) == (name, task, key) and record["status"] == "ok":
                return record
        return None

    def _packed_of(self, cell: tuple[str, str, str]) -> list[tuple[Record, str]]:
        """Return the packed records of a cell, each with the sha256 of its line."""
        pack = self.packed()
        return [] if pack is None else [(r, digest) for r, digest in pack.with_key(cell[2]) if cell_of(r) == cell]

    def _aside(self, path: Path) -> Path:
        """Rename a damaged record where that is wanted; returns where it is now."""
        if not self.set_aside:
            return path
        aside = path.with_name(path.name + ".corrupt")
        try:
            path.replace(aside)
        except OSError as problem:
            raise ZooError(f"{path} is damaged and cannot be moved aside: {problem}.") from problem
        return aside

    def write(self, record: Mapping[str, object], pairs: PairScores | None = None) -> Path:
        """Validate and write a record, and first, beside it, the scores of its pairs; returns the record's path.

        Raises CorruptError for what is no record.
        """
        given = {**record, "pairs": None} if pairs is not None else record
        content, checked = _as_json(given, "the record")
        path = self._path_of(checked)
        if replaced := [digest for _, digest in self._packed_of(cell_of(checked))]:
            record = {**record, "replaces": replaced}
            content, checked = _as_json({**given, "replaces": replaced}, "the record")
        if pairs is not None:
            with np.errstate(over="ignore"):  # what float32 cannot hold is refused in the next line
                predicted, gold = (side.astype("float32") for side in pairs)
            if not (np.isfinite(predicted).all() and np.isfinite(gold).all()):
                raise CorruptError("the scores of its pairs are not all finite in float32.")
            file = path.with_name(f"{path.stem}.pairs.safetensors.gz")
            write_arrays(file, {"predicted": predicted, "gold": gold})
            gold_sha256 = hashlib.sha256(gold.tobytes()).hexdigest()
            named = {"file": file.name, "sha256": sha256_file(file), "gold_sha256": gold_sha256}
            content, _ = _as_json({**record, "pairs": named}, str(path))
        write_text(path, content)
        return path

    def pairs_file(self, record: Record) -> Path | None:
        """Return the file of a record's pair scores, or None where there is none (any more)."""
        if not record.get("pairs"):
            return None
        file = self._path_of(record).with_name(pairs_of(record)["file"])
        return file if file.is_file() else None

    def has_pairs(self, record: Record) -> bool:
        """Return whether the pair scores of a record are here."""
        pack = self.packed()
        return (pack is not None and pack.has_pairs(record)) or self.pairs_file(record) is not None

    def pair_scores(self, record: Record) -> PairScores:
        """Return predicted and gold scores (n,), float32, of a record's pairs; raises MissingError or CorruptError."""
        try:
            return self.loose_pairs(record)
        except (MissingError, CorruptError):
            pack = self.packed()
            if pack is None or not pack.has_pairs(record):
                raise
        return pack.pair_scores(record)

    def loose_pairs(self, record: Record) -> PairScores:
        """Return the pair scores in the file beside a loose record; raises MissingError or CorruptError."""
        file, what = self.pairs_file(record), f"{record['method']['name']} on {record['task']['name']}"
        if file is None:
            raise MissingError(
                f"{what}: no pair scores beside {self._path_of(record)}; delete that record and run the method again,"
                " which keeps them (without training again where the encoder is still in the folder)."
            )
        most = 8 * max(record["task"]["rows"] or 0, _MANY_PAIRS) + _PAIRS_SPARE
        arrays = read_arrays(file, pairs_of(record)["sha256"], most_bytes=most)
        try:
            predicted, gold = arrays["predicted"], arrays["gold"]
        except KeyError as error:
            raise CorruptError(f"{what}: {file} has no scores called {error}.") from error
        if predicted.ndim != 1 or predicted.shape != gold.shape or {predicted.dtype.str, gold.dtype.str} != {"<f4"}:
            shapes = f"{predicted.dtype} {predicted.shape} and {gold.dtype} {gold.shape}"
            raise CorruptError(f"{what}: {file} has {shapes} instead of two float32 vectors of one length.")
        check_pairs(predicted, gold, record, file)
        return predicted, gold

    def _path_of(self, record: Record) -> Path:
        """Return where a record lies, or would if it were not packed."""
        return self.path(record["method"]["name"], record["task"]["name"], record["key"])

    def all(self) -> list[Record]:
        """Return one record per cell, loose or packed, by method, task and key; `corrupt` names what was left out.

        A cell whose records contradict each other is a failed one that says so.
        """
        with pause_garbage_collection():
            # Loose ones first: what is packed while they are listed is then found in the pack.
            records, conflicts = settled([*self.loose(), *self._from_pack()])
            records.sort(key=self.place)
        self.corrupt += [(self.folder, sentence) for sentence in conflicts]
        asides = sorted((self.folder / "records").glob("*/*.json.corrupt"))
        there = {self.place(record) for record in records} if asides else set()
        for aside in asides:
            if (aside.parent.name, aside.stem) not in there:
                self.corrupt.append(
                    (aside, f"{aside} was set aside as damaged and not measured again; run the method or delete it.")
                )
        return records

    def loose(self) -> Iterator[Found]:
        """Yield the records that are files of their own; those that cannot be read are added to `corrupt`."""
        for path in sorted((self.folder / "records").glob("*/*.json")):
            try:
                yield Found(_read(path), f"records/{path.parent.name}/{path.name}")
            except MissingError:  # packed or set aside by another process since the folder was listed
                continue
            except CorruptError as error:
                self.corrupt.append((path, str(error)))

    def _from_pack(self) -> Iterator[Found]:
        pack = self.packed()
        for number in range(len(pack.lines) if pack else 0):
            assert pack is not None
            try:
                yield Found(pack.record(number), RECORDS, pack.digest(number))
            except CorruptError as error:
                self.corrupt.append((pack.path, str(error)))

    def place(self, record: Record) -> tuple[str, str]:
        """Return what records are sorted by: the folder and the name of the file, loose or not."""
        return _place(record["method"]["name"], record["task"]["name"], record["key"])


_slug = functools.lru_cache(4096)(slug)


def _place(name: str, task: str, key: str) -> tuple[str, str]:
    return _slug(name), f"{_slug(task)}-{key[:16]}.json"


def read_records(store: Records) -> list[Record]:
    """Return all records of a folder, those without meaning as n/a; what was left out is named on standard error."""
    found = store.all()
    for _, reason in store.corrupt:
        print_safe(f"zoo-bench: record left out: {reason}", sys.stderr)
    return judged(found)


def _read(path: Path) -> Record:
    """Return the record in a file; raises MissingError where there is none, else CorruptError."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError(f"{path} is no file.")
        if status.st_size > MOST_BYTES:
            raise CorruptError(f"{path}: {status.st_size:,} bytes; no record is larger than {MOST_BYTES:,}.")
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise MissingError(f"{path} does not exist.") from error
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {error.strerror or error}.") from error
    return parse_record(content, str(path))


def _as_json(record: Mapping[str, object], where: str) -> tuple[str, Record]:
    """Return a record as a file holds it, and as it is read again; raises CorruptError where it is none."""
    try:
        values = plain({key: value for key, value in record.items() if key != "sha256"})
        values["sha256"] = sha256_json(values)
        content = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        return content, parse_record(content.encode("utf-8"), where)
    except (TypeError, ValueError, RuntimeError) as error:  # RecursionError is one
        raise CorruptError(f"{where} cannot be kept as JSON: {error}.") from error


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause the search for cycles: JSON has none, and with a million new dictionaries it takes half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
