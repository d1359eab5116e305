"""Reads the cells of a table as text, with the line of each row.

A table is a file (csv, tsv, jsonl, also as .gz and .xz; parquet; Excel), a folder of `Dataset.save_to_disk`, or a
DataFrame or Dataset itself.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import iterate_lines, reading
from zoo.paths import is_file

_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "pipes"}
_JSON, _PARQUET = (".jsonl", ".ndjson", ".json"), (".parquet", ".pq")
_SHEET = (".xlsx", ".xlsm")
_SUFFIXES = (".csv", ".tsv", *_JSON, *_PARQUET, *_SHEET)
_SPLITS = ("test", "validation", "dev", "train")
_NOT_TEXT = {
    b"PK\x03\x04": "a zip archive or an Excel sheet",
    b"\xd0\xcf\x11\xe0": "an Excel sheet",
    b"BZh": "packed by bzip2",
    b"\x28\xb5\x2f\xfd": "packed by zstd",
    b"ARROW1": "an Arrow file",
}
_MOST_COLUMNS = 10_000
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
# The first line by which Excel is told; a number as spreadsheets write it.
_SEPARATOR = re.compile(r"sep=(.)")
_WRITTEN = re.compile(r"([+-]?\d+)(?:([.,])(\d+))?\s*%?")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")


@dataclass
class Cells:
    """Cells as text, and the line of each row; `names` is None where the file itself states none."""

    path: Path
    rows: list[list[str]]
    lines: list[int]
    names: list[str] | None = None
    # What separates the fields of a line; the texts in columns of lists or objects.
    separated: str = ""
    nested: dict[str, list[list[str]]] = field(default_factory=dict)

    def column(self, number: int) -> list[str]:
        """Return the cells of a column, empty where a row is shorter; decimal commas and percents are plain numbers."""
        cells = [row[number].strip() if number < len(row) else "" for row in self.rows]
        return _plain_numbers(cells, commas=self.separated == _SEPARATORS[";"])

    def unfolded(self, chosen: Collection[str]) -> Cells:
        """Return a row for each text of the chosen nested columns; a shorter list begins again."""
        lists = {name: texts for name, texts in self.nested.items() if name in chosen and any(texts)}
        if not lists:
            return self
        rows: list[list[str]] = []
        lines: list[int] = []
        for number, (row, line) in enumerate(zip(self.rows, self.lines, strict=True)):
            texts = [of[number] or [""] for of in lists.values()]
            rows += [[*row, *(text[i % len(text)] for text in texts)] for i in range(max(map(len, texts)))]
            lines += [line] * (len(rows) - len(lines))
        nested = {name: texts for name, texts in self.nested.items() if name not in lists}
        return replace(self, rows=rows, lines=lines, names=[*(self.names or []), *lists], nested=nested)


def is_number(cell: str) -> bool:
    """Return whether a cell is a decimal number."""
    return _NUMBER.fullmatch(cell) is not None


def _plain_numbers(cells: list[str], *, commas: bool) -> list[str]:
    """Return a column of numbers without decimal commas and percent signs; other columns as they are.

    Unless `commas` says that the comma is a decimal one, three digits behind each comma may be thousands.
    """
    if not any("," in cell or cell.endswith("%") for cell in cells):
        return cells
    parts = [_WRITTEN.fullmatch(cell) for cell in cells]
    behind = [part for part in parts if part and part[2] == ","]
    thousands = not commas and all(len(part[3]) == 3 and part[1].lstrip("+-") != "0" for part in behind)
    if 2 * sum(map(bool, parts)) < sum(map(bool, cells)) or (behind and thousands):
        return cells
    return [f"{part[1]}.{part[3] or 0}" if part else cell for part, cell in zip(parts, cells, strict=True)]


def is_table(path: Path) -> bool:
    """Return whether a file's name says that it is a table, or its content that it is a parquet file."""
    return _suffix(path) in _SUFFIXES or _begins(path).startswith(b"PAR1")


def check_text(path: Path) -> None:
    """Raise UsageError for an archive or a sheet, by its first bytes."""
    start = b"" if _suffix(path) in _SHEET else _begins(path)
    for mark, what in _NOT_TEXT.items():
        if start.startswith(mark):
            raise UsageError(
                f"{path} is {what}; give text, or a table as csv, tsv, jsonl or parquet (text as .gz or .xz too)."
            )


def _suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() in (".gz", ".xz") else path.name).suffix.lower()


