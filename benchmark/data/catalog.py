"""The data catalog: rows, licence, citation, checksums, sources and tasks; a file per data set in sets/."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.errors import UsageError, did_you_mean
from zoo.files import read_yaml

SETS = Path(__file__).with_name("sets")
POCKET = Path(__file__).with_name("pocket")


@dataclass(frozen=True)
class Form:
    """A form of a data set's text: its folder below a data root, its files with sha256, its place on the hub.

    A sha256 of None is unknown: that of the first readable file is recorded, and another is refused.
    """

    folder: str
    files: Mapping[str, str | None]
    hub: Mapping[str, Any] | None = None
    hub_note: str = ""

    @property
    def known(self) -> bool:
        return None not in self.files.values()


@dataclass(frozen=True)
class Dataset:
    name: str
    title: str
    licence: str
    kind: str = "pairs"
    citation: str = ""
    homepage: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    # Rows per split as its organisers made it, where its files have fewer.
    organisers: Mapping[str, int] = field(default_factory=dict)
    subsets: Mapping[str, int] = field(default_factory=dict)
    lines: int | None = None
    # Of a corpus: neighbouring lines are neighbouring sentences of its documents.
    ordered: bool = False
    forms: Mapping[str, Form] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def form(self, name: str) -> Form:
        return self.forms[name]


@functools.cache
def catalog() -> dict[str, Dataset]:
    datasets = {}
    for path in sorted(SETS.glob("*.yaml")):
        entry = read_yaml(path)
        forms = {name: Form(**form) for name, form in entry["forms"].items()}
        datasets[path.stem] = Dataset(**{**entry, "name": path.stem, "forms": forms})
    return datasets


def dataset(name: str) -> Dataset:
    """Look up a data set; raises UsageError with suggestions."""
    if name not in catalog():
        raise UsageError(f"unknown data set {name!r}.{did_you_mean(name, catalog())} `zoo-bench data list` shows all.")
    return catalog()[name]
