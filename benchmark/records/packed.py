"""Packed results: records.parquet has a row per record, pairs.parquet a row per record with pair scores.

The column `record` is the record's JSON; the others repeat frequent queries. SHA256SUMS has the sha256 of both.
Predictions of older measurements are places: the order of a row's scores, from 0.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from benchmark.records.items import pairs_of
from benchmark.records.record import MOST, Record, parse_record
from zoo.errors import CorruptError, MissingError
from zoo.files import SUMS, atomic_path, sha256_file, write_text

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from benchmark.tasks.base import PairScores

RECORDS, PAIRS = "records.parquet", "pairs.parquet"
# Levels of zstd: 19 takes records, which are text, from 3.7 to 3.2 MB in 12 s, and scores by 4 % alone.
_LEVEL, _LEVEL_OF_RECORDS = 9, 19
# Those that repeat a part of the record.
COLUMNS = ("key", "row", "method", "task", "seed", "status", "score", "metric")
# The fields in which nearly every record differs.
_OWN = ("key", "scores", "pairs", "items", "started", "seconds", "encoding")
# Records read at once; bytes of a page, which holds a column of a task: similar rows are compressed together.
_PIECE = 512
_PAGE = 1 << 26
_SUM = re.compile(r"[0-9a-f]{64}  \S.*")


class RecordParser:
    """Parses records as `parse_record` does; equal parts of several records are decoded, checked and kept once.

    A folder of 16,000 records takes a third of the memory. Nobody may change a part of a record.
    """

    def __init__(self) -> None:
        kinds = get_type_hints(Record, include_extras=True)
        self._own = TypedDict("_Own", {name: kinds[name] for name in _OWN})  # type: ignore[misc]
        # Not `__required_keys__`, which takes annotations that are text for required ones.
        self._required = {name for name, kind in kinds.items() if get_origin(kind) is not NotRequired}
        bare = {name: kind if name in self._required else get_args(kind)[0] for name, kind in kinds.items()}
        self._kinds = {name: kind for name, kind in bare.items() if name not in _OWN}
        self._split = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._shared: dict[bytes, Any] = {}
        self._checked: dict[tuple[str, bytes], Any] = {}

    def __call__(self, content: str, where: str) -> Record:
        """Parse JSON; raises CorruptError, or NewerRecordError, naming `where`."""
        try:
            parts = self._split.decode(content)
            record = {name: msgspec.json.decode(parts.pop(name)) for name in _OWN if name in parts}
            msgspec.convert(record, self._own)
            record |= {name: self._part(name, bytes(part)) for name, part in parts.items()}
        except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError):
            return parse_record(content, where)
        main = (record.get("scores") or {}).get("main")
        if not record.keys() >= self._required or (record["status"] == "ok" and not main) or abs(main or 0) > MOST:
            return parse_record(content, where)
        return cast("Record", record)

    def _part(self, name: str, part: bytes) -> Any:
        """Raises KeyError for a field foreign to records."""
        place, kind = (name, part), self._kinds[name]
        if place not in self._checked:
            if name == "training" and part != b"null":
                # Trainings differ by their overlap with the task, and share the rest.
                value = {key: self._decoded(bytes(raw)) for key, raw in self._split.decode(part).items()}
            else:
                value = self._decoded(part)
            msgspec.convert(value, kind)
            self._checked[place] = value
        return self._checked[place]

    def _decoded(self, part: bytes) -> Any:
        if part not in self._shared:
            self._shared[part] = msgspec.json.decode(part)
        return self._shared[part]


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError, AttributeError) as error:
        detail = " ".join(str(error).split())[:200]
        raise CorruptError(f"{path} is damaged ({detail}); restore it from a copy.") from error


class Packed:
    """The packed records of a folder; all readers raise CorruptError for damage."""

    def __init__(self, folder: Path) -> None:
        self.path, self.pairs_path = folder / RECORDS, folder / PAIRS
        _check_sum(self.path)
        with self._open() as file:
            self._keys: list[str] = file.read(columns=["key"])["key"].to_pylist()
        self._numbers: dict[str, list[int]] = defaultdict(list)
        for number, key in enumerate(self._keys):
            self._numbers[key].append(number)
        self._parsed: dict[int, Record | CorruptError] = {}
        self._digests: dict[int, str] = {}
        self._parse = RecordParser()
        self._pairs: dict[str, dict[tuple[str, str], PairScores]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    @contextmanager
    def _open(self) -> Iterator[pq.ParquetFile]:
        import pyarrow.parquet as pq

        # `read_table` would import pyarrow.dataset.
        with _whole(self.path), pq.ParquetFile(self.path, page_checksum_verification=True) as file:
            yield file

    @functools.cached_property
    def _texts(self) -> pa.ChunkedArray:
        with self._open() as file:
            return file.read(columns=["record"])["record"]

    def text(self, number: int) -> str:
        return str(self._texts[number].as_py())

    def records(self) -> Iterator[Record | CorruptError]:
        """Yield records, a damaged record as its error; JSON is read piecewise and not kept."""
        import pyarrow as pa

        if len(self._parsed) == len(self):
            yield from (self._parsed[number] for number in range(len(self)))
            return
        with self._open() as file:
            # One column has nothing for a second thread, which would keep memory of its own.
            batches = file.iter_batches(_PIECE, columns=["record"], use_threads=False)
            pieces = (piece["record"].to_pylist() for piece in batches)
            for number, text in enumerate(itertools.chain.from_iterable(pieces)):
                if not self.is_alone(self._keys[number]):
                    self._digests[number] = hashlib.sha256(text.encode()).hexdigest()
                yield self._parsed_record(number, text)
        # The texts of the parts it knows take 15 MB.
        self._parse = RecordParser()
        pa.default_memory_pool().release_unused()

    def other_columns(self) -> Iterator[tuple[Record, str]]:
        """Yield each record beside which another value stands in a column, and the column's name."""
        with self._open() as file:
            columns = file.read(columns=list(COLUMNS)).to_pydict()
        for number, record in enumerate(self.records()):
            if not isinstance(record, CorruptError):
                other = [name for name, value in columns_of(record).items() if columns[name][number] != value]
                yield from ((record, name) for name in other[:1])

    def record(self, number: int) -> Record:
        record = self._parsed[number] if number in self._parsed else self._parsed_record(number, self.text(number))
        if isinstance(record, CorruptError):
            raise record
        return record

    def _parsed_record(self, number: int, text: str) -> Record | CorruptError:
        if number not in self._parsed:
            try:
                self._parsed[number] = self._parse(text, f"{self.path}, record {number}")
            except CorruptError as error:
                self._parsed[number] = error
        return self._parsed[number]

    def digest(self, number: int) -> str:
        if number not in self._digests:
            self._digests[number] = hashlib.sha256(self.text(number).encode()).hexdigest()
        return self._digests[number]

    def is_alone(self, key: str) -> bool:
        return len(self._numbers[key]) == 1

    def with_key(self, key: str) -> Iterator[tuple[Record, str]]:
        for number in self._numbers.get(key, ()):
            yield self.record(number), self.digest(number)

    def rows(self, task: str) -> pa.Table | None:
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        if not self.pairs_path.is_file():
            return None
        names = self._pair_names
        # No filter: it would skip groups of rows by the footer's statistics, which have no checksum.
        with _whole(self.pairs_path), pq.ParquetFile(self.pairs_path, page_checksum_verification=True) as file:
            groups = [i for i, cells in enumerate(names) if any(of == task for of, _, _ in cells)]
            if not groups:
                return None
            rows = file.read_row_groups(groups)
            return rows.filter(pc.equal(rows["task"], task))

    @functools.cached_property
    def _pair_names(self) -> list[set[tuple[str, str, str]]]:
        import pyarrow.parquet as pq

        if not self.pairs_path.is_file():
            return []
        _check_sum(self.pairs_path)
        names = ["task", "method", "key"]
        with _whole(self.pairs_path), pq.ParquetFile(self.pairs_path, page_checksum_verification=True) as file:
            groups = (file.read_row_group(i, columns=names) for i in range(file.num_row_groups))
            return [set(zip(*(group[name].to_pylist() for name in names), strict=True)) for group in groups]

    def pairs(self, task: str) -> Mapping[tuple[str, str], PairScores]:
        """Return scores by method and key; raises CorruptError."""
        if task not in self._pairs:
            rows = self.rows(task)
            with _whole(self.pairs_path):
                self._pairs[task] = {} if rows is None else _scores(rows)
        return self._pairs[task]

    def has_pairs(self, record: Record) -> bool:
        """True also for a damaged file."""
        if not record.get("pairs"):
            return False
        cell = record["task"]["name"], record["method"]["name"], record["key"]
        try:
            return any(cell in group for group in self._pair_names)
        except CorruptError:
            # `pair_scores` reports what is wrong with them.
            return True

    def pair_scores(self, record: Record) -> PairScores:
        """Return predicted and gold scores (n,); raises MissingError or CorruptError."""
        name, task = record["method"]["name"], record["task"]["name"]
        scores = self.pairs(task).get((name, record["key"]))
        if scores is None:
            raise MissingError(f"{name} on {task}: {self.pairs_path} has no scores of it; measure it again.")
        check_pairs(*scores, record, self.pairs_path)
        return scores


