"""Reads packed results: records.zip, whose members are the records and, for each task, their pair scores.

The first line of the member records.jsonl.xz names the tasks with pair scores and the sha256 of their members; each
further line is a record as JSON. pair_scores/<task>.xz is xz around safetensors: for each gold standard (known by the
sha256 of its float32 values) the gold scores once, and one row of predictions per record, known by the sha256 of the
record's own pair file. Predictions are stored as byte planes (all first bytes, then all second bytes and so on),
because xz compresses that better; places are stored as differences from those of an earlier, similar row. The zip
itself does not compress, so that a reader reads only the members that it needs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import re
import struct
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmark.records.schema import MOST_BYTES, Record, pairs_of, parse_record
from zoo.errors import CorruptError, MissingError
from zoo.files import reading, slug

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmark.tasks.base import PairScores

RECORDS = "records.zip"
LINES = "records.jsonl.xz"  # the member that holds the records
PAIRS = "pair_scores"
PACK_VERSION = 1
FORM = "zoo-bench pack"  # the header's key for the format's version

MOST_RECORDS_BYTES = 1 << 30  # unpacked; ten thousand records have 30 MB
MOST_PAIRS_BYTES = 1 << 29  # unpacked, per task
_CACHED_BYTES = 1 << 28  # of unpacked pair scores that stay in memory
_MEMORY = 1 << 27  # bytes that xz may use for its dictionary
_KEY = re.compile(rb'"key":"([0-9a-f]{64})"')
_SHA256 = re.compile(r"[0-9a-f]{64}")

# The errors of zipfile for bytes that are not a readable zip file.
_ZIP_ERRORS = (zipfile.BadZipFile, struct.error, EOFError, RuntimeError, ValueError, LookupError, OverflowError)

# How predictions are kept: as float32, or as each pair's place among the row's distinct scores (all that
# Spearman's correlation, intervals and ties are made of).
SCORES, ORDER = "scores", "order"


def member_of(task: str) -> str:
    """Return the name of the member that holds a task's pair scores."""
    return f"{PAIRS}/{slug(task)}.xz"


def _member(path: Path, name: str, most_bytes: int) -> bytes:
    """Return the bytes of one member of a pack; raises MissingError where the pack is absent, else CorruptError."""
    try:
        with reading(path), zipfile.ZipFile(path) as file:
            said = file.getinfo(name)
            if said.compress_type != zipfile.ZIP_STORED or max(said.file_size, said.compress_size) > most_bytes:
                raise CorruptError(f"{path}: {name} is compressed or larger than zoo-bench writes it.")
            return file.read(said)
    except _ZIP_ERRORS as error:
        detail = " ".join(str(error).split())[:200]
        raise CorruptError(f"{path} is damaged ({type(error).__name__}: {detail}); restore it from a copy.") from error


def unpack(content: bytes, most_bytes: int, where: str) -> bytes:
    """Return the content of one complete xz stream; raises CorruptError where it is damaged or too large."""
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
    """Return the first key in a line: a pack's writer puts the record's key first."""
    found = _KEY.search(line)
    return found[1].decode() if found else ""


@dataclass
class PairFile:
    """The unpacked pair scores of one task."""

    golds: dict[str, NDArray[np.float32]]  # by sha256
    values: dict[tuple[str, str], NDArray[Any]]  # kind, gold -> (rows, pairs): float32 scores, or places
    rows: dict[str, tuple[str, str, int]]  # sha256 of a record's pair file -> kind, gold, row
    size: int = 0

    def scores(self, sha256: str) -> PairScores:
        """Return predicted and gold scores (n,), float32, of a row; raises KeyError for an unknown sha256."""
        kind, gold, row = self.rows[sha256]
        return self.values[kind, gold][row].astype(np.float32), self.golds[gold]


