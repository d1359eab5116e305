"""The papers' claims as this project can test them, with their printed cells by reference (configs/claims/*.yaml)."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from benchmark.leaderboard.conditions import recipe_of, recipes
from benchmark.leaderboard.published import PublishedRow, published
from benchmark.tasks import TASKS
from benchmark.tasks.suites import all_suites
from zoo.errors import UsageError, did_you_mean
from zoo.files import well_formed
from zoo.paths import resource_folder
from zoo.recipe import build
from zoo.yaml_files import read_yaml

_PLACE = re.compile(r"section|table|figure|abstract|title|appendi", re.IGNORECASE)
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


@dataclass(frozen=True, kw_only=True)
class Claim:
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
    released: Mapping[str, str] = field(default_factory=dict)  # the released code's recipes, by the paper's

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
    """Return the claims of every file; raises UsageError in one sentence for a wrong reference, name or key."""
    folder = resource_folder("benchmark", "configs") / "claims"
    names = "ptbert", "burt", "promptbert", "cited", "later"
    return tuple(one for name in names for one in read_claims(folder / f"{name}.yaml"))


def read_claims(path: Path) -> list[Claim]:
    """Read one file of claims; raises UsageError naming the claim and what is wrong."""
    with well_formed(path, UsageError):
        content = read_yaml(path)
        if not {"claims"} <= set(content) <= {"paper", "released", "claims"}:
            raise UsageError(f"{path}: its keys must be claims and, where all are of one paper, paper and released.")
        found: dict[str, Claim] = {}
        for entry in content["claims"]:
            where = f"{path}: {entry.get('id')}"
            if entry.get("id") in found:
                raise UsageError(f"{where}: two claims have this id.")
            plain = {key: value for key, value in entry.items() if key not in ("published", "released")}
            one = build(Claim, {"paper": content.get("paper"), **plain}, where)
            cells = (cell for given in entry.get("published", ()) for cell in _printed(given, one.paper, where))
            released = entry.get("released", content.get("released", {}))
            found[one.id] = replace(one, published=tuple(cells), released=released)
            if wrong := _wrong(found[one.id]):
                raise UsageError(f"{where}: {wrong}")
    return list(found.values())


def _wrong(one: Claim) -> str:
    """Return what is wrong with a claim, or ""."""
    if not one.published and not _PLACE.search(one.where):
        return "give a published cell, or under `where` the section, table or figure that says it."
    if any(len(pair) not in (2, 4) for pair in (*one.contrasts, *one.controls)):
        return "a contrast is a list of two rows, or of four for (a - b) - (c - d)."
    for name in {*one.released.values(), *(name for pair in (*one.pairs(), *one.controls) for name in pair)}:
        if recipe_of(name)[0] not in recipes():
            return f"there is no recipe {name!r}.{did_you_mean(name, recipes())}"
    for place, tasks in one.places():
        if any(task not in TASKS for task in tasks):
            return f"{place!r} is no suite and no list of tasks.{did_you_mean(place, {*_suites(), *TASKS.names()})}"
    if one.kind == "property":
        return "" if one.command or one.untestable else "a property needs the `command` that measures it."
    if (one.kind == "not-below") != (one.margin > 0):
        return "`margin` is above 0 for the kind 'not-below', and left out for others."
    if not one.untestable and not (one.on and one.pairs()):
        return "name the rows to compare and, under `on`, where; or say under `untestable` why there are none."
    return ""


def _printed(given: Mapping[str, Any], paper: str, where: str) -> list[Printed]:
    if not {"a", "columns"} <= set(given) <= {"a", "b", "columns", *_CELL} - {"row"}:
        raise UsageError(f"{where}: published: the keys are a, b, columns, paper, table, backbone, setting, metric.")
    shared = {"paper": paper, **{key: value for key, value in given.items() if key in _CELL}}
    rows = [given[side] for side in ("a", "b") if side in given]
    sides = [{**shared, **(row if isinstance(row, dict) else {"row": row})} for row in rows]
    return [Printed(column, *(_line(side, column, where) for side in sides)) for column in given["columns"]]


def _line(wanted: Mapping[str, str], column: str, where: str) -> PublishedRow:
    """Return the published row of a cell; raises UsageError for an unknown paper, table, row or column."""
    paper, table, row = (wanted.get(key, "") for key in _CELL[:3])
    lines = [one for one in published().lines if one.table.paper == paper]
    rows = [one for one in lines if one.table.table == table]
    stated = {key: wanted[key] for key in ("backbone", "setting", "metric") if key in wanted}
    fitting = [one for one in rows if one.row.method == row and stated.items() <= vars(one.row).items()]
    found = [one for one in fitting if column in one.scores]
    if len(found) == 1:
        return found[0]
    if not rows:
        known = ", ".join(dict.fromkeys(one.table.table for one in lines)) or "none"
        raise UsageError(f"{where}: published: {paper!r} has no table {table!r}; its tables: {known}.")
    place = f"{where}: published: {paper}, table {table}"
    if not fitting:
        raise UsageError(f"{place} has no such row {row!r}.{did_you_mean(row, {one.row.method for one in rows})}")
    if found:
        raise UsageError(f"{place} has several rows {row!r}; name backbone, setting or metric.")
    columns = ", ".join(dict.fromkeys(name for one in fitting for name in one.scores))
    raise UsageError(f"{place}, {row} has no column {column!r}; it has {columns}.")
