"""A results folder: a JSON record per cell, loose or packed, written atomically, validated on writing and reading.

Reading renames nothing and needs no write permission. Only a run (`set_aside=True`) moves a damaged record aside.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import stat
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmark.metrics.items import item_weights, values_of
from benchmark.records.conflicts import StoredRecord, cell_of, settled
from benchmark.records.items import pairs_of
from benchmark.records.packed import RECORDS, Packed, check_pairs, read_packed
from benchmark.records.record import MOST_BYTES, NewerRecordError, Record, parse_record, plain, scores_of
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.files import sha256_file, sha256_json, slug, write_text
from zoo.paths import is_file
from zoo.progress import print_safe
from zoo.tensors import read_arrays, write_arrays

if TYPE_CHECKING:
    from benchmark.tasks.base import PairScores


class ItemScores(NamedTuple):
    """Predicted and gold scores (n,); of items shares of right answers, or reciprocal ranks, and weights."""

    metric: Literal["spearman", "accuracy"]
    predicted: NDArray[Any]
    gold: NDArray[Any]


class UnreadableError(CorruptError):
    """A record is not a regular file or cannot be read; its content may be undamaged."""


@dataclass
class Records:
    """A folder of records; `corrupt` lists the files left out, each with a reason.

    Damaged packed records make every method raise CorruptError.
    """

    folder: Path
    # A damaged record is renamed to *.corrupt when its cell is read.
    set_aside: bool = False
    corrupt: list[tuple[Path, str]] = field(default_factory=list)
    _read: Packed | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if is_file(self.folder):
            raise UsageError(
                f"{self.folder} is a file; give a results folder. A table of others is read by `zoo-bench others"
                f" {self.folder}`."
            )

    def packed(self) -> Packed | None:
        return read_packed(self.folder)

    def path(self, name: str, task: str, key: str) -> Path:
        return self.folder.joinpath("records", *_place(name, task, key))

    def encoder_folder(self, name: str, encoder_key: str) -> Path:
        return self.folder / "encoders" / f"{slug(name)}-{encoder_key[:16]}"

    def finished(self, name: str, task: str, key: str) -> Record | None:
        """Return a measured record, None for failed and n/a cells; raises UsageError for a later zoo-bench's."""
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
            if cell_of(record) == (name, task, key) and record["status"] == "ok" and self._is_complete(record):
                return record
        return None

    def _is_complete(self, record: Record) -> bool:
        """Whether the pair scores that a record names are there and undamaged."""
        if record.get("pairs"):
            try:
                self.pair_scores(record)
            except (MissingError, CorruptError) as error:
                lost = self.pairs_file(record) or self._path_of(record), str(error)
                self.corrupt += [lost] if lost not in self.corrupt else []
                return False
        return True

    def failure(self, name: str, task: str, key: str) -> str | None:
        try:
            record = _read(self.path(name, task, key))
        except (MissingError, CorruptError):
            return None
        return None if record["status"] == "ok" else record["reason"]

    def _packed_of(self, cell: tuple[str, str, str]) -> list[tuple[Record, str]]:
        pack = self.packed()
        return [] if pack is None else [(r, digest) for r, digest in pack.with_key(cell[2]) if cell_of(r) == cell]

    def _aside(self, path: Path) -> Path:
        if not self.set_aside:
            return path
        aside = path.with_name(path.name + ".corrupt")
        try:
            path.replace(aside)
        except OSError as problem:
            raise ZooError(f"{path} is damaged and cannot be moved aside: {problem}.") from problem
        return aside

    def write(self, record: Mapping[str, object], pairs: PairScores | None = None) -> Path:
        """Write pair scores, then the record; raises CorruptError for a violation of the schema or float32."""
        given = {**record, "pairs": None} if pairs is not None else record
        content, checked = _as_json(given, "the record")
        path = self._path_of(checked)
        if replaced := [digest for _, digest in self._packed_of(cell_of(checked))]:
            record = {**record, "replaces": replaced}
            content, checked = _as_json({**given, "replaces": replaced}, "the record")
        if pairs is not None:
            # Numbers too large for float32 are refused below.
            with np.errstate(over="ignore"):
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
        if not record.get("pairs"):
            return None
        file = self._path_of(record).with_name(pairs_of(record)["file"])
        return file if file.is_file() else None

    def has_pairs(self, record: Record) -> bool:
        if not record.get("pairs"):
            return False
        if self._read is not None and self._read.has_pairs(record):
            return True
        pack = self.packed()
        return (pack is not None and pack.has_pairs(record)) or self.pairs_file(record) is not None

    def has_items(self, record: Record) -> bool:
        return bool(record.get("items")) or self.has_pairs(record)

    def item_scores(self, record: Record) -> ItemScores:
        """Return the items' scores; raises MissingError or CorruptError."""
        items = record.get("items")
        if not items:
            return ItemScores("spearman", *self.pair_scores(record))
        try:
            return ItemScores("accuracy", values_of(items).mean(axis=0), item_weights(items["parts"]))
        except CorruptError as error:
            raise CorruptError(f"{record['method']['name']} on {record['task']['name']}: {error}") from error

    def pair_scores(self, record: Record) -> PairScores:
        """Return predicted and gold scores (n,), float32; raises MissingError or CorruptError."""
        try:
            return self.loose_pairs(record)
        except (MissingError, CorruptError):
            pack = self.packed()
            if pack is None or not pack.has_pairs(record):
                raise
        return pack.pair_scores(record)

    def loose_pairs(self, record: Record) -> PairScores:
        """Raises MissingError or CorruptError."""
        file, what = self.pairs_file(record), f"{record['method']['name']} on {record['task']['name']}"
        metric = scores_of(record)["main_metric"]
        if file is None and metric != "all_spearman" and not record.get("pairs"):
            raise MissingError(f"{what}: its score ({metric}) is of no scored pairs; name other tasks.")
        if file is None:
            raise MissingError(
                f"{what}: no pair scores beside {self._path_of(record)}; run the method again, which keeps them"
                " (without training again where the encoder is still in the folder)."
            )
        arrays = read_arrays(file, pairs_of(record)["sha256"])
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
        return self.path(record["method"]["name"], record["task"]["name"], record["key"])

    def all(self) -> list[Record]:
        """Return records by method, task, key; a contradictory cell is failed. `corrupt` lists omissions."""
        with pause_garbage_collection():
            # Loose records first: a record that is packed while they are listed is then found among the packed ones.
            loose = list(self.loose())
            records, conflicts = settled([*loose, *self._from_pack({stored.record["key"] for stored in loose})])
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

    def damaged(self, method: str, task: str) -> dict[str, str]:
        return {
            path.name.removesuffix(".corrupt"): reason.replace(f"{self.folder}/", "")
            for path, reason in self.corrupt
            if path.parent.name == _slug(method) and path.name.rpartition("-")[0] == _slug(task)
        }

    def damaged_pairs(self, records: Sequence[Record]) -> list[tuple[Path, str]]:
        damages: dict[str, Path] = {}
        for record in records:
            if self.has_pairs(record):
                try:
                    self.pair_scores(record)
                except (CorruptError, MissingError) as error:
                    damages.setdefault(str(error), self.pairs_file(record) or self.folder / RECORDS)
        return [(path, reason) for reason, path in damages.items()]

    def loose(self) -> Iterator[StoredRecord]:
        """Yield loose records; unreadable files are added to `corrupt`."""
        folders = sorted((self.folder / "records").glob("*"))
        for path in (path for of_method in folders for path in sorted(of_method.glob("*.json"))):
            try:
                yield StoredRecord(_read(path), f"records/{path.parent.name}/{path.name}")
            except MissingError:
                # Packed or set aside by another process since the folder was listed.
                continue
            except CorruptError as error:
                self.corrupt.append((path, str(error)))

    def _from_pack(self, others: Collection[str]) -> Iterator[StoredRecord]:
        self._read = pack = self.packed()
        for number, record in enumerate(pack.records() if pack else ()):
            assert pack is not None
            if isinstance(record, CorruptError):
                self.corrupt.append((pack.path, str(record)))
                continue
            alone = record["key"] not in others and pack.is_alone(record["key"])
            yield StoredRecord(record, RECORDS, "" if alone else pack.digest(number))

    def place(self, record: Record) -> tuple[str, str]:
        return _place(record["method"]["name"], record["task"]["name"], record["key"])


_slug = functools.lru_cache(4096)(slug)


def _place(name: str, task: str, key: str) -> tuple[str, str]:
    return _slug(name), f"{_slug(task)}-{key[:16]}.json"


def read_records(store: Records) -> list[Record]:
    """Return all records; omissions are reported on standard error."""
    records = store.all()
    for _, reason in store.corrupt:
        print_safe(f"zoo-bench: record left out: {reason}", sys.stderr)
    return records


def _read(path: Path) -> Record:
    """Raises MissingError for an absent record, else CorruptError."""
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
    return parse_record(content, str(path), signed=True)


def _as_json(record: Mapping[str, object], where: str) -> tuple[str, Record]:
    """Raises CorruptError for anything but a record."""
    try:
        values = plain({key: value for key, value in record.items() if key != "sha256"})
        values["sha256"] = sha256_json(values)
        content = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        return content, parse_record(content.encode("utf-8"), where)
    except (TypeError, ValueError, RuntimeError) as error:
        # RecursionError is a RuntimeError.
        raise CorruptError(f"{where} cannot be kept as JSON: {error}.") from error


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause the cycle collector: JSON has no cycles, and a million dictionaries take half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
