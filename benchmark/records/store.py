"""One JSON record a cell: the only truth. Written atomically, validated when written and when read."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import CorruptError, MissingError, ZooError
from zoo.files import read_arrays, read_json, sha256_file, slug, write_arrays, write_json

if TYPE_CHECKING:
    from benchmark.tasks.base import PairScores

SCHEMA = Path(__file__).with_name("record.schema.json")
SCHEMA_VERSION = 1
PROTOCOL_VERSION = 1  # raised when the same vectors on the same data would score differently

Record = dict[str, Any]


@functools.cache
def _validator() -> Any:
    import fastjsonschema  # compiles the schema: ten thousand records are read in a moment

    # It knows drafts up to 7; the schema uses nothing that is newer.
    schema = json.loads(SCHEMA.read_text(encoding="utf-8")) | {"$schema": "http://json-schema.org/draft-07/schema#"}
    return fastjsonschema.compile(schema, use_default=False)


def check_record(record: Any, where: str) -> None:
    """Raise CorruptError unless `record` follows the schema; names the first place that does not."""
    import fastjsonschema

    try:
        _validator()(record)
    except fastjsonschema.JsonSchemaValueException as error:
        place = "/".join(map(str, error.path[1:])) or "the record"
        message = str(error.message).removeprefix(f"{error.name} ")
        raise CorruptError(f"{where}: {place}: {message[:200]}.") from error


def plain(value: Any) -> Any:
    """Return a value as standard JSON has it: tuples as lists, numpy numbers as numbers; NaN and infinity as None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # a lone surrogate is no text
    return value


@dataclass
class Records:
    """A folder of records; `corrupt` lists the files that were set aside while reading."""

    folder: Path
    set_aside: bool = True  # False: only look, rename nothing
    corrupt: list[tuple[Path, str]] = field(default_factory=list)

    def path(self, name: str, task: str, key: str) -> Path:
        """Return where the record of a cell lies: method, task, then seed-independent content key."""
        return self.folder / "records" / slug(name) / f"{slug(task)}-{key[:16]}.json"

    def encoder_folder(self, name: str, encoder_key: str) -> Path:
        """Return the folder of an encoder that learned something: `encoder`, fit.json and the training's log."""
        return self.folder / "encoders" / f"{slug(name)}-{encoder_key[:16]}"

    def read(self, path: Path) -> Record | None:
        """Return a record, or None when there is none; a damaged file is renamed to *.corrupt and listed."""
        if not path.exists():
            return None
        try:
            record = read_json(path)
            check_record(record, str(path))
        except CorruptError as error:
            aside = path.with_name(path.name + ".corrupt")
            try:
                if self.set_aside:
                    path.replace(aside)
            except OSError as problem:
                raise ZooError(f"{path} is damaged and cannot be moved aside: {problem}.") from problem
            self.corrupt.append((aside, str(error)))
            return None
        assert isinstance(record, dict)
        return record

    def finished(self, name: str, task: str, key: str) -> Record | None:
        """Return the record of a cell that was measured, else None (failed and n/a cells are tried again)."""
        record = self.read(self.path(name, task, key))
        return record if record is not None and record["key"] == key and record["status"] == "ok" else None

    def write(self, record: Record, pairs: PairScores | None = None) -> Path:
        """Validate and write a record, and first, beside it, the scores of its pairs; returns the record's path."""
        record = plain(record)
        path = self._path_of(record)
        if pairs is not None:
            predicted, gold = (side.astype("float32") for side in pairs)
            file = path.with_name(f"{path.stem}.pairs.safetensors.gz")
            write_arrays(file, {"predicted": predicted, "gold": gold})
            gold_sha256 = hashlib.sha256(gold.tobytes()).hexdigest()
            record["pairs"] = {"file": file.name, "sha256": sha256_file(file), "gold_sha256": gold_sha256}
        check_record(record, str(path))
        write_json(path, record)
        return path

    def pairs_file(self, record: Record) -> Path | None:
        """Return the file of a record's pair scores, or None where there is none (any more)."""
        if not record.get("pairs"):
            return None
        file = self._path_of(record).with_name(record["pairs"]["file"])
        return file if file.is_file() else None

    def pair_scores(self, record: Record) -> PairScores:
        """Return predicted and gold scores (n,), float32, of a record's pairs; raises MissingError or CorruptError."""
        file = self.pairs_file(record)
        what = f"{record['method']['name']} on {record['task']['name']}"
        if file is None:
            raise MissingError(
                f"{what}: no pair scores beside {self._path_of(record)}; delete that record and run the method again,"
                " which keeps them (without training again where the encoder is still in the folder)."
            )
        arrays = read_arrays(file, record["pairs"]["sha256"])
        try:
            return arrays["predicted"], arrays["gold"]
        except KeyError as error:
            raise CorruptError(f"{what}: {file} has no scores called {error}.") from error

    def _path_of(self, record: Record) -> Path:
        return self.path(record["method"]["name"], record["task"]["name"], record["key"])

    def all(self) -> list[Record]:
        """Return every readable record, in a stable order."""
        paths = sorted((self.folder / "records").glob("*/*.json"))
        for aside in sorted((self.folder / "records").glob("*/*.json.corrupt")):
            if aside.with_suffix("") not in paths:  # not measured again since
                self.corrupt.append(
                    (aside, "set aside earlier and not measured again; run the method again or delete it")
                )
        return [record for record in map(self.read, paths) if record is not None]
