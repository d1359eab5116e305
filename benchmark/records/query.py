"""Rows of a results folder by name, their pair scores and texts. Imports neither torch nor scipy."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.metrics.correlation import ranks
from benchmark.reasons import reason
from benchmark.records.conflicts import two_versions
from benchmark.records.folder import Records
from benchmark.records.items import pairs_of
from benchmark.records.names import brackets_of, distinctions, printed_names, short_name, superseded, with_recipe
from benchmark.records.record import Record, scores_of
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairsData
from benchmark.tasks.loaded import LoadedTask, load_tasks
from benchmark.tasks.relatedness import RegressorData
from zoo.errors import MissingError, UsageError, ZooError, did_you_mean
from zoo.selection import with_model

Split = Literal["all", "train", "dev", "test"]
Ranks = NDArray[np.float64]


def label(records: Sequence[Record]) -> str:
    method = records[0]["method"]
    return f"{with_recipe(short_name(method['name']), method)} [{records[0]['row_key'][:8]}]"


def split_label(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*) \[([^\[\]]+)\]", text)
    return (match[1], match[2]) if match else (text, "")


def rows_named(records: Sequence[Record], name: str, folder: Path, tasks: Collection[str] = ()) -> list[list[Record]]:
    """Return the records of each measured row with this method's name, printed name, glob (`simcse*`) or label.

    If some have a score of `tasks`, only those are returned. Raises UsageError without such a row.
    """
    if not records:
        raise UsageError(f"no records in {folder}; make some with `zoo-bench run`, or name a folder with --results.")
    called = printed_names(record["method"]["name"] for record in records)
    # As --methods took it.
    name = Path(name).stem if name.endswith((".yaml", ".yml")) else name
    wanted, part = split_label(name)
    # A path without a model is no name of a row either.
    with suppress(UsageError):
        name = with_model(name, called)
    rows: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        method = record["method"]["name"]
        short, labelled = short_name(method), functools.partial(with_recipe, method=record["method"])
        names = (method, called[method], labelled(called[method]))
        by_name = name in names or ("*" in name and any(fnmatch.fnmatchcase(spelling, name) for spelling in names))
        if by_name or (part in distinctions(record) and wanted in (*names, short, labelled(short))):
            rows.setdefault((method, record["row_key"]), []).append(record)
    if not rows:
        known = sorted(set(called.values()))
        raise UsageError(f"no record of {name!r} in {folder}.{did_you_mean(name, known)} There: {', '.join(known)}.")
    measured = {key: {r["task"]["name"] for r in row if r["status"] == "ok"} for key, row in rows.items()}
    scored = [key for key in rows if not measured[key].isdisjoint(tasks)] or [key for key in rows if measured[key]]
    return [rows[key] for key in scored or rows]


def row_named(records: Sequence[Record], name: str, folder: Path, tasks: Collection[str] = ()) -> list[Record]:
    """Return the row with this name; raises UsageError unless there is a single row."""
    rows = rows_named(records, name, folder, tasks)
    older = superseded(rows)
    rows = [row for number, row in enumerate(rows) if number not in older]
    if len(rows) > 1:
        parts = brackets_of({number: row[0] for number, row in enumerate(rows)})
        labels = ", ".join(repr(f"{split_label(label(row))[0]} [{parts[number]}]") for number, row in enumerate(rows))
        raise UsageError(f"{name!r} stands in {folder} under several conditions; name one of {labels}.")
    return rows[0]


def keeps_items(task: str) -> bool:
    """Return whether a measurement of a task keeps scores of its items, as those of mteb and of plugins may not."""
    return task in TASKS.names() and TASKS.is_builtin(task)


def of_task(records: Sequence[Record], task: str, store: Records) -> list[Record]:
    """Return every seed's record; raises MissingError or UsageError without pair scores."""
    name, seeds = label(records), {r["seed"] for r in records}
    entries = [r for r in records if r["task"]["name"] == task]
    missing = seeds - {r["seed"] for r in entries if r["status"] == "ok"}
    if missing:
        reasons = [r["reason"] for r in entries if r["seed"] in missing and r["reason"]] or [reason("not run")]
        raise MissingError(f"{name} has no score of {task} ({reasons[0]}); run it, or name other tasks.")
    # An n/a record of a cell without data has another key.
    entries = [r for r in entries if r["status"] == "ok"]
    if mixed := two_versions(entries):
        raise UsageError(f"{name} on {task}: {mixed}")
    if len(entries) > len(seeds):
        raise UsageError(f"{name} on {task}: records of different data or protocol; keep one kind in {store.folder}.")
    metric = scores_of(entries[0])["main_metric"]
    if not (entries[0].get("pairs") or entries[0].get("items")) and metric != "all_spearman":
        again = "run it again with --remeasure, or name other tasks" if keeps_items(task) else "name other tasks"
        if task in TASKS and not TASKS.is_builtin(task):
            again = "its score() returns no `items`; return them, or name other tasks"
        raise MissingError(f"{task}: {name} keeps no item scores of its score ({metric}); {again}.")
    return entries