def _begins(path: Path) -> bytes:
    with reading(path):
        # A pipe can be read only once.
        if not is_file(path):
            return b""
        with path.open("rb") as file:
            return file.read(8)


def text_lines(path: Path, what: str = "") -> Iterator[str]:
    """Yield the lines of a user's text: of UTF-8, or of UTF-16 with its mark, which spreadsheets write."""
    if not _begins(path).startswith((b"\xff\xfe", b"\xfe\xff")):
        yield from iterate_lines(path, what=what)
        return
    try:
        with reading(path, what):
            content = path.read_bytes().decode("utf-16")
    except UnicodeDecodeError as error:
        raise CorruptError(f"{path} begins as UTF-16 and is none; save it as UTF-8.") from error
    yield from (line.removesuffix("\r") for line in content.removesuffix("\n").split("\n"))


def read_cells(path: Any) -> Cells:
    """Read all cells of a path, DataFrame or Dataset.

    Raises CorruptError with the line of what is malformed, UsageError for an archive or another object, MissingError
    for a sheet without the extra.
    """
    if not isinstance(path, Path):
        return _of_object(path, Path(type(path).__name__))
    if path.is_dir():
        return _of_folder(path)
    check_text(path)
    suffix = _suffix(path)
    if suffix in _SHEET:
        return _sheet(path)
    if suffix in _PARQUET or _begins(path).startswith(b"PAR1"):
        return _parquet(path)
    lines = [(number, line) for number, line in enumerate(text_lines(path), 1) if line.strip() or suffix == ".csv"]
    if suffix in _JSON:
        return _json(path, lines, is_document=suffix == ".json")
    # Old programs end a line with a carriage return alone.
    if len(lines) == 1:
        lines = list(enumerate(lines[0][1].split("\r"), 1))
    stated = _SEPARATOR.fullmatch(lines[0][1].strip()) if lines else None
    lines = lines[1:] if stated else lines
    sample = [line for _, line in lines[:40] if line.strip()][:20]
    if sample and max(map(sample[0].count, _SEPARATORS)) > _MOST_COLUMNS:
        raise UsageError(f"{path}: more than {_MOST_COLUMNS:,} columns; give a table of texts.")
    order = ",;\t|" if suffix == ".csv" else "\t,;|"
    separator = stated[1] if stated else max(order, key=lambda sign: _agreement(sample, sign))
    if separator == "\t":
        rows = _unquoted([line.split("\t") for _, line in lines])
        return Cells(path, rows, [number for number, _ in lines], separated=_SEPARATORS[separator])
    return _csv(path, lines, separator)


def _of_object(given: Any, path: Path) -> Cells:
    """Return the cells of a DataFrame, a Dataset, or one split of a DatasetDict."""
    if isinstance(given, Mapping):
        split = next((name for name in (*_SPLITS, *given) if name in given), None)
        given = given[split] if split is not None else given
        path = path / str(split)
    if not hasattr(given, "columns") and not hasattr(given, "column_names"):
        raise UsageError(f"a {type(given).__name__} is no table; give a path, a DataFrame or a Dataset.")
    named = getattr(given, "column_names", None)
    given = given.to_pandas() if named is None and hasattr(given, "to_pandas") else given
    columns = {str(name): list(given[name]) for name in (given.columns if named is None else named)}
    return _of_columns(path, columns, list(range(1, len(given) + 1)))


def _of_folder(path: Path) -> Cells:
    if not any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
        inside = ", ".join(sorted(file.name for file in path.iterdir())[:5])
        raise UsageError(
            f"{path} is a folder with {inside or 'no file'}; give a table, a folder of Dataset.save_to_disk, or one of"
            " BEIR (corpus.jsonl, queries.jsonl, qrels/)."
        )
    from datasets import load_from_disk

    try:
        return _of_object(load_from_disk(str(path)), path)
    except (OSError, ValueError, KeyError) as error:
        raise CorruptError(f"{path} cannot be read as a saved Dataset: {str(error)[:200]}") from error


def _sheet(path: Path) -> Cells:
    import pandas as pd

    try:
        sheets = pd.read_excel(path, header=None, dtype=object, sheet_name=None)
    except ImportError as error:
        raise MissingError(
            f"{path} is an Excel sheet: pip install 'zoo-bench[excel]', or save it as CSV UTF-8."
        ) from error
    except Exception as error:
        raise CorruptError(f"{path} cannot be read as an Excel sheet: {str(error)[:200]}") from error
    name = max(sheets, key=lambda sheet: int(sheets[sheet].count().sum()))
    path = path / str(name) if len(sheets) > 1 else path
    rows = [[_cell(value) for value in row] for row in sheets[name].itertuples(index=False)]
    kept = [number for number, row in enumerate(rows) if any(row)]
    return Cells(path, [rows[number] for number in kept], [number + 1 for number in kept])


