"""Reads packed results: records.jsonl.xz, and per task a file of pair scores below pair_scores/.

The first line of records.jsonl.xz names the files of pair scores with their sha256; each further line is a record as
JSON. A file of pair scores is xz around safetensors: for each gold standard (known by the sha256 of its float32 values)
the gold scores once, and one row of predictions per record, known by the sha256 of the record's own pair file. All
first bytes of the predictions stand before all second ones and so on, because xz makes that smaller.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmark.records.schema import MOST_BYTES, Record, pairs_of, parse_record
from zoo.errors import CorruptError, MissingError
from zoo.files import reading

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmark.tasks.base import PairScores

RECORDS = "records.jsonl.xz"
PAIRS = "pair_scores"
PACK_VERSION = 1
FORM = "zoo-bench pack"  # the header's key for that version

MOST_RECORDS_BYTES = 1 << 30  # unpacked; ten thousand records have 30 MB
MOST_PAIRS_BYTES = 1 << 29  # unpacked, per task
_CACHED_BYTES = 1 << 28  # of unpacked pair scores that stay in memory
_MEMORY = 1 << 27  # that xz may take for its dictionary
_KEY = re.compile(rb'"key":"([0-9a-f]{64})"')
_PAIR_FILE = re.compile(r"[A-Za-z0-9._=-]{1,120}\.xz")
_SHA256 = re.compile(r"[0-9a-f]{64}")

# How a file keeps predictions: as float32, or as each pair's place among the row's distinct scores (all that
# Spearman's correlation, intervals and ties are made of).
SCORES, ORDER = "scores", "order"


def unpack(content: bytes, most_bytes: int, where: Path) -> bytes:
    """Return what one whole xz stream holds; raises CorruptError where it is damaged or holds too much."""
    decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY)
    try:
        unpacked = decoder.decompress(content, max_length=most_bytes + 1)
    except lzma.LZMAError as error:
        raise CorruptError(f"{where} is damaged ({error}); restore it from a copy.") from error
    if len(unpacked) > most_bytes:
        raise CorruptError(f"{where} unpacks to more than {most_bytes:,} bytes, which no pack of records does.")
    if not decoder.eof or decoder.unused_data:
        raise CorruptError(f"{where} is damaged (not one whole xz stream); restore it from a copy.")
    return unpacked


def key_in(line: bytes) -> str:
    """Return the first key in a line, which is the record's: a pack's writer sees to that."""
    found = _KEY.search(line)
    return found[1].decode() if found else ""


@dataclass
class PairFile:
    """The unpacked pair scores of one task."""

    golds: dict[str, NDArray[np.float32]]  # by sha256
    planes: dict[tuple[str, str], NDArray[np.uint8]]  # kind, gold -> (bytes of a number, rows, pairs)
    rows: dict[str, tuple[str, str, int]]  # sha256 of a record's pair file -> kind, gold, row
    size: int = 0

    def scores(self, sha256: str) -> PairScores:
        """Return predicted and gold scores (n,), float32, of a row; raises KeyError where it is not here."""
        kind, gold, row = self.rows[sha256]
        values = np.ascontiguousarray(self.planes[kind, gold][:, row].T)
        if kind == SCORES:
            return values.view("<f4")[:, 0], self.golds[gold]
        return values.view(f"<u{values.shape[1]}")[:, 0].astype(np.float32), self.golds[gold]


def parse_pairs(content: bytes, where: Path) -> PairFile:
    """Return the pair scores in a file's bytes; raises CorruptError."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    unpacked = unpack(content, MOST_PAIRS_BYTES, where)
    try:
        arrays: dict[str, NDArray[Any]] = dict(load(unpacked))
        golds = {name[5:]: array for name, array in arrays.items() if name.startswith("gold.")}
        planes: dict[tuple[str, str], NDArray[np.uint8]] = {}
        rows: dict[str, tuple[str, str, int]] = {}
        for name, array in arrays.items():
            kind, _, gold = name.partition(".")
            if kind == "gold":
                continue
            keys = array if kind == "keys" else None
            if keys is not None:
                kind, _, gold = gold.partition(".")
                rows |= {key.tobytes().hex(): (kind, gold, row) for row, key in enumerate(keys)}
            else:
                planes[kind, gold] = array
        _check(golds, planes, rows)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise CorruptError(f"{where} is no file of pair scores ({error}); restore it from a copy.") from error
    return PairFile(golds, planes, rows, len(unpacked))


def _check(
    golds: dict[str, NDArray[Any]],
    planes: dict[tuple[str, str], NDArray[Any]],
    rows: dict[str, tuple[str, str, int]],
) -> None:
    for name, gold in golds.items():
        if gold.dtype != np.float32 or gold.ndim != 1 or hashlib.sha256(gold.tobytes()).hexdigest() != name:
            raise ValueError(f"gold {name[:8]} is not what it is called")
    for (kind, name), array in planes.items():
        widths = {SCORES: (4,), ORDER: (2, 4)}[kind]
        if array.dtype != np.uint8 or array.ndim != 3 or array.shape[0] not in widths:
            raise ValueError(f"{kind} of {name[:8]} have the shape {array.shape}")
        if array.shape[2] != len(golds[name]):
            raise ValueError(f"{kind} of {name[:8]} are of {array.shape[2]} pairs, not {len(golds[name])}")
    for kind, name, row in rows.values():
        if row >= planes[kind, name].shape[1]:
            raise ValueError(f"{kind} of {name[:8]} have no row {row}")


