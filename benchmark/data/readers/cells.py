"""Reads a container of rows as a frame of texts, whose index is the line of each row.

A container is a file (csv, tsv, jsonl, also .gz and .xz; parquet; Excel), a saved Dataset, or a DataFrame, a Dataset,
rows or columns. pandas, pyarrow and datasets read them.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmark.data.readers.kinds import JSON, PARQUET, SHEET, begins, check_text, is_saved, suffix_of, text_lines
from benchmark.data.readers.shapes import ASIDE, KNOWN, LABEL, NEGATIVE, NESTED, plain
from zoo.errors import CorruptError, UsageError
from zoo.extras import optional

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("test", "validation", "dev", "train")
_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "pipes"}
_MOST_COLUMNS = 10_000
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECIMAL = re.compile(r"([+-]?\d+),(\d+)(\s*%)?")
_ROLES = {"user": "query", "human": "query", "assistant": "document", "gpt": "document"}


@dataclass(frozen=True)
class Cells:
    """Cells as a frame; without a header its columns are numbered from 0. `others` are splits that are not read."""

    path: Path
    frame: pd.DataFrame
    header: bool = True
    others: tuple[str, ...] = ()
    separated: str = ""
    # The number of fields of the header.
    width: int = 0

    def texts(self, chosen: Collection[str] | None = None) -> pd.DataFrame:
        """Return cells as texts; each value of the chosen lists (by default all that may be used) has a row."""
        return _unfolded(self.path, self.frame, chosen).astype(object).map(cell)


def cell(value: object) -> str:
    """Return a value as text: a number is read back equal, None and NaN are ""."""
    if isinstance(value, str):
        return value.strip()
    if value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        return ""
    return {"True": "1", "False": "0"}.get(str(value), str(value)) if "bool" in type(value).__name__ else str(value)


def once(names: Sequence[str]) -> list[str]:
    """Return names of which a repeated one has its count behind a dot."""
    return [f"{name}.{names[:i].count(name)}" if name in names[:i] else name for i, name in enumerate(names)]


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def plain_numbers(cells: Sequence[str]) -> list[str]:
    """Return numbers in equal form: 1.0 as 1, 0,5 and 0,5 % as 0.5; three digits behind each comma may be thousands."""
    parts = [_DECIMAL.fullmatch(text) for text in cells]
    decimal = any(part and (len(part[2]) != 3 or part[1].lstrip("+-") == "0") for part in parts)
    texts = [f"{part[1]}.{part[2]}" if part and decimal else text for text, part in zip(cells, parts, strict=True)]
    texts = [text[:-1].rstrip() if text.endswith("%") and is_number(text[:-1].rstrip()) else text for text in texts]
    return [re.sub(r"(?<=\d)\.0*$", "", text) if "." in text and is_number(text) else text for text in texts]


def read_cells(source: Any, splits: Sequence[str] = SPLITS) -> Cells:
    """Read all cells; of several splits, the first of `splits`.

    Raises CorruptError with the line, UsageError for an archive or another object, MissingError for a sheet without the
    extra.
    """
    import pandas as pd

    if not isinstance(source, Path):
        return _of_object(source, Path(type(source).__name__), splits)
    if source.is_dir():
        return _of_folder(source, splits)
    check_text(source)
    suffix = suffix_of(source)
    if suffix in SHEET:
        return _sheet(source)
    if suffix in PARQUET or begins(source).startswith(b"PAR1"):
        return _parquet(source)
    lines = {number: line for number, line in enumerate(text_lines(source), 1) if line.strip() or suffix == ".csv"}
    if suffix in JSON:
        return _json(source, lines, splits, is_document=suffix == ".json")
    if len(lines) == 1:
        # Old programs end a line with a carriage return alone.
        lines = dict(enumerate(next(iter(lines.values())).split("\r"), 1))
    first = next(iter(lines), 0)
    stated = re.fullmatch(r"sep=(.)", lines[first].strip()) if lines else None
    if stated:
        del lines[first]
    rows, separator = _rows(source, lines, stated[1] if stated else "", is_csv=suffix == ".csv")
    if separator == ";":
        rows = {line: [_DECIMAL.sub(r"\1.\2\3", text) if _DECIMAL.fullmatch(text) else text for text in row]
                for line, row in rows.items()}  # fmt: skip
    width = max(map(len, rows.values()), default=0)
    padded = [[*row, *[None] * (width - len(row))] for row in rows.values()]
    frame = pd.DataFrame(padded, index=[*rows], dtype=object)
    return Cells(source, frame, header=False, separated=_SEPARATORS.get(separator, separator))


def _rows(path: Path, lines: dict[int, str], stated: str, *, is_csv: bool) -> tuple[dict[int, list[str]], str]:
    """Split lines at the stated sign, else at the one that gives the most lines an equal number of fields."""
    sample = [line for line in [*lines.values()][:40] if line.strip()][:20]
    if sample and max(map(sample[0].count, _SEPARATORS)) > _MOST_COLUMNS:
        raise UsageError(f"{path}: more than {_MOST_COLUMNS:,} columns; give a table of texts.")
    separator = stated or max(",;\t|" if is_csv else "\t,;|", key=lambda sign: _agreement(sample, sign))
    if separator == "\t":
        return dict(zip(lines, _unquoted([line.split("\t") for line in lines.values()]), strict=True)), separator
    rows: dict[int, list[str]] = {}
    numbers, before = [*lines], 0
    csv.field_size_limit(2**26)
    reader = csv.reader((f"{line}\n" for line in lines.values()), delimiter=separator, strict=True)
    try:
        for row in reader:
            if any(text.strip() for text in row):
                rows[numbers[before]] = row
            before = reader.line_num
    except csv.Error as error:
        raise CorruptError(
            f"{path}:{numbers[before]}: {error}; a field with a quote, a newline or a separator in it stands in"
            " quotes, and quotes inside it are doubled."
        ) from error
    return rows, separator


def _agreement(lines: list[str], separator: str) -> float:
    """Return the share of lines with the usual number of fields; 0 below half of them, and for a single field."""
    try:
        counts = [len(row) for row in csv.reader(lines, delimiter=separator)]
    except csv.Error:
        return 0.0
    usual = max(counts, key=counts.count, default=0)
    share = counts.count(usual) / max(len(counts), 1)
    return share if usual > 1 and share >= 0.5 else 0.0


def _unquoted(rows: list[list[str]]) -> list[list[str]]:
    """Remove quotes if the writer quoted fields; else they belong to the text."""
    begun = [text for row in rows for text in row if text.startswith('"')]
    if not begun or not all(_QUOTED.fullmatch(text) for text in begun):
        return rows
    bare = any(text and not text.startswith('"') and not is_number(text) for row in rows for text in row)
    if bare and not any('""' in text[1:-1] for text in begun):
        return rows
    return [[text[1:-1].replace('""', '"') if text.startswith('"') else text for text in row] for row in rows]


def _of_object(given: Any, path: Path, splits: Sequence[str]) -> Cells:
    import pandas as pd

    if isinstance(given, Mapping) and (parts := _parts(given)):
        split = next(name for name in (*splits, *given) if name in given)
        part = _of_object(given[split], path / str(split), splits)
        return Cells(part.path, part.frame, part.header, tuple(str(name) for name in parts if name != split))
    features: Any = getattr(given, "features", None)
    if hasattr(given, "to_pandas"):
        return Cells(path, _named(given.to_pandas(), features))
    if isinstance(given, pd.DataFrame):
        return Cells(path, given.set_axis(once([*map(str, given)]), axis=1).set_axis(range(1, len(given) + 1)))
    if isinstance(given, Mapping):
        lists = {name: value if isinstance(value, str | dict) or not hasattr(value, "__len__") else [*value]
                 for name, value in given.items()}  # fmt: skip
        given = _rows_of(lists)
        if given is None:
            raise UsageError("a dict that is no table of equal lists is no table; give a path or rows.")
    if isinstance(given, list) and given:
        return _of_values(path, dict(enumerate(given, 1)))
    raise UsageError(f"a {type(given).__name__} is no table; give a path, a DataFrame, a Dataset, rows or columns.")


def _parts(given: Mapping[Any, Any]) -> list[Any]:
    tables = all(hasattr(part, "column_names") or hasattr(part, "columns") for part in given.values())
    rows = all(isinstance(part, list) and all(isinstance(row, dict) for row in part) for part in given.values())
    return [*given] if given and (tables or (rows and any(name in SPLITS for name in given))) else []


def _named(frame: pd.DataFrame, features: Any) -> pd.DataFrame:
    """Write the labels of a ClassLabel by their names; -1 is no label."""
    import pandas as pd

    for name, feature in (features or {}).items():
        label: Any = getattr(feature, "feature", feature)
        if getattr(label, "names", None) and name in frame:
            word = dict(enumerate(label.names)).get
            values = frame[name].tolist()
            frame[name] = pd.Series([[*map(word, value)] if is_nested(value) else word(value) for value in values])
    return frame.set_axis(range(1, len(frame) + 1))


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
    frame = sheets[name].dropna(how="all").dropna(how="all", axis=1)
    frame = frame.set_axis(frame.index + 1).set_axis(range(frame.shape[1]), axis=1)
    return Cells(path / str(name) if len(sheets) > 1 else path, frame, header=False)


def _parquet(path: Path) -> Cells:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise CorruptError(
            f"{path} cannot be read as parquet: {' '.join(str(error).split())[:200].rstrip('. ')}."
        ) from error
    features = None
    if b"huggingface" in (table.schema.metadata or {}):
        from datasets import Features

        features = Features.from_arrow_schema(table.schema)
    return Cells(path, _named(table.to_pandas(ignore_metadata=True, integer_object_nulls=True), features))


def _json(path: Path, lines: dict[int, str], splits: Sequence[str], *, is_document: bool) -> Cells:
    if is_document:
        try:
            content = json.loads("\n".join(lines.values()))
        except (ValueError, RecursionError):
            content = None
        if isinstance(content, dict) and _parts(content):
            return _of_object(content, path, splits)
        rows = _rows_of(content) if isinstance(content, dict) else content
        if isinstance(rows, list):
            return _of_values(path, dict(enumerate(rows, 1)))
    values = {}
    for number, line in lines.items():
        try:
            values[number] = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorruptError(f"{path}:{number}: not JSON: {error}.") from error
    return _of_values(path, values)


def _rows_of(content: Mapping[str, Any]) -> list[Any] | None:
    """Read columns in any of pandas' orients, or a single list of objects."""
    import pandas as pd

    lists = [part for part in content.values() if isinstance(part, list)]
    if len(lists) == 1 and all(isinstance(item, dict) for item in lists[0]):
        return lists[0]
    if len(content) < 2 or not all(isinstance(part, dict | list) for part in content.values()):
        return None
    split = {"columns", "data"} <= {*content}
    given: Any = content["data"] if split else content
    try:
        frame = pd.DataFrame(given, columns=content["columns"] if split else None, dtype=object)
    except (ValueError, TypeError):
        return None
    # Orient "index": an object for each row.
    turned = all(map(str.isdecimal, map(str, frame))) and not all(map(str.isdecimal, map(str, frame.index)))
    rows: list[Any] = (frame.T if turned else frame).to_dict("records")
    return rows