def read_packed(folder: Path) -> Packed | None:
    """Read the packed records, again if files changed; raises CorruptError."""
    states = tuple(state_of(folder / name) for name in (RECORDS, PAIRS, SUMS))
    return _packed(folder, states) if states[0] else None


@functools.lru_cache(maxsize=2)
def _packed(folder: Path, _: object) -> Packed:
    return Packed(folder)


def state_of(path: Path) -> tuple[int, ...]:
    """Return size, times, inode, to detect a changed file."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _sums(folder: Path) -> list[str]:
    try:
        return [line for line in (folder / SUMS).read_text("utf-8", "replace").split("\n") if line]
    except FileNotFoundError:
        return []


def _check_sum(path: Path) -> None:
    """Raise CorruptError unless SHA256SUMS states the file's sum."""
    lines, sums = _sums(path.parent), path.with_name(SUMS)
    if not lines or f"{sha256_file(path)}  {path.name}" in lines:
        return
    if not any(line.endswith(f"  {path.name}") for line in lines) or not all(map(_SUM.fullmatch, lines)):
        raise CorruptError(f"{sums} is damaged: it states no sha256 of {path.name}; restore it from a copy.")
    raise CorruptError(
        f"{path} has another sha256 than {sums} states, so one of the two is damaged; restore both from a copy."
    )


