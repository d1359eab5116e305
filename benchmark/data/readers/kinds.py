"""The kind of a user's file, and the contents of nested cells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zoo.errors import CorruptError, UsageError
from zoo.files import iterate_lines, reading
from zoo.paths import is_file


def named(cell: Any, feature: Any) -> Any:
    """Return a label's name by a ClassLabel, None for -1."""
    if not isinstance(feature, dict) or cell is None:
        return cell
    if feature.get("_type") == "ClassLabel" and feature.get("names") and not is_nested(cell):
        return feature["names"][int(cell)] if 0 <= cell < len(feature["names"]) else None
    return [named(one, feature.get("feature")) for one in cell] if "feature" in feature else cell


def is_nested(cell: object) -> bool:
    return isinstance(cell, list | tuple | dict) or getattr(cell, "ndim", 0) > 0


def holds_objects(cell: Any) -> bool:
    return is_nested(cell) and any(isinstance(item, dict) for item in cell)


def items(cell: Any) -> list[Any]:
    """Return the values of a nested cell; an object of lists is a list of objects."""
    if isinstance(cell, dict):
        lists = {key: list(value) for key, value in cell.items() if is_nested(value) and not isinstance(value, dict)}
        return [dict(zip(lists, row, strict=False)) for row in zip(*lists.values(), strict=False)] if lists else [cell]
    if not is_nested(cell):
        return [] if cell is None or cell != cell else [cell]
    return [
        part for item in cell for part in (items(item) if is_nested(item) and not isinstance(item, dict) else [item])
    ]


def inner(name: str, rows: list[list[Any]]) -> dict[str, list[list[Any]]]:
    objects = [item for row in rows for item in row if isinstance(item, dict)]
    if not objects:
        return {name: rows}
    keys = dict.fromkeys(key for item in objects for key in item)
    sample = {key: [item[key] for item in objects if item.get(key) is not None] for key in keys}
    texts = [key for key, values in sample.items() if any(isinstance(value, str) and " " in value for value in values)]
    texts = ["text"] if "text" in keys else texts
    lists = {f"{name}.{key}" if len(texts) > 1 else name: [[_titled(item, key) for item in row] for row in rows]
             for key in texts}  # fmt: skip
    numbers = [
        key for key, values in sample.items() if values and all(isinstance(value, int | float) for value in values)
    ]
    return lists | {f"{name}.{key}": [[item.get(key) for item in row] for row in rows] for key in numbers}


def _titled(item: dict[str, Any], key: str) -> str:
    title = item.get("title") if key == "text" else ""
    return " ".join(str(part) for part in (title, item.get(key)) if part)


JSON, PARQUET = (".jsonl", ".ndjson", ".json"), (".parquet", ".pq")
SHEET = (".xlsx", ".xlsm")
_SUFFIXES = (".csv", ".tsv", *JSON, *PARQUET, *SHEET)
_NOT_TEXT = {
    b"pk\x03\x04": "a zip archive or an Excel sheet",
    b"\xd0\xcf\x11\xe0": "an Excel sheet",
    b"bzh": "packed by bzip2",
    b"\x28\xb5\x2f\xfd": "packed by zstd",
    b"arrow1": "an Arrow file",
    b"<!doctype": "a web page (HTML), perhaps of a login",
    b"<html": "a web page (HTML), perhaps of a login",
    b"version https://git-lfs": "a pointer of git-lfs (run git lfs pull)",
}


def is_table(path: Path) -> bool:
    """True by the file's name, or by a parquet file's content."""
    return is_saved(path) or suffix_of(path) in _SUFFIXES or begins(path).startswith(b"PAR1")


def is_saved(path: Path) -> bool:
    return any(is_file(path / name) for name in ("dataset_dict.json", "state.json"))


def check_text(path: Path) -> None:
    """Raise UsageError for an archive or a sheet, by its first bytes."""
    start = b"" if suffix_of(path) in SHEET else begins(path).lower()
    for mark, what in _NOT_TEXT.items():
        if start.startswith(mark):
            raise UsageError(
                f"{path} is {what}; give text, or a table as csv, tsv, jsonl or parquet (text as .gz or .xz too)."
            )


def suffix_of(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() in (".gz", ".xz") else path.name).suffix.lower()


def begins(path: Path) -> bytes:
    with reading(path):
        # A pipe can be read only once.
        if not is_file(path):
            return b""
        with path.open("rb") as file:
            return file.read(32)


def text_lines(path: Path, what: str = "") -> Iterator[str]:
    """Read UTF-8, or UTF-16 with its mark, as spreadsheets write it."""
    if not begins(path).startswith((b"\xff\xfe", b"\xfe\xff")):
        yield from iterate_lines(path, what=what)
        return
    try:
        with reading(path, what):
            content = path.read_bytes().decode("utf-16")
    except UnicodeDecodeError as error:
        raise CorruptError(f"{path} begins as UTF-16 and is none; save it as UTF-8.") from error
    yield from (line.removesuffix("\r") for line in content.removesuffix("\n").split("\n"))
