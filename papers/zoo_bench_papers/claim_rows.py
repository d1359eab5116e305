"""Rows of a results folder for claims: by recipe, under common conditions."""

from __future__ import annotations

import itertools
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmark.records.conflicts import two_versions
from benchmark.records.folder import Records
from benchmark.records.names import recipe_of, typed_recipe
from benchmark.records.record import Record
from benchmark.report.conditions import about, recipe_of_method
from benchmark.report.rows import About
from benchmark.stats.draws import ByTask, finished, is_alone
from zoo.errors import CorruptError, MissingError
from zoo.files import read_signed

SEEDS = 3
NO_ITEMS = "no item scores, so no interval"


class Condition(NamedTuple):
    """Common conditions of rows; without a backbone, sentences or a training a row fits any."""

    backbone: str
    precision: str
    corpus: str = ""
    sentences: int = 0
    # The budget of the settings, "" for the paper's. None: nothing is trained.
    tuned: str | None = None

    def text(self) -> str:
        """Text such as "zoo-small, bf16, 20,000 sentences of wiki, the papers' settings"."""
        learned = f"{self.sentences:,} sentences of {self.corpus}" if self.sentences else ""
        settings = f"tuned ({self.tuned})" if self.tuned else "the papers' settings"
        return ", ".join(filter(None, [self.backbone or "no backbone", self.precision, learned, settings]))

    def fits(self, other: Condition) -> bool:
        """True if each part is equal, or lacks here."""
        lacking = ("", None, "", 0, None)
        return all(value in (wanted, none) for value, wanted, none in zip(self, other, lacking, strict=True))

    def options(self, labelled: Mapping[str, object]) -> dict[str, Any]:
        """Return the options of `zoo-bench run` that give rows of this condition; `labelled`: those of its pairs."""
        options: dict[str, Any] = {"precision": self.precision}
        options |= {"backbone": self.backbone} if self.backbone else {}
        options |= {"corpus": self.corpus, "train_sentences": self.sentences} if self.sentences else {}
        return {**options, **labelled}

    def command(
        self, results: Path, labelled: Mapping[str, object], suites: bool, on: Sequence[str], rows: Sequence[str]
    ) -> str:
        parts: list[Any] = ["zoo-bench", "run"]
        first = {"results": results, "precision": self.precision, "seeds": SEEDS}
        for name, value in (first | self.options(labelled)).items():
            parts += [f"--{name.replace('_', '-')}", value]
        parts += ["--suite" if suites else "--tasks", ",".join(on), "--methods", ",".join(rows)]
        return shlex.join(map(str, parts))


@dataclass(frozen=True)
class MeasuredRow:
    at: Condition
    about: About
    records: Sequence[Record]

    @property
    def version(self) -> int:
        """The method's version: a row that was measured again has the newest."""
        return int(self.records[0]["method"]["version"])

    @property
    def trained(self) -> bool:
        return self.at.tuned is not None

    @property
    def prompted(self) -> bool:
        return self.trained and "template" in self.records[0]["method"]["recipe"]


def kept_tables(results: Path) -> dict[str, list[Mapping[str, Any]]]:
    """Rows of kept analyses by table names; raises CorruptError for any other file."""
    tables: dict[str, list[Mapping[str, Any]]] = {}
    for path in sorted((results / "analyses").rglob("*.json")):
        try:
            tables_of_file = read_signed(path).get("tables", {})
        except CorruptError as error:
            raise CorruptError(f"{error} Make it again with `zoo-bench analyze`, or delete it.") from error
        for stem, table in tables_of_file.items():
            tables.setdefault(stem, []).extend(table.get("rows", ()))
    return tables


