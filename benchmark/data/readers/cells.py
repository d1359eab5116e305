"""Reads the cells of a table as text: csv, tsv, jsonl (.gz and .xz too) or parquet, with the line of each row."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.errors import CorruptError, UsageError
from zoo.files import iterate_lines, reading
from zoo.paths import is_file

_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons"}
_JSON, _PARQUET = (".jsonl", ".ndjson", ".json"), (".parquet", ".pq")
_SUFFIXES = (".csv", ".tsv", *_JSON, *_PARQUET)
_NOT_TEXT = {
    b"PK\x03\x04": "a zip archive or an Excel sheet",
    b"\xd0\xcf\x11\xe0": "an Excel sheet",
    b"BZh": "packed by bzip2",
    b"\x28\xb5\x2f\xfd": "packed by zstd",
    b"ARROW1": "an Arrow file",
}
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_DECIMAL_COMMA = re.compile(r"\s*([+-]?\d+),(\d+)\s*")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")


@dataclass
class Cells:
    """Cells as text, and the line of each row; `names` is None where the file itself states none."""

    path: Path
    rows: list[list[str]]
    lines: list[int]
    names: list[str] | None = None
    separated: str = ""  # by what the fields of a line are separated
    nested: list[str] = field(default_factory=list)  # columns of lists or objects, which are left out

    def column(self, number: int) -> list[str]:
        """Return the cells of a column, empty where a row is shorter."""
        return [row[number].strip() if number < len(row) else "" for row in self.rows]


def is_number(cell: str) -> bool:
    """Return whether a cell is a decimal number."""
    return _NUMBER.fullmatch(cell) is not None


def is_table(path: Path) -> bool:
    """Return whether a file's name says that it is a table, or its content that it is a parquet file."""
    return _suffix(path) in _SUFFIXES or _begins(path).startswith(b"PAR1")


def check_text(path: Path) -> None:
    """Raise UsageError for an archive or a sheet, by its first bytes."""
    start = _begins(path)
    for mark, what in _NOT_TEXT.items():
        if start.startswith(mark):
            raise UsageError(
                f"{path} is {what}; give text, or a table as csv, tsv, jsonl or parquet (text as .gz or .xz too)."
            )


def _suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() in (".gz", ".xz") else path.name).suffix.lower()


def _begins(path: Path) -> bytes:
    if not is_file(path):  # a pipe can be read only once
        return b""
    with reading(path), path.open("rb") as file:
        return file.read(8)


def read_cells(path: Path) -> Cells:
    """Read all cells; raises CorruptError with the line of what is malformed, UsageError for an archive or a sheet."""
    check_text(path)
    suffix = _suffix(path)
    if suffix in _PARQUET or _begins(path).startswith(b"PAR1"):
        return _parquet(path)
    lines = [(number, line) for number, line in enumerate(iterate_lines(path), 1) if line.strip() or suffix == ".csv"]
    if suffix in _JSON:
        return _json(path, lines, whole=suffix == ".json")
    sample = [line for _, line in lines[:40] if line.strip()][:20]
    order = ",;\t" if suffix == ".csv" else "\t,;"
    separator = next((one for one in order if _separates(sample, one)), order[0])
    if separator == "\t":
        rows = _unquoted([line.split("\t") for _, line in lines])
        return Cells(path, rows, [number for number, _ in lines], separated=_SEPARATORS[separator])
    return _csv(path, lines, separator)


def _separates(lines: list[str], separator: str) -> bool:
    """Return whether at least half of the lines have as many fields as the first, and more than one."""
    try:
        counts = [len(row) for row in csv.reader(lines, delimiter=separator)]
    except csv.Error:
        return False
    return bool(counts) and counts[0] > 1 and 2 * counts.count(counts[0]) >= len(counts)


def _csv(path: Path, lines: list[tuple[int, str]], separator: str) -> Cells:
    found, before = Cells(path, [], [], separated=_SEPARATORS[separator]), 0
    csv.field_size_limit(2**26)
    reader = csv.reader((f"{line}\n" for _, line in lines), delimiter=separator, strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                if separator == ";":  # of a spreadsheet where numbers have a comma
                    row = [f"{number[1]}.{number[2]}" if (number := _DECIMAL_COMMA.fullmatch(c)) else c for c in row]
                found.rows.append(row)
                found.lines.append(lines[before][0])
            before = reader.line_num
    except csv.Error as error:
        raise CorruptError(
            f"{path}:{lines[before][0]}: {error}; a field with a quote, a newline or a separator in it stands in"
            " quotes, and quotes inside it are doubled."
        ) from error
    return found


def _unquoted(rows: list[list[str]]) -> list[list[str]]:
    """Remove the quotes of a tab-separated file if its writer quoted fields; else quotes are a part of the text."""
    begun = [cell for row in rows for cell in row if cell.startswith('"')]
    if not begun or not all(_QUOTED.fullmatch(cell) for cell in begun):
        return rows
    plain = any(cell and not cell.startswith('"') and not is_number(cell) for row in rows for cell in row)
    if plain and not any('""' in cell[1:-1] for cell in begun):
        return rows
    return [[cell[1:-1].replace('""', '"') if cell.startswith('"') else cell for cell in row] for row in rows]


def _json(path: Path, lines: list[tuple[int, str]], *, whole: bool) -> Cells:
    if whole:
        try:
            values = json.loads("\n".join(line for _, line in lines))
        except (ValueError, RecursionError):
            values = None  # an object a line, as in .jsonl
        if isinstance(values, list):
            return _of_values(path, values, list(range(1, len(values) + 1)))
    values = []
    for number, line in lines:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise CorruptError(f"{path}:{number}: not JSON: {error}.") from error
    return _of_values(path, values, [number for number, _ in lines])


def _of_values(path: Path, values: list[Any], lines: list[int]) -> Cells:
    """Return the cells of JSON values: objects, lists, or texts alone."""
    for line, value in zip(lines, values, strict=True):
        if not isinstance(value, dict | list | str) or type(value) is not type(values[0]):
            raise CorruptError(f"{path}:{line}: a {type(value).__name__}; each row is an object, a list or a text.")
    if not values or not isinstance(values[0], dict):
        rows = [[value] if isinstance(value, str) else [_cell(item) for item in value] for value in values]
        return Cells(path, rows, lines)
    columns = {name: [value.get(name) for value in values] for name in dict.fromkeys(key for v in values for key in v)}
    return _of_columns(path, columns, lines)


def _of_columns(path: Path, columns: dict[str, list[Any]], lines: list[int]) -> Cells:
    nested = [name for name, cells in columns.items() if any(isinstance(cell, list | dict) for cell in cells)]
    names = [name for name in columns if name not in nested]
    rows = [list(map(_cell, row)) for row in zip(*(columns[name] for name in names), strict=True)]
    return Cells(path, rows, lines, names, nested=nested)


def _cell(value: object) -> str:
    """Return a value as text, a number so that it is read back equal; None and NaN are empty."""
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _parquet(path: Path) -> Cells:
    import pyarrow
    from pyarrow import parquet

    try:
        columns = parquet.read_table(path).to_pydict()
    except (OSError, pyarrow.ArrowException) as error:
        raise CorruptError(
            f"{path} cannot be read as parquet: {' '.join(str(error).split())[:200].rstrip('. ')}."
        ) from error
    return _of_columns(path, columns, list(range(1, len(next(iter(columns.values()), [])) + 1)))
