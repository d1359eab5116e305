"""Authors' released checkpoints on the tasks of a paper's table, for a check of the printed numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from benchmark.records.folder import Records
from benchmark.report.published import AVERAGE, PublishedRow, published
from benchmark.report.rows import Row, Table
from benchmark.report.table import build_tables
from benchmark.tasks.suites import merged, suites_named
from zoo.errors import MissingError, UsageError, did_you_mean
from zoo.files import read_yaml
from zoo.paths import is_dir, resource_folder, user_path
from zoo_bench_papers.beside import Ours, Printed
from zoo_bench_papers.items import Item, PaperOptions, filled


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A released checkpoint; the head of papers/configs/released.yaml explains the fields."""

    name: str
    recipe: str = ""
    row: str = ""
    backbone: str
    method: str
    weights: str
    reads: str
    hub: str = ""
    where: str = ""

    @property
    def label(self) -> str:
        return f"{self.name} (released)"

    def printed(self, item: Item) -> list[PublishedRow]:
        """Printed rows of an item by this checkpoint, without the best and worst of several seeds."""
        return [
            line
            for line in item.lines()
            if (self.recipe in line.row.recipes or self.row == line.row.method)
            and line.row.backbone == self.backbone
            and line.row.subset in (None, "full")
            and not line.row.metric.endswith(("_max", "_min"))
        ]


def checkpoints() -> dict[str, Checkpoint]:
    content = read_yaml(resource_folder("zoo_bench_papers", "configs") / "released.yaml")
    return msgspec.convert({name: {"name": name, **entry} for name, entry in content.items()}, dict[str, Checkpoint])


def chosen_checkpoints(item: Item, given: Mapping[str, str]) -> tuple[dict[Checkpoint, str], list[Checkpoint]]:
    """An item's checkpoints with hub name or folder, and those of unknown place.

    `given` are the user's folders by name. Raises UsageError if no checkpoint made a row of the item, or for another
    name; MissingError for an absent folder, or if every place is unknown.
    """
    known = {name: checkpoint for name, checkpoint in checkpoints().items() if checkpoint.printed(item)}
    if not known:
        raise UsageError(f"{item.name}: none of the released checkpoints made one of its rows; leave out --released.")
    for name, folder in given.items():
        if name not in known:
            there = ", ".join(known)
            raise UsageError(f"--weights {name}: {item.name} has {there}.{did_you_mean(name, known)}")
        if not is_dir(user_path(folder)):
            raise MissingError(f"--weights {name}={folder}: there is no such folder.")
    places = {checkpoint: given.get(name) or checkpoint.hub for name, checkpoint in known.items()}
    without = [checkpoint for checkpoint, place in places.items() if not place]
    if len(without) == len(places):
        raise MissingError(f"{item.name}: {nowhere(without)}")
    return {checkpoint: place for checkpoint, place in places.items() if place}, without


def nowhere(without: Sequence[Checkpoint]) -> str:
    places = "; ".join(f"{released.name}: {released.where}, --weights {released.name}=FOLDER" for released in without)
    return f"not on the hub, so give the folder ({places})."


def runs(item: Item, chosen: PaperOptions, places: Mapping[Checkpoint, str]) -> list[dict[str, Any]]:
    suites: dict[str, str | None] = {}
    for step in item.steps:
        if step.command == "run":
            suite = filled(step.options["suite"], {})
            suites.setdefault(",".join(suite) if isinstance(suite, list) else suite, step.options.get("tasks"))
    options: dict[str, Any] = {
        "methods": ",".join(f"{of.method}:{of.weights}={json.dumps(place)}" for of, place in places.items()),
        "label": ",".join(checkpoint.label for checkpoint in places),
        "no-controls": True,
    }
    given = {"precision": "fp32", **chosen.values, "results": str(chosen.results), "allow-missing": True}
    names = ("data", "device", "precision", "limit", "results", "allow-pickle", "allow-missing")
    options |= {name: value for name in names if (value := given.get(name))}
    return [{"suite": name, **({"tasks": tasks} if tasks else {}), **options} for name, tasks in suites.items()]


def beside_released(
    item: Item, chosen: PaperOptions, places: Mapping[Checkpoint, str], suites: Sequence[str]
) -> list[Printed]:
    store = Records(chosen.results, set_aside=False)
    trial = "limit" in chosen.values
    every_table = build_tables(store.all(), [merged(suites_named(name)) for name in suites], store)
    tables = [table for table in every_table if table.partial == trial]
    rows = []
    for checkpoint, place in places.items():
        for line in checkpoint.printed(item):
            ours = [
                part
                for table in tables
                for row in table.rows
                if row.identity == checkpoint.label
                for part in _ours(line, table, row, place)
            ]
            values = {column: line.text(column) for column in line.scores}
            rows.append(
                Printed(line.row.method, line.row.backbone, values, (f"reads {checkpoint.reads}",), tuple(ours))
            )
    return rows


def _ours(line: PublishedRow, table: Table, row: Row, place: str) -> list[Ours]:
    values, differences, notes = {}, {}, dict.fromkeys(["a trial on cut data (--limit)"] if table.partial else [])
    for task, (column, reasons) in published().columns(line, table.suite, table.aggregation).items():
        value = row.average if task == AVERAGE else row.values[task]
        values[column] = value.text()
        notes |= dict.fromkeys(reasons)
        if value.mean is not None:
            differences[column] = f"{value.mean - line.scores[column]:+.{max(line.decimals, 2)}f}"
    if not values:
        return []
    about = f"{place}, {row.about['precision']}"
    return [
        Ours(row.name, about, values, "; ".join(notes)),
        Ours("difference", "", differences, f"theirs: {line.seeds()}"),
    ]
