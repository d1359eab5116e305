"""What data there is, and where it is found here."""

from __future__ import annotations

from benchmark.data.catalog import catalog
from benchmark.data.sources import DataSource
from zoo.errors import CorruptError, MissingError


def data_rows(folder: str | None) -> list[list[str]]:
    """Return name, form, rows, where found, licence of every data set (checksums are not read; see verify)."""
    source = DataSource.from_options(folder, hub=False)
    rows = []
    for entry in catalog().values():
        for form in entry.forms:
            try:
                found = source.locate(entry.name, form).source
            except MissingError:
                found = "no" if entry.form(form).hub is None else "no (on the hub)"
            except CorruptError:
                found = "damaged"
            counts = ", ".join(f"{k} {v:,}" for k, v in entry.rows.items()) or f"{entry.lines:,} lines"
            rows.append([entry.name, form, counts, found, entry.licence])
    return rows