def parse_pairs(content: bytes, where: str) -> PairFile:
    """Return the pair scores in a member's bytes; raises CorruptError where they are damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    unpacked = unpack(content, MOST_PAIRS_BYTES, where)
    try:
        arrays: dict[str, NDArray[Any]] = dict(load(unpacked))
        golds = {name[5:]: array for name, array in arrays.items() if name.startswith("gold.")}
        values: dict[tuple[str, str], NDArray[Any]] = {}
        rows: dict[str, tuple[str, str, int]] = {}
        for name, array in arrays.items():
            kind, _, gold = name.partition(".")
            if kind in (SCORES, ORDER):
                values[kind, gold] = _numbers(kind, array, golds[gold], arrays.get(f"bases.{gold}"))
                keys = arrays[f"keys.{kind}.{gold}"]
                if keys.shape != (len(values[kind, gold]), 32) or keys.dtype != np.uint8:
                    raise ValueError(f"{kind} of {gold[:8]} have other rows than they are named for")
                rows |= {key.tobytes().hex(): (kind, gold, row) for row, key in enumerate(keys)}
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise CorruptError(f"{where} holds no pair scores ({error}); restore it from a copy.") from error
    for name, gold_scores in golds.items():
        if hashlib.sha256(gold_scores.tobytes()).hexdigest() != name:
            raise CorruptError(f"{where}: gold {name[:8]} is not what it is called; restore it from a copy.")
    return PairFile(golds, values, rows, sum(array.nbytes for array in values.values()))


def _numbers(kind: str, planes: NDArray[Any], gold: NDArray[Any], bases: NDArray[Any] | None) -> NDArray[Any]:
    """Return predictions (rows, pairs) from byte planes (bytes per number, rows, pairs); raises ValueError."""
    widths = {SCORES: (4,), ORDER: (2, 4)}[kind]
    if planes.dtype != np.uint8 or planes.ndim != 3 or planes.shape[0] not in widths or gold.dtype != np.float32:
        raise ValueError(f"{kind} of the shape {planes.shape}")
    if (planes.shape[2],) != gold.shape:
        raise ValueError(f"{kind} of {planes.shape[2]} pairs, gold scores of {gold.shape}")
    width = planes.shape[0]
    numbers = np.ascontiguousarray(np.moveaxis(planes, 0, -1)).view(f"<{'f' if kind == SCORES else 'u'}{width}")[..., 0]
    if kind == SCORES:
        return numbers
    indices = np.arange(1, len(numbers))
    if bases is None or bases.dtype != np.uint32 or bases.shape != (len(numbers),) or (bases[1:] >= indices).any():
        raise ValueError("places without the rows that they are differences from")
    places = (numbers >> 1).astype(np.int32) ^ -(numbers & 1).astype(np.int32)  # even: above, odd: below
    for row in range(1, len(places)):
        places[row] += places[bases[row]]
    return places


def check_pairs(predicted: NDArray[np.float32], gold: NDArray[np.float32], record: Record, path: Path) -> None:
    """Raise CorruptError unless pair scores (n,) are finite and their gold scores are those that the record states."""
    what = f"{path}: {record['method']['name']} on {record['task']['name']}"
    if hashlib.sha256(gold.tobytes()).hexdigest() != pairs_of(record)["gold_sha256"]:
        raise CorruptError(f"{what}: its pair scores have another gold than the record says; measure it again.")
    if not (np.isfinite(predicted).all() and np.isfinite(gold).all()):
        raise CorruptError(f"{what}: its pair scores are not all finite; measure it again.")


@dataclass
class Pack:
    """A packed results folder, as `read_pack` returns it."""

    folder: Path
    pairs: dict[str, str]  # task -> sha256 of its member
    lines: list[bytes]  # one record per line
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
            return True  # `pair_scores` reports what is wrong with them

    def pair_scores(self, record: Record) -> PairScores:
        """Return predicted and gold scores (n,) of a record's pairs; raises MissingError or CorruptError."""
        task, said = record["task"]["name"], pairs_of(record)
        try:
            predicted, gold = self._file(task).scores(said["sha256"])
        except KeyError as error:
            raise MissingError(
                f"{record['method']['name']} on {task}: {self.path} has no scores of it; measure it again."
            ) from error
        check_pairs(predicted, gold, record, self.path)
        return predicted, gold

    def _file(self, task: str) -> PairFile:
        """Return the pair scores of a task; raises KeyError where there are none, or CorruptError."""
        found = self._files.pop(task, None)
        if found is None:
            found = parse_pairs(self.pair_bytes(task), f"{self.path}: {member_of(task)}")
        while self._files and found.size + sum(one.size for one in self._files.values()) > _CACHED_BYTES:
            del self._files[next(iter(self._files))]
        self._files[task] = found
        return found

    def file(self, task: str) -> PairFile | None:
        """Return the pair scores of a task, or None where there are none; raises CorruptError."""
        return self._file(task) if task in self.pairs else None

    def pair_bytes(self, task: str) -> bytes:
        """Return the bytes of a task's member; raises CorruptError unless they have the sha256 that the pack says."""
        name, said = member_of(task), self.pairs[task]
        try:
            content = _member(self.path, name, MOST_PAIRS_BYTES)
        except MissingError as error:
            raise CorruptError(str(error)) from error
        if hashlib.sha256(content).hexdigest() != said:
            raise CorruptError(f"{self.path} is damaged ({name} has another sha256); restore it from a copy.")
        return content


def read_pack(folder: Path) -> Pack | None:
    """Return the pack of a results folder, or None where there is none; raises CorruptError where it is damaged."""
    path = folder / RECORDS
    try:
        content = _member(path, LINES, MOST_RECORDS_BYTES)
    except MissingError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise CorruptError(str(error)) from error
        if (folder / LINES).exists():
            raise CorruptError(
                f"{folder / LINES} has a form from before version 0.1.0, which nothing reads now; take {RECORDS} of the"
                " same results, or their loose records, instead."
            ) from error
        return None
    head, *lines = unpack(content, MOST_RECORDS_BYTES, str(path)).split(b"\n")
    pairs = _header(head, path)
    if lines and not lines[-1]:
        lines.pop()
    too_long = next((number for number, line in enumerate(lines, 2) if len(line) > MOST_BYTES), None)
    if too_long is not None:
        raise CorruptError(f"{path}:{too_long}: no record is longer than {MOST_BYTES:,} bytes.")
    return Pack(folder, pairs, lines)


def _header(line: bytes, path: Path) -> dict[str, str]:
    try:
        head = json.loads(line)
        version, pairs = head[FORM], head["pairs"]
        if version == PACK_VERSION:
            if not all(_SHA256.fullmatch(sha256) for sha256 in pairs.values()):
                raise ValueError("pair scores without a sha256")
            return dict(pairs)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(f"{path} does not begin as a pack of records does ({error}).") from error
    by = head.get("version")
    raise CorruptError(f"{path} is a pack of form {version!r:.20}; zoo-bench {by!r:.40}, which wrote it, reads it.")
