"""Reads the cells of a table as text, with the line of each row.

A table is a file (csv, tsv, jsonl, also .gz and .xz; parquet; Excel), a saved Dataset, or a DataFrame or Dataset.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmark.data.readers.kinds import (
    JSON,
    PARQUET,
    SHEET,
    begins,
    check_text,
    holds_objects,
    inner,
    is_nested,
    is_saved,
    items,
    named,
    suffix_of,
    text_lines,
)
from zoo.errors import CorruptError, UsageError
from zoo.extras import optional

_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "pipes"}
SPLITS = ("test", "validation", "dev", "train")
_MOST_COLUMNS = 10_000
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
# The first line by which Excel is told; a number as spreadsheets write it.
_SEPARATOR = re.compile(r"sep=(.)")
_WRITTEN = re.compile(r"([+-]?\d+)(?:([.,])(\d+))?\s*%?")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
# What a whole number that is written as a decimal one has at its end.
_ZEROS = re.compile(r"(?<=\d)\.0*$")


@dataclass
class Cells:
    """Cells as text, with lines; `names` is None for a file without names."""

    path: Path
    rows: list[list[str]]
    lines: list[int]
    names: list[str] | None = None
    # What separates the fields of a line; the values of columns of lists or objects; the columns made of them.
    separated: str = ""
    nested: dict[str, list[list[Any]]] = field(default_factory=dict)
    unfolded: tuple[str, ...] = ()
    # Whether -1 is no label; parts of the file that are not read.
    typed: bool = False
    others: tuple[str, ...] = ()

    def column(self, number: int) -> list[str]:
        """Return a column, with "" for a short row, and equal numbers in equal form: 1.0 as 1."""
        cells = [row[number].strip() if number < len(row) else "" for row in self.rows]
        return _plain_numbers(cells, commas=self.separated == _SEPARATORS[";"])

    def unfold(self, chosen: Collection[str]) -> Cells:
        """Give each value of the chosen nested columns a row; a shorter list begins again."""
        lists = {name: values for name, values in self.nested.items() if name in chosen and any(values)}
        if not lists:
            return self
        rows: list[list[str]] = []
        lines: list[int] = []
        for number, (row, line) in enumerate(zip(self.rows, self.lines, strict=True)):
            values = [of[number] or [""] for of in lists.values()]
            rows += [[*row, *(_cell(of[i % len(of)]) for of in values)] for i in range(max(map(len, values)))]
            lines += [line] * (len(rows) - len(lines))
        nested = {name: values for name, values in self.nested.items() if name not in lists}
        names = [*(self.names or []), *lists]
        return replace(self, rows=rows, lines=lines, names=names, nested=nested, unfolded=tuple(lists))

    def beside(self, chosen: Collection[str]) -> list[str]:
        lengths = {name: [*map(len, values)] for name, values in self.nested.items()}
        return [name for name, length in lengths.items() if any(length == lengths[other] for other in chosen)]


def is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def _plain_numbers(cells: list[str], *, commas: bool) -> list[str]:
    """Three digits behind each comma may be thousands, unless `commas` are decimal."""
    if any("," in cell or cell.endswith("%") for cell in cells):
        parts = [_WRITTEN.fullmatch(cell) for cell in cells]
        behind = [part for part in parts if part and part[2] == ","]
        thousands = not commas and all(len(part[3]) == 3 and part[1].lstrip("+-") != "0" for part in behind)
        if 2 * sum(map(bool, parts)) >= sum(map(bool, cells)) and not (behind and thousands):
            cells = [f"{part[1]}.{part[3] or 0}" if part else cell for part, cell in zip(parts, cells, strict=True)]
    return [_ZEROS.sub("", cell) if "." in cell and is_number(cell) else cell for cell in cells]


def read_cells(path: Any, splits: Sequence[str] = SPLITS) -> Cells:
    """Read all cells; of several splits, the first of `splits`.

    Raises CorruptError with the line, UsageError for an archive or another object, MissingError for a sheet without the
    extra.
    """
    if not isinstance(path, Path):
        return _of_object(path, Path(type(path).__name__), splits)
    if path.is_dir():
        return _of_folder(path, splits)
    check_text(path)
    suffix = suffix_of(path)
    if suffix in SHEET:
        return _sheet(path)
    if suffix in PARQUET or begins(path).startswith(b"PAR1"):
        return _parquet(path)
    lines = [(number, line) for number, line in enumerate(text_lines(path), 1) if line.strip() or suffix == ".csv"]
    if suffix in JSON:
        return _json(path, lines, splits, is_document=suffix == ".json")
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


def _of_object(given: Any, path: Path, splits: Sequence[str]) -> Cells:
    if isinstance(given, Mapping) and (parts := _parts(given)):
        split = next(name for name in (*splits, *given) if name in given)
        others = tuple(str(name) for name in parts if name != split)
        return replace(_of_object(given[split], path / str(split), splits), others=others)
    if isinstance(given, Mapping):
        given = _rows_of({str(name): value if isinstance(value, Mapping) else list(value) if is_nested(value) else
                          value for name, value in given.items()}) or given  # fmt: skip
    if isinstance(given, list) and given:
        return _of_values(path, given, list(range(1, len(given) + 1)))
    features: Any = getattr(given, "features", None)
    if features is None and hasattr(given, "to_pandas"):
        given = given.to_pandas()
    if not hasattr(given, "columns") and features is None:
        what = "dict that is no table of equal lists" if isinstance(given, Mapping) else type(given).__name__
        raise UsageError(f"a {what} is no table; give a path, a DataFrame, a Dataset, rows or columns.")
    if features is not None:
        columns = {name: list(given[name]) for name in given.column_names}
        return _of_columns(path, columns, list(range(1, len(given) + 1)), features.to_dict())
    names = list(map(str, given.columns))
    names = [name if names.index(name) == i else f"{name}.{names[:i].count(name)}" for i, name in enumerate(names)]
    columns = {name: list(given.iloc[:, place]) for place, name in enumerate(names)}
    return _of_columns(path, columns, list(range(1, len(given) + 1)))


def _parts(given: Mapping[Any, Any]) -> list[Any]:
    tables = all(hasattr(part, "column_names") or hasattr(part, "columns") for part in given.values())
    rows = all(isinstance(part, list) and all(isinstance(row, dict) for row in part) for part in given.values())
    return [*given] if given and (tables or (rows and any(name in SPLITS for name in given))) else []


def _of_folder(path: Path, splits: Sequence[str]) -> Cells:
    saved = is_saved(path) or any(file.suffix in (".parquet", ".csv", ".jsonl") for file in path.rglob("*"))
    if not saved:
        inside = ", ".join(sorted(file.name for file in path.iterdir())[:5])
        raise UsageError(
            f"{path} is a folder with {inside or 'no file'}; give a table, a folder of Dataset.save_to_disk, or one of"
            " BEIR (corpus.jsonl, queries.jsonl, qrels/)."
        )
    from datasets import load_dataset, load_from_disk
    from datasets.exceptions import DatasetGenerationError

    try:
        if is_saved(path):
            return _of_object(load_from_disk(str(path)), path, splits)
        with TemporaryDirectory() as cache:
            return _of_object(load_dataset(str(path), cache_dir=cache), path, splits)
    except (OSError, ValueError, KeyError, DatasetGenerationError) as error:
        raise CorruptError(f"{path} cannot be read as a saved Dataset: {str(error)[:200]}") from error


def _sheet(path: Path) -> Cells:
    import pandas as pd

    optional("openpyxl", "excel", f"{path} (an Excel sheet; as CSV UTF-8 it needs nothing)")
    try:
        sheets = pd.read_excel(path, header=None, dtype=object, sheet_name=None)
    except Exception as error:
        raise CorruptError(f"{path} cannot be read as an Excel sheet: {str(error)[:200]}") from error
    name = max(sheets, key=lambda sheet: int(sheets[sheet].count().sum()))
    path = path / str(name) if len(sheets) > 1 else path
    rows = [[_cell(value) for value in row] for row in sheets[name].itertuples(index=False)]
    kept = [number for number, row in enumerate(rows) if any(row)]
    return Cells(path, [rows[number] for number in kept], [number + 1 for number in kept])


def _agreement(lines: list[str], separator: str) -> float:
    """Return the share of lines with the usual number of fields; 0 below three of four, and for a single field.

    Half of the lines are enough if the first line has that number.
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
    """Remove quotes if the writer quoted fields; else they belong to the text."""
    begun = [cell for row in rows for cell in row if cell.startswith('"')]
    if not begun or not all(_QUOTED.fullmatch(cell) for cell in begun):
        return rows
    plain = any(cell and not cell.startswith('"') and not is_number(cell) for row in rows for cell in row)
    if plain and not any('""' in cell[1:-1] for cell in begun):
        return rows
    return [[cell[1:-1].replace('""', '"') if cell.startswith('"') else cell for cell in row] for row in rows]


