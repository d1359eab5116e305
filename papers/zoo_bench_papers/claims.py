"""The papers' claims as this project can test them, with their printed cells by reference (configs/claims/*.yaml)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from benchmark.report.published import PublishedRow, published
from benchmark.tasks.suites import all_suites
from zoo.files import read_yaml
from zoo.paths import resource_folder

CODE, TEXT = "the released code", "the paper's text"
_CELL = ("paper", "table", "row", "backbone", "setting", "metric")  # what names a printed row; the last three may lack


@dataclass(frozen=True)
class Printed:
    """A printed value, or two whose difference the paper's claim is about; `column` is as printed."""

    column: str
    a: PublishedRow
    b: PublishedRow | None = None

    @property
    def value(self) -> float:
        """The printed difference of a and b, or the value of a alone."""
        return self.a.scores[self.column] - (self.b.scores[self.column] if self.b else 0.0)

    def spread(self) -> tuple[float, str] | None:
        """Return the deviation over the most seeds printed for a recipe on a's backbone, and its source; None: none."""
        names = {*self.a.row.recipes, *(self.b.row.recipes if self.b else ())}
        known = [
            one
            for one in published().lines
            if one.row.backbone == self.a.row.backbone and self.column in one.std and names & {*one.row.recipes}
        ]
        if not known:
            return None
        most = max(known, key=lambda one: one.row.seeds or 0)
        return most.std[self.column], f"{most.row.seeds or 'several'} seeds of {most.row.method}, {most.table.source()}"

    def text(self) -> str:
        """Return "+1.49 (PT-BERT, table 3, Avg: PT-BERT, SimCSE-BERT)", and the size in spreads over seeds."""
        lines = [self.a, *([self.b] if self.b else [])]
        spread = self.spread() if self.b else None
        size = f"; {abs(self.value) / spread[0]:.1f} standard deviations of {spread[1]}" if spread else ""
        value = f"{self.value:{'+' if self.b else ''}.{max(one.decimals for one in lines)}f}"
        sources = "; ".join(dict.fromkeys(one.table.source() for one in lines))
        return f"{value} ({sources}, {self.column}: {', '.join(one.row.method for one in lines)}{size})"


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One claim; the head of each file of claims says what its fields mean."""

    id: str
    paper: str
    where: str
    says: str
    kind: Literal["above", "not-below", "ordered", "property"]
    on: tuple[str, ...] = ()
    contrasts: tuple[tuple[str, ...], ...] = ()
    controls: tuple[tuple[str, ...], ...] = ()
    order: tuple[str, ...] = ()
    claimed: Literal["best", "all"] = "best"
    margin: float = 0.0
    measure: str = ""
    command: str = ""
    metric: Literal["", "pearson"] = ""
    conditions: str = ""
    untestable: str = ""
    published: tuple[Any, ...] = ()
    released: dict[str, str] = {}  # the released code's recipes, by the paper's

    def pairs(self) -> list[tuple[str, ...]]:
        """Return the contrasts (row, row), all of which the claim is about."""
        ordered = ((self.order[i if self.claimed == "all" else 0], b) for i, b in enumerate(self.order[1:]))
        return [*self.contrasts, *ordered]

    def procedures(self) -> list[tuple[str, Claim]]:
        """Return the claim on the rows of the procedure that made the paper's numbers, then, if others, on its text's.

        Where a paper and its released code differ, these are the code's rows and the paper's own.
        """
        contrasts, order = tuple(map(self._of_code, self.contrasts)), self._of_code(self.order)
        if (contrasts, order) == (self.contrasts, self.order):
            return [("", self)]
        others = [pair for pair in self.controls if pair not in contrasts]
        return [(CODE, replace(self, contrasts=contrasts, order=order, controls=tuple(others))), (TEXT, self)]

    def _of_code(self, rows: Sequence[str]) -> tuple[str, ...]:
        names = [(self.released.get(name, ""), *name.partition(":")) for name in rows]
        return tuple(whole or self.released.get(base, base) + colon + more for whole, base, colon, more in names)

    def places(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return each place of `on` with its tasks: those of a suite, or those named."""
        suites = _suites()
        return [(place, suites[place] if place in suites else tuple(place.split(","))) for place in self.on]


@functools.cache
def _suites() -> dict[str, tuple[str, ...]]:
    return {name: suite.tasks for name, suite in all_suites().items()}


@functools.cache
def all_claims() -> tuple[Claim, ...]:
    """Return the claims of every file."""
    folder = resource_folder("zoo_bench_papers", "configs") / "claims"
    names = "ptbert", "burt", "promptbert", "cited", "later"
    return tuple(one for name in names for one in read_claims(folder / f"{name}.yaml"))


def read_claims(path: Path) -> list[Claim]:
    """Read one file of claims; raises msgspec.ValidationError or ValueError for a key or a cell that does not exist."""
    content = read_yaml(path)
    shared = {key: content[key] for key in ("paper", "released") if key in content}
    found = []
    for entry in content["claims"]:
        one = msgspec.convert({**shared, **entry}, Claim)
        cells = (cell for given in one.published for cell in _printed(given, one.paper))
        found.append(replace(one, published=tuple(cells)))
    return found


def _printed(given: Mapping[str, Any], paper: str) -> list[Printed]:
    shared = {"paper": paper, **{key: value for key, value in given.items() if key in _CELL}}
    rows = [given[side] for side in ("a", "b") if side in given]
    sides = [{**shared, **(row if isinstance(row, dict) else {"row": row})} for row in rows]
    return [Printed(column, *(_line(side, column) for side in sides)) for column in given["columns"]]


def _line(wanted: Mapping[str, str], column: str) -> PublishedRow:
    """Return the published row of a cell; raises ValueError unless there is exactly one."""
    stated = {key: wanted[key] for key in ("backbone", "setting", "metric") if key in wanted}
    found = [
        one
        for one in published().lines
        if (one.table.paper, one.table.table, one.row.method) == (wanted["paper"], wanted["table"], wanted["row"])
        and all(getattr(one.row, key) == text for key, text in stated.items())
        and column in one.scores
    ]
    if len(found) != 1:
        raise ValueError(f"{len(found)} published rows for {dict(wanted)}, column {column!r}.")
    return found[0]