def _agreement(lines: list[str], separator: str) -> float:
    """Return the share of lines with the usual number of fields; 0 for less than three of four, and for a single field.

    Where the first line has that number, half of the lines are enough.
    """
    try:
        counts = [len(row) for row in csv.reader(lines, delimiter=separator)]
    except csv.Error:
        return 0.0
    usual = max(counts, key=counts.count, default=0)
    share = counts.count(usual) / max(len(counts), 1)
    return share if usual > 1 and share >= (0.5 if usual == counts[0] else 0.75) else 0.0


def _csv(path: Path, lines: list[tuple[int, str]], separator: str) -> Cells:
    cells, before = Cells(path, [], [], separated=_SEPARATORS.get(separator, separator)), 0
    csv.field_size_limit(2**26)
    reader = csv.reader((f"{line}\n" for _, line in lines), delimiter=separator, strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                cells.rows.append(row)
                cells.lines.append(lines[before][0])
            before = reader.line_num
    except csv.Error as error:
        raise CorruptError(
            f"{path}:{lines[before][0]}: {error}; a field with a quote, a newline or a separator in it stands in"
            " quotes, and quotes inside it are doubled."
        ) from error
    return cells


def _unquoted(rows: list[list[str]]) -> list[list[str]]:
    """Remove the quotes of a tab-separated file if its writer quoted fields; else quotes are a part of the text."""
    begun = [cell for row in rows for cell in row if cell.startswith('"')]
    if not begun or not all(_QUOTED.fullmatch(cell) for cell in begun):
        return rows
    plain = any(cell and not cell.startswith('"') and not is_number(cell) for row in rows for cell in row)
    if plain and not any('""' in cell[1:-1] for cell in begun):
        return rows
    return [[cell[1:-1].replace('""', '"') if cell.startswith('"') else cell for cell in row] for row in rows]


def _json(path: Path, lines: list[tuple[int, str]], *, is_document: bool) -> Cells:
    if is_document:
        try:
            values = json.loads("\n".join(line for _, line in lines))
        except (ValueError, RecursionError):
            values = None
        if isinstance(values, dict):
            values = _rows_of(values)
        if isinstance(values, list):
            return _of_values(path, values, list(range(1, len(values) + 1)))
    values = []
    for number, line in lines:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise CorruptError(f"{path}:{number}: not JSON: {error}.") from error
    return _of_values(path, values, [number for number, _ in lines])


def _rows_of(content: dict[str, Any]) -> list[Any] | None:
    """Return the rows of an object of columns (as pandas writes it) or with one list of objects; None for others."""
    columns = [[*value.values()] if isinstance(value, dict) else value for value in content.values()]
    lists = [column for column in columns if isinstance(column, list)]
    if len(lists) == 1 and all(isinstance(item, dict) for item in lists[0]):
        return lists[0]
    if len(lists) < max(2, len(columns)) or len({*map(len, lists)}) > 1:
        return None
    return [dict(zip(content, row, strict=True)) for row in zip(*lists, strict=True)]


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
    nested = {name: list(map(_texts_in, cells)) for name, cells in columns.items() if any(map(_is_nested, cells))}
    names = [name for name in columns if name not in nested]
    if not names and len(nested) == 1:
        return Cells(path, next(iter(nested.values())), lines)
    plain = zip(*(columns[name] for name in names), strict=True) if names else ([] for _ in lines)
    return Cells(path, [list(map(_cell, row)) for row in plain], lines, names, nested=nested)


def _is_nested(cell: object) -> bool:
    return isinstance(cell, list | tuple | dict) or getattr(cell, "ndim", 0) > 0


def _texts_in(cell: Any) -> list[str]:
    """Return the texts of a list or object, of objects their title and text; numbers are none."""
    if isinstance(cell, str):
        return [cell]
    if isinstance(cell, dict):
        parts = [part for part in (cell.get("title"), cell.get("text")) if isinstance(part, str) and part]
        return [" ".join(parts)] if isinstance(cell.get("text"), str) else []
    return [text for item in cell for text in _texts_in(item)] if _is_nested(cell) else []


def _cell(value: object) -> str:
    """Return a value as text, a number so that it is read back equal; None and NaN are empty."""
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
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
