"""Published values beside ours: compared only under the same protocol and backbone, else with a reason."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from benchmark.records.names import typed_recipe
from benchmark.report.rows import Aggregation, Row, Table, Value
from benchmark.tasks.suites import Suite
from zoo.files import read_yaml
from zoo.paths import resource_folder

FILE = "published.yaml"
AVERAGE = "Avg"

_SLIP = "slip, see below"  # the words of the Markdown page, which lists the slips below
_AVERAGES = (AVERAGE, "Avg words")
_OWNERS = ("google-bert/", "FacebookAI/", "albert/")  # the hub's owners of models that papers name without an owner
_METRICS = {"spearman_x100": "", "accuracy": "", "f1": "F1, ours is accuracy"}
_EXTREMES = {"_max": "best", "_min": "worst"}  # of several seeds


class PrintedTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A paper's table and its protocol, as far as stated."""

    paper: str
    table: str
    what: str
    aggregation: str
    split: str
    pooling: str
    seeds: str
    training: str
    average_of: tuple[str, ...] = ()

    def source(self) -> str:
        """Return "PT-BERT, table 3"."""
        named = self.table[:1].isdigit()
        section = self.table.removeprefix("sec")
        place = f"table {self.table}" if named else f"section {section}" if section != self.table else self.table
        return f"{self.paper}, {place}"

    def protocol(self) -> str:
        return (
            f"aggregation {self.aggregation}; {self.split} split; pooling: {self.pooling}; seeds: {self.seeds};"
            f" trained on: {self.training}"
        )


class PrintedRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A printed row; `scores` and `std` are by printed column."""

    method: str
    backbone: str
    setting: str
    metric: str
    recipes: tuple[str, ...] = ()
    reported_from: str | None = None
    seeds: int | None = None
    aggregation: str | None = None
    subset: str | None = None
    ablation: str | None = None
    max_seq_length: int | None = None
    not_in_paper: bool = False
    differs: str | None = None
    cited: str | None = None
    ceiling: bool = False
    slip: str | None = None
    observation: str | None = None
    unlike: dict[str, str] = {}

    def reason_unlike(self, base: str, overrides: Mapping[str, object]) -> str | None:
        """Return the difference if a recipe with its overrides is in `unlike`."""
        for name, why in self.unlike.items():
            if typed_recipe(name) == (base, overrides):
                return why
        return None


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Our tasks for a printed column: the task of the same protocol, and others with their difference."""

    same: tuple[str, ...] = ()
    aggregated: bool = False
    other: dict[str, str] = {}

    def of(self, task: str) -> str | None:
        """Return "" for the same protocol, the reason for another protocol, None for another data set."""
        return "" if task in self.same else self.other.get(task)


@dataclass(frozen=True, eq=False)
class PublishedRow:
    table: PrintedTable
    row: PrintedRow
    scores: Mapping[str, float]
    std: Mapping[str, float]
    decimals: int

    def source(self) -> str:
        """Return the table, a copied number's original source, and a note on a slip in print."""
        copied = f", from {self.row.reported_from}" if self.row.reported_from else ""
        return self.table.source() + copied + (f" ({_SLIP})" if self.row.slip else "")

    def seeds(self) -> str:
        if self.row.seeds is None:
            return self.table.seeds
        kind = next((what for suffix, what in _EXTREMES.items() if self.row.metric.endswith(suffix)), "mean")
        return f"{kind} of {self.row.seeds} seeds"

    def text(self, column: str) -> str:
        value = f"{self.scores[column]:.{self.decimals}f}"
        return f"{value} ± {self.std[column]:.{self.decimals}f}" if column in self.std else value


Reasons = tuple[str, ...]
"""Reasons why values are not comparable; empty if they are."""


@dataclass(frozen=True)
class Published:
    papers: Mapping[str, str]
    places: Mapping[str, Place]
    lines: tuple[PublishedRow, ...]
    # What `columns` has returned: a table asks five times for each of 1,500 rows.
    known: dict[Any, dict[str, tuple[str, Reasons]]] = field(default_factory=dict, repr=False, compare=False)

    def place(self, paper: str, column: str) -> Place:
        return self.places.get(f"{paper} {column}") or self.places.get(column) or Place()

    def columns(
        self, line: PublishedRow, suite: Suite, aggregation: Aggregation = "all"
    ) -> dict[str, tuple[str, Reasons]]:
        """Return {our task or AVERAGE: (printed column, reasons)}; `aggregation` is that of our scores."""
        place = line, tuple(suite.tasks), aggregation
        if place not in self.known:
            self.known[place] = self._columns(line, suite, aggregation)
        return self.known[place]

    def _columns(self, line: PublishedRow, suite: Suite, aggregation: Aggregation) -> dict[str, tuple[str, Reasons]]:
        columns: dict[str, tuple[str, Reasons]] = {}
        for task in suite.tasks:
            for column in line.scores:
                place = self.place(line.table.paper, column)
                reason = place.of(task)
                if reason is not None and (task not in columns or not reason):
                    columns[task] = column, _reasons(reason, _aggregation(line, place.aggregated, aggregation))
        average = next((column for column in _AVERAGES if column in line.scores), None)
        places = [self.place(line.table.paper, column) for column in line.table.average_of]
        if average is not None and len(places) == len(suite.tasks):
            why = [next((r for p in places if (r := p.of(task)) is not None), None) for task in suite.tasks]
            if None not in why:
                other = _aggregation(line, any(place.aggregated for place in places), aggregation)
                columns[AVERAGE] = average, _reasons(*why, other)
        return columns