def spearman(first: NDArray[Any], second: NDArray[Any]) -> float | None:
    """Return the correlation x100, None for a constant."""
    if len(first) < 2 or not np.ptp(first) or not np.ptp(second):
        return None
    return 100 * float(np.corrcoef(ranks(first), ranks(second))[0, 1])


@dataclass(frozen=True)
class RowScores:
    """A row's predicted (seeds, n) and gold (n,) scores."""

    name: str
    record: Record
    predicted: NDArray[np.float32]
    gold: NDArray[np.float32]

    @functools.cached_property
    def gold_places(self) -> Ranks:
        """Percentile ranks (n,), 0 to 100: the share of pairs below, ties counted half."""
        return _places(self.gold)

    @functools.cached_property
    def places(self) -> Ranks:
        """Percentile ranks (seeds, n) of the predictions."""
        return np.array([_places(of_seed) for of_seed in self.predicted])


def _places(values: NDArray[Any]) -> Ranks:
    return 100 * (ranks(values) - 0.5) / len(values)


def row_scores(name: str, records: Sequence[Record], task: str, store: Records) -> RowScores:
    """Raises MissingError, UsageError or CorruptError."""
    entries = of_task(records, task, store)
    scores = [store.pair_scores(record) for record in entries]
    if len({pairs_of(record)["gold_sha256"] for record in entries}) > 1:
        raise UsageError(f"{name} on {task}: its seeds were measured on different pairs.")
    return RowScores(name, entries[0], np.stack([predicted for predicted, _ in scores]), scores[0][1])


def scored_pairs(task: LoadedTask, split: Split) -> Pairs:
    """Read a task's pairs; raises MissingError or UsageError without pairs."""
    data = task.data
    if data is None:
        raise MissingError(task.reason or f"{task.name} has no data here.")
    if isinstance(data, RegressorData):
        parts = {"test": [data.test], "dev": [], "train": [data.train]}
    elif isinstance(data, PairsData):
        parts = {
            "test": list(data.subsets.values()),
            "dev": [] if data.dev is None else [data.dev],
            "train": [] if data.train is None else [data.train],
        }
    else:
        raise UsageError(f"{task.name} has no scored pairs.")
    chosen = [pairs for name in sorted(parts) if split in ("all", name) for pairs in parts[name]]
    if not chosen:
        raise UsageError(f"{task.name} has no {split} split; it has {', '.join(k for k, v in parts.items() if v)}.")
    return Pairs(
        [text for pairs in chosen for text in pairs.first],
        [text for pairs in chosen for text in pairs.second],
        np.concatenate([pairs.gold for pairs in chosen]),
    )


class PairTexts:
    """Texts of pairs; each task is read once from `data` (None: no texts are wanted)."""

    def __init__(self, data: DataSource | None) -> None:
        self.data = data
        self._read: dict[tuple[str, int | None, str], Pairs | ZooError] = {}

    def of(self, record: Record) -> Pairs:
        """Return texts; data with other gold scores is refused. Raises MissingError, UsageError, CorruptError."""
        key = (record["task"]["name"], record["limit"], pairs_of(record)["gold_sha256"])
        if key not in self._read:
            try:
                self._read[key] = self._load(*key)
            except ZooError as error:
                self._read[key] = error
        pairs = self._read[key]
        if isinstance(pairs, ZooError):
            raise pairs
        return pairs

    def _load(self, name: str, limit: int | None, gold_sha256: str) -> Pairs:
        if self.data is None:
            raise MissingError(f"{name}: its texts are left out.")
        (task,) = load_tasks([name], self.data, limit)
        pairs = scored_pairs(task, "test")
        if hashlib.sha256(pairs.gold.astype("float32").tobytes()).hexdigest() != gold_sha256:
            raise MissingError(
                f"{name}: the data here has other gold scores than the record; name its folder with --data."
            )
        return pairs