@dataclass
class Pack:
    """A packed results folder; `read_pack` makes it."""

    folder: Path
    pairs: dict[str, dict[str, str]]  # task -> file and its sha256
    lines: list[bytes]  # a record each
    _by_key: dict[str, list[int]] = field(default_factory=dict)
    _parsed: list[Record | CorruptError | None] = field(default_factory=list)
    _files: dict[str, PairFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        by_key = defaultdict(list)
        for number, line in enumerate(self.lines):
            by_key[key_in(line)].append(number)
        self._by_key, self._parsed = dict(by_key), [None] * len(self.lines)
        self._where = str(self.path)

    @functools.cached_property
    def path(self) -> Path:
        """The file of the records."""
        return self.folder / RECORDS

    def record(self, number: int) -> Record:
        """Return a record by its number; raises CorruptError naming its line."""
        found = self._parsed[number]
        if found is None:
            try:
                found = parse_record(self.lines[number], f"{self._where}:{number + 2}")
            except CorruptError as error:
                found = error
            self._parsed[number] = found
        if isinstance(found, CorruptError):
            raise found
        return found

    def digest(self, number: int) -> str:
        """Return the sha256 of a record's line."""
        return hashlib.sha256(self.lines[number]).hexdigest()

    def with_key(self, key: str) -> Iterator[tuple[Record, str]]:
        """Yield the records of a cell's key, each with the sha256 of its line; raises CorruptError."""
        for number in self._by_key.get(key, ()):
            yield self.record(number), self.digest(number)

    def has_pairs(self, record: Record) -> bool:
        """Return whether the pack holds the pair scores that a record names."""
        said = record.get("pairs")
        if not said or record["task"]["name"] not in self.pairs:
            return False
        try:
            return said["sha256"] in self._file(record["task"]["name"]).rows
        except CorruptError:
            return True  # asking for them says what is wrong

    def pair_scores(self, record: Record) -> PairScores:
        """Return predicted and gold scores (n,) of a record's pairs; raises MissingError or CorruptError."""
        task, said = record["task"]["name"], pairs_of(record)
        try:
            predicted, gold = self._file(task).scores(said["sha256"])
        except KeyError as error:
            raise MissingError(
                f"{record['method']['name']} on {task}: {self.folder / PAIRS} has no scores of it; measure it again."
            ) from error
        if hashlib.sha256(gold.tobytes()).hexdigest() != said["gold_sha256"]:
            raise CorruptError(f"{self.path}: {record['method']['name']} on {task}: its pair scores have another gold.")
        return predicted, gold

    def _file(self, task: str) -> PairFile:
        """Return the pair scores of a task; raises KeyError where there are none, or CorruptError."""
        found = self._files.pop(task, None)
        if found is None:
            found = parse_pairs(self.pair_bytes(task), self.folder / PAIRS / self.pairs[task]["file"])
        while self._files and found.size + sum(one.size for one in self._files.values()) > _CACHED_BYTES:
            del self._files[next(iter(self._files))]
        self._files[task] = found
        return found

    def file(self, task: str) -> PairFile | None:
        """Return the pair scores of a task, or None where there are none; raises CorruptError."""
        return self._file(task) if task in self.pairs else None

    def pair_bytes(self, task: str) -> bytes:
        """Return the bytes of a task's file; raises CorruptError unless they have the sha256 that the pack says."""
        said = self.pairs[task]
        path = self.folder / PAIRS / said["file"]
        try:
            with reading(path):
                if path.stat().st_size > MOST_PAIRS_BYTES:
                    raise CorruptError(f"{path} is larger than any file of pair scores.")
                content = path.read_bytes()
        except MissingError as error:
            raise CorruptError(f"{error} {self.path} names it: restore it from a copy.") from error
        if hashlib.sha256(content).hexdigest() != said["sha256"]:
            raise CorruptError(f"{path} is damaged (its sha256 is not the one in {RECORDS}); restore it from a copy.")
        return content


def read_pack(folder: Path) -> Pack | None:
    """Return the pack of a results folder, or None where there is none; raises CorruptError where it is damaged."""
    path = folder / RECORDS
    try:
        with reading(path):
            if path.stat().st_size > MOST_RECORDS_BYTES:
                raise CorruptError(f"{path} is larger than any pack of records.")
            content = path.read_bytes()
    except MissingError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise CorruptError(str(error)) from error
    head, *lines = unpack(content, MOST_RECORDS_BYTES, path).split(b"\n")
    pairs = _header(head, path)
    if lines and not lines[-1]:
        lines.pop()
    too_long = next((number for number, line in enumerate(lines, 2) if len(line) > MOST_BYTES), None)
    if too_long is not None:
        raise CorruptError(f"{path}:{too_long}: no record is longer than {MOST_BYTES:,} bytes.")
    return Pack(folder, pairs, lines)


def _header(line: bytes, path: Path) -> dict[str, dict[str, str]]:
    try:
        head = json.loads(line)
        version, pairs = head[FORM], head["pairs"]
        if version == PACK_VERSION:
            for said in pairs.values():
                if not _PAIR_FILE.fullmatch(said["file"]) or not _SHA256.fullmatch(said["sha256"]):
                    raise ValueError("a file of pair scores has an impossible name")
            return {str(task): {"file": said["file"], "sha256": said["sha256"]} for task, said in pairs.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(f"{path} does not begin as a pack of records does ({error}).") from error
    by = head.get("version")
    raise CorruptError(f"{path} is a pack of form {version!r:.20}; zoo-bench {by!r:.40}, which wrote it, reads it.")