def _of_values(path: Path, values: dict[int, Any]) -> Cells:
    import pandas as pd

    first = next(iter(values.values()), None)
    for line, value in values.items():
        if not isinstance(value, dict | list | str) or type(value) is not type(first):
            raise CorruptError(f"{path}:{line}: a {type(value).__name__}; each row is an object, a list or a text.")
    rows: list[Any] = [[value] if isinstance(value, str) else value for value in values.values()]
    if isinstance(first, dict):
        names = dict.fromkeys(name for row in rows for name in row)
        frame = pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names})
    else:
        frame = pd.DataFrame(rows, dtype=object)
    return Cells(path, frame.set_axis([*values]), header=isinstance(first, dict))


def is_nested(value: object) -> bool:
    return isinstance(value, list | tuple | dict) or getattr(value, "ndim", 0) > 0


def _unfolded(path: Path, frame: pd.DataFrame, chosen: Collection[str] | None) -> pd.DataFrame:
    """Give each value of the chosen lists a row, as the documented files mean it.

    A chat's user asks and its assistant answers; an object's lists are columns; two `texts` are a pair; lists of equal
    length go together, and each negative has a row of its own. Raises CorruptError for other lists of two lengths.
    """
    import pandas as pd

    columns: dict[Any, list[Any]] = {}
    for name in frame:
        values = frame[name].tolist()
        if frame[name].dtype == object and plain(name) in f"{LABEL} category categories".split():
            values = [_listed(value) for value in values]
        nested = [value for value in values if is_nested(value) and len(value)]
        if nested and all(isinstance(value, dict) for value in nested):
            keys = dict.fromkeys(key for value in nested for key in value)
            rows = [value if isinstance(value, dict) else {} for value in values]
            columns |= {f"{name}.{key}": [row.get(key) for row in rows] for key in keys}
        elif nested and all(isinstance(item, dict) for value in nested for item in value):
            columns |= _objects(str(name), values)
        else:
            columns[name] = values
    lists = [name for name, values in columns.items() if any(map(is_nested, values)) and plain(name) not in ASIDE]
    if lists == ["texts"] and all(is_nested(value) and len(value) == 2 for value in columns["texts"]):
        pairs = columns.pop("texts")
        columns |= {f"text{place + 1}": [pair[place] for pair in pairs] for place in (0, 1)}
        lists = []
    renamed = {name: NESTED.get(plain(name), name) for name in columns}
    if len({*renamed.values()}) == len(columns):
        columns = {renamed[name]: values for name, values in columns.items()}
        lists = [renamed[name] for name in lists]
    if chosen is not None:
        lists = [name for name in lists if name in chosen or plain(name) in map(plain, chosen)]
    elif any(plain(name) in KNOWN for name in lists):
        known = [[*map(_length, columns[name])] for name in lists if plain(name) in KNOWN]
        lists = [name for name in lists if plain(name) in KNOWN or [*map(_length, columns[name])] in known]
    table = pd.DataFrame({name: pd.Series(values, index=frame.index, dtype=object) for name, values in columns.items()},
                         index=frame.index)  # fmt: skip
    for several in (False, True):
        groups: dict[tuple[int, ...], list[Any]] = {}
        for name in lists:
            if (re.sub(r"\d+$", "", plain(name)) in NEGATIVE.split()) == several:
                groups.setdefault(tuple(map(_length, table[name])), []).append(name)
        if len(groups) > 1 and not several:
            (first, *_), (second, *_) = [*groups.values()][:2]
            apart = table[first].map(_length) != table[second].map(_length)
            where = f"{path}:{apart.idxmax()}: {first} and {second}"
            raise CorruptError(f"{where} are lists of different lengths; name the texts that count: --columns.")
        for names in groups.values():
            table = table.explode(names)
    return table