def _reasons(*reasons: str | None) -> Reasons:
    return tuple(dict.fromkeys(reason for reason in reasons if reason))


def _aggregation(line: PublishedRow, aggregated: bool, ours: Aggregation) -> str:
    theirs = line.row.aggregation or line.table.aggregation
    return f"aggregation {theirs}" if aggregated and theirs != ours else ""


@functools.cache
def published() -> Published:
    """Raises msgspec.ValidationError for an unknown key or a value of another type."""
    content = read_yaml(resource_folder("benchmark", "leaderboards") / FILE)
    lines = []
    for entry in content["tables"]:
        rows = entry.pop("rows")
        table = msgspec.convert(entry, PrintedTable)
        decimals: dict[str, int] = {}  # by metric
        values = [(row.pop("scores"), row.pop("std", {})) for row in rows]
        for row, (scores, _) in zip(rows, values, strict=True):
            most = max(len(str(value).partition(".")[2]) for value in scores.values())
            decimals[row["metric"]] = max(decimals.get(row["metric"], 0), most)
        for row, (scores, std) in zip(rows, values, strict=True):
            first, second = (msgspec.convert(numbers, dict[str, float]) for numbers in (scores, std))
            printed = msgspec.convert(row, PrintedRow)
            lines.append(PublishedRow(table, printed, first, second, decimals[row["metric"]]))
    places = msgspec.convert(content["tasks"], dict[str, Place])
    return Published(msgspec.convert(content["papers"], dict[str, str]), places, tuple(lines))


@dataclass(frozen=True)
class BesideCell:
    task: str  # or AVERAGE
    column: str  # as printed
    ours: Value
    reasons: Reasons


@dataclass(frozen=True)
class BesidePublished:
    ours: Row
    line: PublishedRow
    cells: tuple[BesideCell, ...]

    @property
    def compared(self) -> list[str]:
        """The tasks with comparable values."""
        return [cell.task for cell in self.cells if not cell.reasons]

    def verdict(self) -> str:
        """Return "compared" or "not comparable: ..." with the reasons for all tasks, then for some."""
        shared = [reason for reason in self.cells[0].reasons if all(reason in cell.reasons for cell in self.cells)]
        rest: dict[str, list[str]] = {}
        for cell in self.cells:
            text = "; ".join(reason for reason in cell.reasons if reason not in shared)
            rest.setdefault(text if text or shared else f"compared (theirs: {self.line.seeds()})", []).append(cell.task)
        if len(rest) == 1:
            parts = [*shared, *filter(None, rest)]
        else:
            parts = [*shared, *(f"{', '.join(tasks)}: {text}" for text, tasks in rest.items() if text)]
        return "; ".join(parts) if self.compared else f"not comparable: {'; '.join(parts)}"


def beside_published(table: Table) -> list[BesidePublished]:
    """Return our rows beside the published rows; none for a trial."""
    return [] if table.partial else beside(table, published().lines)


def beside(table: Table, lines: Sequence[PublishedRow]) -> list[BesidePublished]:
    """Return our rows, trials included, beside the published rows in `lines`."""
    book, suite = published(), table.suite
    in_suite = []
    for line in lines:
        if columns := book.columns(line, suite, table.aggregation):
            recipes = [typed_recipe(name) for name in line.row.recipes]
            in_suite.append((line, recipes, columns))
    return [compared for row in table.rows for compared in _compare_row(suite, row, in_suite)]


def _compare_row(
    suite: Suite, row: Row, lines: Sequence[tuple[PublishedRow, list[tuple[str, Mapping[str, Any]]], Mapping[str, Any]]]
) -> Iterator[BesidePublished]:
    base, overrides = row.made_of
    for line, recipes, columns in lines:
        wanted = [given for name, given in recipes if name == base]
        unlike = line.row.reason_unlike(base, overrides)
        if not wanted and unlike is None:
            continue
        shared = _reasons(unlike, *_row_reasons(line, row, overrides, wanted or [overrides]))
        order = [*suite.tasks, AVERAGE]
        cells = []
        for task, (column, reasons) in sorted(columns.items(), key=lambda item: order.index(item[0])):
            ours, other = _counterpart(line, row.average if task == AVERAGE else row.values[task])
            missing = "ours is n/a" if ours.mean is None else ""
            cells.append(BesideCell(task, column, ours, _reasons(*shared, *reasons, missing or other)))
        yield BesidePublished(row, line, tuple(cells))