def _json(path: Path, lines: list[tuple[int, str]], splits: Sequence[str], *, is_document: bool) -> Cells:
    if is_document:
        try:
            values = json.loads("\n".join(line for _, line in lines))
        except (ValueError, RecursionError):
            values = None
        if isinstance(values, dict) and _parts(values):
            return _of_object(values, path, splits)
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


def _rows_of(content: Mapping[str, Any]) -> list[Any] | None:
    """Read columns in any of pandas' orients, or a single list of objects."""
    if {"columns", "data"} <= {*content}:
        return [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]
    if "schema" in content:
        content = {"data": content["data"]}
    columns = [value for value in content.values() if isinstance(value, dict)]
    # Orient "index": an object for each row, of which each has the same names.
    if (
        len(columns) == len(content) > 1
        and all(map(str.isdecimal, content))
        and not any(map(str.isdecimal, columns[0]))
    ):
        return columns
    lists = [[*value.values()] if isinstance(value, dict) else value for value in content.values()]
    lists = [column for column in lists if isinstance(column, list)]
    if len(lists) == 1 and all(isinstance(item, dict) for item in lists[0]):
        return lists[0]
    if len(lists) < max(2, len(content)) or len({*map(len, lists)}) > 1:
        return None
    return [dict(zip(content, row, strict=True)) for row in zip(*lists, strict=True)]


