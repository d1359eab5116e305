"""The papers' claims as this project can test them, with printed cells by reference (configs/claims/*.yaml)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from benchmark.records.names import typed_recipe
from benchmark.report.conditions import recipes
from benchmark.report.published import PublishedRow, published
from benchmark.tasks.suites import all_suites
from zoo.files import read_yaml
from zoo.paths import resource_folder

# Whose rows a verdict is about. The paper's text decides only where it leaves no point of its recipes open.
CODE, TEXT, READING = "the released code", "the paper's text", "our reading of the paper's text"
# They name a printed row; the last three may lack.
_CELL = ("paper", "table", "row", "backbone", "setting", "metric")


@dataclass(frozen=True)
class Printed:
    """A printed value, or two with their difference as the claim; `column` is as printed."""

    column: str
    a: PublishedRow
    b: PublishedRow | None = None

    @property
    def value(self) -> float:
        return self.a.scores[self.column] - (self.b.scores[self.column] if self.b else 0.0)

    def spread(self) -> tuple[float, str] | None:
        """Deviation over the most seeds printed for a recipe on a's backbone, and its source; or None."""
        names = {*self.a.row.recipes, *(self.b.row.recipes if self.b else ())}
        known = [
            line
            for line in published().lines
            if line.row.backbone == self.a.row.backbone and self.column in line.std and names & {*line.row.recipes}
        ]
        if not known:
            return None
        most = max(known, key=lambda printed: printed.row.seeds or 0)
        return most.std[self.column], f"{most.row.seeds or 'several'} seeds of {most.row.method}, {most.table.source()}"

    def text(self) -> str:
        """Text such as "+1.49 (PT-BERT, table 3, Avg: PT-BERT, SimCSE-BERT)", and the size in spreads over seeds."""
        lines = [self.a, *([self.b] if self.b else [])]
        spread = self.spread() if self.b else None
        size = f"; {abs(self.value) / spread[0]:.1f} standard deviations of {spread[1]}" if spread else ""
        value = f"{self.value:{'+' if self.b else ''}.{max(line.decimals for line in lines)}f}"
        sources = "; ".join(dict.fromkeys(line.table.source() for line in lines))
        return f"{value} ({sources}, {self.column}: {', '.join(line.row.method for line in lines)}{size})"


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a property: a statistic of `rows[0]` is above a number, or above that of `rows[1]`.

    `below` and `within` are numbers, too: a value or difference is below it, or nearer to 0 than it. `on` are places of
    scores. A rank correlation is of two measures of all rows.
    """

    statistic: str
    rows: tuple[str, ...]
    on: tuple[str, ...] = ()
    above: float | None = None
    below: float | None = None
    within: float | None = None

    def text(self) -> str:
        """Return what has to be measured, for a reason."""
        return f"{self.statistic} of {' and '.join(self.rows)}" + (f" on {', '.join(self.on)}" if self.on else "")


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim; the head of each file of claims explains its fields."""

    id: str
    paper: str
    where: str
    says: str
    kind: Literal["above", "not-below", "equal", "ordered", "property"]
    on: tuple[str, ...] = ()
    contrasts: tuple[tuple[str, ...], ...] = ()
    controls: tuple[tuple[str, ...], ...] = ()
    order: tuple[str, ...] = ()
    claimed: Literal["best", "all"] = "best"
    # Of a claim of no loss or of no difference, and its source.
    margin: float = 0.0
    margin_from: str = ""
    measure: str = ""
    command: str = ""
    # Of a property: what shows it, or what is needed to show it.
    evidence: tuple[Evidence, ...] = ()
    needs: str = ""
    metric: Literal["", "pearson"] = ""
    conditions: str = ""
    # What the claim is about where untrained vectors have it; gates.py asks whether they have it here.
    presupposes: Literal["", "anisotropy", "untrained"] = ""
    untestable: str = ""
    published: tuple[Any, ...] = ()
    # Of the contrasts, or of one contrast by place.
    gains: tuple[float | None, ...] = ()
    # Points of a property's measure that the paper leaves open, and how they are filled.
    open: dict[str, str] = {}
    # The released code's recipes, by the paper's.
    released: dict[str, str] = {}

    def pairs(self) -> list[tuple[str, ...]]:
        ordered = ((self.order[i if self.claimed == "all" else 0], b) for i, b in enumerate(self.order[1:]))
        return [*self.contrasts, *ordered]

    def procedures(self) -> list[tuple[str, Claim]]:
        """The claim on the rows of the paper's numbers, then, if different, on its text's.

        If a paper and its released code differ, these are the code's rows and the paper's own.
        """
        contrasts, order = tuple(map(self._of_code, self.contrasts)), self._of_code(self.order)
        if (contrasts, order) == (self.contrasts, self.order):
            return [("", self)]
        others = [pair for pair in self.controls if pair not in contrasts]
        text = READING if open_points(name for pair in self.pairs() for name in pair) else TEXT
        return [(CODE, replace(self, contrasts=contrasts, order=order, controls=tuple(others))), (text, self)]

    def _of_code(self, rows: Sequence[str]) -> tuple[str, ...]:
        names = [(self.released.get(name, ""), *name.partition(":")) for name in rows]
        return tuple(full or self.released.get(base, base) + colon + more for full, base, colon, more in names)

    def printed(self, contrast: Sequence[str], place: str) -> float | None:
        """Printed difference of a contrast on a place, or None.

        A claim's printed rows of one contrast on one place stand for it, under any recipes of ours.
        """
        if len(contrast) == 4:
            halves = [self.printed(half, place) for half in (contrast[:2], contrast[2:])]
            return None if None in halves else halves[0] - halves[1]  # type: ignore[operator]
        pairs = self.pairs()
        if self.gains and contrast in pairs:
            at = self.on.index(place) if len(pairs) == 1 else pairs.index(tuple(contrast))
            if (gain := self.gains[at]) is not None:
                return gain
        alone, tasks = len(pairs) == len(self.on) == 1, tasks_of(place)
        each = [self._cell(contrast, place, (task,), alone=False) for task in tasks]
        known = [value for value in each if value is not None]
        cell = self._cell(contrast, place, tasks, alone)
        return sum(known) / len(tasks) if cell is None and len(known) == len(tasks) else cell

    def _cell(self, contrast: Sequence[str], place: str, tasks: Sequence[str], alone: bool) -> float | None:
        cells = [cell for cell in self.published if cell.b is not None and _fits(cell, place, tasks)]
        for cell in cells:
            for sign, sides in ((1, (cell.a, cell.b)), (-1, (cell.b, cell.a))):
                if all(_is_of(line, name) for line, name in zip(sides, contrast, strict=True)):
                    return float(sign * cell.value)
        return float(cells[0].value) if alone and cells else None