class Folder:
    def __init__(self, results: Path, store: Records, read: Sequence[Record], at: Condition | None = None) -> None:
        self.store, self.tables = store, kept_tables(results)
        by_row: dict[tuple[str, str], list[Record]] = defaultdict(list)
        # Why rows failed or are n/a, by identity and task.
        self.failed: dict[tuple[str, str], str] = {}
        for record in read:
            if record["status"] != "ok" and record["reason"]:
                identity = _identity(*recipe_of(record["method"]))
                how = "failed" if record["status"] == "failed" else "is n/a"
                self.failed[identity, record["task"]["name"]] = f"{how}: {record['reason'].rstrip('.')}"
            if record["status"] == "ok" and record["limit"] is None:
                by_row[record["method"]["name"], record["row_key"]].append(record)
        if not by_row and at is None:
            raise MissingError(f"no records in {results}; make some with `zoo-bench run`, or name a --results folder.")
        named = Counter(_labelled(record["command"]) for records in by_row.values() for record in records)
        first = sorted(named, key=lambda options: (bool(options), named[options]))[-1:]
        self.labelled = dict(first[0]) if first else {}
        self.rows: dict[str, list[MeasuredRow]] = defaultdict(list)
        for records in by_row.values():
            method = records[0]["method"]
            of = about(records, len({r["seed"] for r in records}), recipe_of_method(method))
            recipe, overrides = recipe_of(method)
            base = recipe.removesuffix("-tuned") if of["tuned"] else recipe
            text = (of["corpus"], of["corpus_sentences"]) if of["corpus_sentences"] else ("", 0)
            tuned = of["tuned"] if any((r["training"] or {}).get("steps") for r in records) else None
            self.rows[_identity(base, overrides)].append(
                MeasuredRow(Condition(of["backbone"], of["precision"], *text, tuned), of, records)
            )
        conditions = dict.fromkeys(row.at for rows in self.rows.values() for row in rows)
        with_text = {condition[:2] for condition in conditions if condition.sentences and condition.tuned is not None}
        # Rows that fit every condition make one of their own only where there is no other.
        kept = [
            condition
            for condition in conditions
            if condition.backbone and (condition.sentences or condition[:2] not in with_text)
        ]
        trained = [condition for condition in kept if condition.tuned is not None]
        self.conditions = ([] if at is None else [at]) or trained or kept[:1] or list(conditions)[:1]
        self.ancestry = {row.at.backbone: row.about["ancestry"] for rows in self.rows.values() for row in rows}

    def row(
        self, name: str, tasks: Sequence[str], at: Condition, pairs: bool = True
    ) -> tuple[MeasuredRow, ByTask] | str:
        """The row of a name under a condition, with its records on tasks, or why there is none."""
        fitting = []
        identity = _identity(*typed_recipe(name))
        for row in self.rows.get(identity, []):
            of_tasks = finished(row.records, tasks)
            if len(of_tasks) == len(tasks) and row.at.fits(at):
                fitting.append((row, {task: of_tasks[task] for task in tasks}))
        newest = max((row.version for row, _ in fitting), default=0)
        fitting = [(row, of_tasks) for row, of_tasks in fitting if row.version == newest]
        why = next((self.failed[identity, task] for task in tasks if (identity, task) in self.failed), None)
        if not fitting and why:
            return f"{name} {why}"
        if len(fitting) != 1:
            return f"{'several rows' if fitting else 'no row'} {name}"
        ((row, of_row),) = fitting
        every = [record for of in of_row.values() for record in of]
        if set(Counter(r["seed"] for r in every).values()) != {len(tasks)}:
            return f"{name} lacks seeds on a task, or has two records of one"
        if mixed := two_versions(every):
            return f"{name}: {mixed}"
        if pairs and not all(self.store.has_items(record) for record in every):
            return NO_ITEMS
        return f"one seed of {name}" if is_alone(of_row) else (row, of_row)

    def share(self, names: Iterable[str], at: Condition) -> float | None:
        rows = [row for name in names for row in self.rows.get(_identity(*typed_recipe(name)), [])]
        return least_share([row for row in rows if row.at.fits(at)])

    def records(self, at: Condition, tasks: Sequence[str], name: str) -> list[ByTask]:
        """Records on tasks of the row of a name; of all rows without one."""
        names = [name] if name else [rows[0].records[0]["method"]["name"] for rows in self.rows.values()]
        rows = [self.row(name, tasks, at, pairs=False) for name in names]
        return [row[1] for row in rows if not isinstance(row, str)]


def least_share(rows: Iterable[MeasuredRow]) -> float | None:
    """Least share of its paper's updates; None if no paper states them."""
    return min((share for row in rows if (share := _share(row)) is not None), default=None)


def _share(row: MeasuredRow) -> float | None:
    """Updates over the paper's, by the recipe where records do not state them."""
    if (share := row.about["updates_share"]) is not None:
        return share
    steps = [steps for record in row.records if (steps := (record["training"] or {}).get("steps"))]
    spec = recipe_of_method(row.records[0]["method"])
    return sum(steps) / len(steps) / spec.updates if steps and spec is not None and spec.updates else None


def _labelled(command: Sequence[str]) -> tuple[tuple[str, object], ...]:
    """A command's options of labelled pairs."""
    known = {"--pairs": "pairs", "--train-pairs": "train_pairs"}
    stated = [(known[part], value) for part, value in itertools.pairwise(command) if part in known]
    options = tuple((name, int(value) if name == "train_pairs" else value) for name, value in stated)
    return options if "pairs" in dict(options) else ()


def _identity(recipe: str, overrides: Mapping[str, object]) -> str:
    return repr((recipe, sorted(overrides.items())))