def _of_values(path: Path, values: list[Any], lines: list[int]) -> Cells:
    for line, value in zip(lines, values, strict=True):
        if not isinstance(value, dict | list | str) or type(value) is not type(values[0]):
            raise CorruptError(f"{path}:{line}: a {type(value).__name__}; each row is an object, a list or a text.")
    if not values or not isinstance(values[0], dict):
        rows = [[value] if isinstance(value, str) else [_cell(item) for item in value] for value in values]
        return Cells(path, rows, lines)
    columns = {name: [value.get(name) for value in values] for name in dict.fromkeys(key for v in values for key in v)}
    return _of_columns(path, columns, lines)


def _of_columns(path: Path, columns: dict[str, list[Any]], lines: list[int], features: Any = None) -> Cells:
    columns = {name: [named(cell, (features or {}).get(name)) for cell in cells] for name, cells in columns.items()}
    nested: dict[str, list[list[Any]]] = {}
    for name, cells in [*columns.items()]:
        if not any(map(is_nested, cells)):
            continue
        lists = inner(name, [items(cell) for cell in cells])
        # Lists of a single value are values.
        single = len(cells) > 1 and all(len(values) <= 1 for values in lists.get(name, []))
        columns.pop(name)
        if single and not isinstance(next(filter(is_nested, cells)), dict) and not any(map(holds_objects, cells)):
            columns[name] = [next(iter(values), None) for values in lists.pop(name)]
        nested |= lists
    alone = next(iter(nested.values())) if not columns and len(nested) == 1 else []
    if len(alone) > 1 and len({*map(len, alone)}) == 1:
        return Cells(path, [list(map(_cell, row)) for row in alone], lines)
    if len(nested) == 1 and not any(" " in str(cell) for cells in columns.values() for cell in cells):
        # Two texts in each row are a pair, as in sentence-transformers' files.
        name, couples = next(iter(nested.items()))
        if all(len(values) == 2 for values in couples):
            sides = {f"{name.removesuffix('s')}{place + 1}": [values[place] for values in couples] for place in (0, 1)}
            columns, nested = columns | sides, {}
    plain = zip(*columns.values(), strict=True) if columns else ([] for _ in lines)
    return Cells(path, [list(map(_cell, row)) for row in plain], lines, [*columns], nested=nested, typed=bool(features))


def _cell(value: object) -> str:
    """A number is read back equal; None and NaN are ""."""
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return ""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _parquet(path: Path) -> Cells:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise CorruptError(
            f"{path} cannot be read as parquet: {' '.join(str(error).split())[:200].rstrip('. ')}."
        ) from error
    stated = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    features = stated.get("info", {}).get("features")
    return _of_columns(path, table.to_pydict(), list(range(1, table.num_rows + 1)), features)