def _length(value: object) -> int:
    return len(value) if is_nested(value) else 1  # type: ignore[arg-type]


def _listed(value: Any) -> Any:
    """Read a list that was written as text: "['a', 'b']"."""
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        try:
            return ast.literal_eval(value)
        except (ValueError, SyntaxError):
            return value
    return value


def _objects(name: str, rows: list[Any]) -> dict[str, list[Any]]:
    """Return columns of lists: of a chat by its roles, of passages their text behind its title, else by key."""
    items: list[list[dict[str, Any]]] = [[*row] if is_nested(row) else [] for row in rows]
    keys = dict.fromkeys(key for row in items for item in row for key in item)
    for role, content in (("role", "content"), ("from", "value")):
        if {role, content} <= {*keys}:
            sides = {side: [[item[content] for item in row if _ROLES.get(item[role]) == side] for row in items]
                     for side in ("query", "document")}  # fmt: skip
            turns = [min(map(len, pair)) for pair in zip(*sides.values(), strict=True)]
            return {side: [row[:n] for row, n in zip(of, turns, strict=True)] for side, of in sides.items()}
    if "text" in keys:
        return {name: [[" ".join(filter(None, (item.get("title"), item["text"]))) for item in row] for row in items]}
    return {f"{name}.{key}": [[item.get(key) for item in row] for row in items] for key in keys}