def _fits(cell: Printed, place: str, tasks: Sequence[str]) -> bool:
    table = cell.a.table
    if len(tasks) == 1:
        return published().place(table.paper, cell.column).of(tasks[0]) == ""
    if place not in _suites():
        return cell.column == "STS12-16 mean"
    each = [published().place(table.paper, column).same for column in table.average_of]
    return cell.column in ("Avg", "Avg words") and all({*same} & {*tasks} for same in each)


def _is_of(line: PublishedRow, name: str) -> bool:
    base, overrides = typed_recipe(name)
    return name in line.row.recipes or (not overrides and base in line.row.recipes)


def open_points(names: Iterable[str]) -> dict[str, int]:
    """Recipes of rows with open points in their papers, and the number of points."""
    counts = {}
    for name in names:
        base, overrides = typed_recipe(name)
        spec = recipes().get(base)
        if spec is not None and (points := spec.open.keys() - overrides.keys()):
            counts[base] = len(points)
    return counts


def tasks_of(place: str) -> tuple[str, ...]:
    """Return the tasks of a suite, or those that commas join."""
    suites = _suites()
    return suites[place] if place in suites else tuple(place.split(","))


@functools.cache
def _suites() -> dict[str, tuple[str, ...]]:
    return {name: suite.tasks for name, suite in all_suites().items()}


@functools.cache
def all_claims() -> tuple[Claim, ...]:
    folder = resource_folder("zoo_bench_papers", "configs") / "claims"
    names = "ptbert", "burt", "promptbert", "cited", "later"
    return tuple(claim for name in names for claim in read_claims(folder / f"{name}.yaml"))


def read_claims(path: Path) -> list[Claim]:
    content = read_yaml(path)
    shared = {key: content[key] for key in ("paper", "released") if key in content}
    claims = []
    for entry in content["claims"]:
        claim = msgspec.convert({**shared, **entry}, Claim)
        cells = (cell for given in claim.published for cell in _printed(given, claim.paper))
        claims.append(replace(claim, published=tuple(cells)))
    return claims


def _printed(given: Mapping[str, Any], paper: str) -> list[Printed]:
    shared = {"paper": paper, **{key: value for key, value in given.items() if key in _CELL}}
    rows = [given[side] for side in ("a", "b") if side in given]
    sides = [{**shared, **(row if isinstance(row, dict) else {"row": row})} for row in rows]
    return [Printed(column, *(_line(side, column) for side in sides)) for column in given["columns"]]


def _line(wanted: Mapping[str, str], column: str) -> PublishedRow:
    """Published row of a cell; raises ValueError unless there is a single row."""
    stated = {key: wanted[key] for key in ("backbone", "setting", "metric") if key in wanted}
    rows = [
        line
        for line in published().lines
        if (line.table.paper, line.table.table, line.row.method) == (wanted["paper"], wanted["table"], wanted["row"])
        and all(getattr(line.row, key) == text for key, text in stated.items())
        and column in line.scores
    ]
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} published rows for {dict(wanted)}, column {column!r}.")
    return rows[0]