def check_pairs(predicted: NDArray[np.float32], gold: NDArray[np.float32], record: Record, path: Path) -> None:
    """Raise CorruptError unless pair scores (n,) are finite, with the record's gold scores."""
    what = f"{path}: {record['method']['name']} on {record['task']['name']}"
    if hashlib.sha256(gold.tobytes()).hexdigest() != pairs_of(record)["gold_sha256"]:
        raise CorruptError(f"{what}: its pair scores have another gold than the record says; measure it again.")
    if predicted.shape != gold.shape or not (np.isfinite(predicted).all() and np.isfinite(gold).all()):
        raise CorruptError(f"{what}: its pair scores are not all finite; measure it again.")


def _scores(rows: pa.Table) -> dict[tuple[str, str], PairScores]:
    predicted, gold = (_arrays(rows[side].combine_chunks()) for side in ("predicted", "gold"))
    names = zip(rows["method"].to_pylist(), rows["key"].to_pylist(), strict=True)
    return dict(zip(names, zip(predicted, gold, strict=True), strict=True))


def _arrays(lists: Any) -> list[NDArray[np.float32]]:
    values, ends = lists.values.to_numpy(), lists.offsets.to_numpy()
    return [values[start:end] for start, end in itertools.pairwise(ends)]


def write_packed(folder: Path, records: Sequence[tuple[str, Record]], pairs: Iterable[pa.Table]) -> None:
    """Write both files; readers find each old or new, as SHA256SUMS has either sum until both are in place."""
    before = _sums(folder)
    with atomic_path(folder / RECORDS) as new_records, atomic_path(folder / PAIRS) as new_pairs:
        _write(new_pairs, pair_rows([]).schema, pairs)
        _write_records(new_records, records)
        sums = [f"{sha256_file(new)}  {name}" for new, name in ((new_pairs, PAIRS), (new_records, RECORDS))]
        if not before:
            before = [f"{sha256_file(folder / name)}  {name}" for name in (PAIRS, RECORDS) if (folder / name).exists()]
        write_text(folder / SUMS, "\n".join([*before, *sums, ""]))
    write_text(folder / SUMS, "\n".join([*sums, ""]))


def columns_of(record: Record) -> dict[str, Any]:
    """Return the columns that repeat a record's frequent queries."""
    scores = record["scores"]
    return {
        "key": record["key"],
        "row": record["row_key"][:8],
        "method": record["method"]["name"],
        "task": record["task"]["name"],
        "seed": record["seed"],
        "status": record["status"],
        "score": scores["main"] if scores else None,
        "metric": scores["main_metric"] if scores else None,
    }


def _write_records(path: Path, records: Sequence[tuple[str, Record]]) -> None:
    import pyarrow as pa

    rows = [columns_of(record) for _, record in records]
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in COLUMNS}
    columns["record"] = [text for text, _ in records]
    types = {"seed": pa.int64(), "score": pa.float64()}
    table = pa.table({name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items()})
    _write(path, table.schema, [table])


def pair_rows(scores: Sequence[tuple[Record, PairScores]]) -> pa.Table:
    import pyarrow as pa

    def lists(side: int) -> pa.Array:
        sides = [np.asarray(pair[side], np.float32) for _, pair in scores]
        ends = np.cumsum([0, *map(len, sides)], dtype=np.int32)
        return pa.ListArray.from_arrays(ends, pa.array(np.concatenate([np.empty(0, np.float32), *sides])))

    names = {
        "key": [record["key"] for record, _ in scores],
        "method": [record["method"]["name"] for record, _ in scores],
        "task": [record["task"]["name"] for record, _ in scores],
    }
    strings = {name: pa.array(values, pa.string()) for name, values in names.items()}
    return pa.table({**strings, "predicted": lists(0), "gold": lists(1)})


def _write(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    import pyarrow.parquet as pq

    lists = [f"{name}.list.element" for name in ("predicted", "gold") if name in schema.names]
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=_LEVEL if lists else _LEVEL_OF_RECORDS,
        data_page_size=_PAGE,
        use_dictionary=[name for name in ("row", "method", "task", "status", "metric") if name in schema.names],
        use_byte_stream_split=lists,
        write_page_checksum=True,
        write_statistics=["task"],
    ) as writer:
        for table in tables:
            writer.write_table(table.cast(schema), row_group_size=max(1, len(table)))


def text_of(record: Record) -> str:
    return msgspec.json.encode(record).decode()