def _counterpart(line: PublishedRow, ours: Value) -> tuple[Value, str]:
    """Return our value for a printed value, and the reason if the two are not comparable.

    A printed best or worst of several seeds needs ours of as many: the best of fewer is expected lower.
    """
    for suffix, what in _EXTREMES.items():
        if line.row.metric.endswith(suffix):
            extreme = ours.max if suffix == "_max" else ours.min
            if extreme is None:
                return ours, f"the {what} of its seeds"
            reason = (
                "" if ours.seeds == line.row.seeds else f"the {what} of {line.row.seeds} seeds, ours of {ours.seeds}"
            )
            return Value(extreme, None, ours.seeds), reason
    return ours, ""


def _row_reasons(
    line: PublishedRow, row: Row, ours: Mapping[str, object], wanted: Sequence[Mapping[str, object]]
) -> Reasons:
    printed = line.row
    suffix = next((s for s in ("_mean", *_EXTREMES) if printed.metric.endswith(s)), "")
    settings = [f"{side}: {_settings(recipe)}" for side, recipe in (("ours", ours), ("theirs", wanted[0])) if recipe]
    return _reasons(
        _METRICS.get(printed.metric.removesuffix(suffix), printed.metric),
        f"{printed.subset} subset" if printed.subset not in (None, "full") else "",
        printed.differs or _backbone_reason(printed.backbone, str(row.about["backbone"])),
        "" if ours in wanted else f"other settings ({', '.join(settings)})",
    )


def _settings(overrides: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in overrides.items())


def _backbone_reason(theirs: str, ours: str) -> str:
    if "not stated" in theirs:
        return f"backbone {theirs}"
    return "" if plain_backbone(theirs) == plain_backbone(ours) else f"other backbone ({theirs})"


def plain_backbone(name: str) -> str:
    """Drop a hub id's owner, as papers do: google-bert/bert-base-uncased -> bert-base-uncased."""
    for owner in _OWNERS:
        name = name.removeprefix(owner)
    return name


def cited(suite: Suite) -> list[tuple[PublishedRow, dict[str, tuple[str, Reasons]]]]:
    """Return the published rows without a recipe but with columns in `suite`."""
    return [(line, columns) for line, columns in _in_suite(suite) if line.row.cited]


def remarks(suite: Suite, kind: Literal["slip", "observation"]) -> list[tuple[PublishedRow, str]]:
    """Return the published rows with a slip in print, or with an observation, and its text."""
    return [(line, text) for line, _ in _in_suite(suite) if (text := getattr(line.row, kind))]


def _in_suite(suite: Suite) -> list[tuple[PublishedRow, dict[str, tuple[str, Reasons]]]]:
    book = published()
    return [(line, columns) for line in book.lines if (columns := book.columns(line, suite))]


Entry = dict[str, object]
"""A printed row as plain values."""


def _about(line: PublishedRow) -> Entry:
    return {
        "source": f"{line.source()}, {line.row.method} ({line.row.backbone})".replace(_SLIP, "slip in print"),
        "paper": line.table.paper,
        "table": line.table.table,
        "method": line.row.method,
        "backbone": line.row.backbone,
        "setting": line.row.setting,
        "metric": line.row.metric,
        "subset": line.row.subset,
        "reported_from": line.row.reported_from,
        "aggregation": line.row.aggregation or line.table.aggregation,
        "split": line.table.split,
        "pooling": line.table.pooling,
        "seeds": line.seeds(),
        "slip": line.row.slip,
        "observation": line.row.observation,
    }


def entry(comparison: BesidePublished) -> Entry:
    line = comparison.line
    return {
        **_about(line),
        "scores": {cell.task: line.scores[cell.column] for cell in comparison.cells},
        "printed": {cell.task: line.text(cell.column) for cell in comparison.cells},
        "std": {cell.task: line.std[cell.column] for cell in comparison.cells if cell.column in line.std},
        "differences": {
            cell.task: round(cell.ours.mean - line.scores[cell.column], 4)
            for cell in comparison.cells
            if not cell.reasons and cell.ours.mean is not None
        },
        "verdict": comparison.verdict(),
    }


def cited_entries(suite: Suite) -> list[Entry]:
    return [
        {
            **_about(line),
            "cited": line.row.cited,
            "ceiling": line.row.ceiling,
            "scores": {k: line.scores[column] for k, (column, _) in columns.items()},
            "printed": {k: line.text(column) for k, (column, _) in columns.items()},
            "reasons": list(dict.fromkeys(reason for _, several in columns.values() for reason in several)),
        }
        for line, columns in cited(suite)
    ]
