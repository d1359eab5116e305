"""The kind of a user's file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from zoo.errors import CorruptError, UsageError
from zoo.files import iterate_lines, reading
from zoo.paths import is_file

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
