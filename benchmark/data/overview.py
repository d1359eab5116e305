"""Lists the data sets, and where they are found on this machine."""

from __future__ import annotations

from typing import Any

from benchmark.data.catalog import catalog, dataset
from benchmark.data.sources import DataSource
from zoo.errors import CorruptError, MissingError


def found_here(name: str, form: str, folder: str | None) -> str:
    """Return where a data set is found: folder, cache, bundled, "no" or "damaged" (see `verify` for checksums)."""
    return _found(name, form, DataSource.from_options(folder, hub=False))


def _found(name: str, form: str, source: DataSource) -> str:
    try:
        return source.locate(name, form).source
    except MissingError:
        return "no" if dataset(name).form(form).hub is None else "no (on the hub)"
    except CorruptError:
        return "damaged"


def data_sets(folder: str | None) -> list[dict[str, Any]]:
    """Return name, form, rows, where found, licence, citation and homepage of every data set, as plain values."""
    source = DataSource.from_options(folder, hub=False)
    return [
        {
            "name": entry.name,
            "form": form,
            "title": entry.title,
            "rows": dict(entry.rows) or None,
            "lines": entry.lines,
            "found": _found(entry.name, form, source),
            "licence": entry.licence,
            "citation": entry.citation,
            "homepage": entry.homepage,
        }
        for entry in catalog().values()
        for form in entry.forms
    ]


def data_rows(folder: str | None) -> list[list[str]]:
    """Return name, form, rows, where found, licence of every data set (checksums are not read; see verify)."""
    rows = []
    for entry in data_sets(folder):
        lines = f"{entry['lines']:,} lines" if entry["lines"] else "not counted"
        counts = ", ".join(f"{k} {v:,}" for k, v in (entry["rows"] or {}).items()) or lines
        rows.append([entry["name"], entry["form"], counts, entry["found"], entry["licence"]])
    return rows
