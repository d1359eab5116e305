"""Pairs that stand in several tasks, and development pairs that are test pairs: found in the data, kept in a table.

`python -m benchmark.tasks.overlap DATA` reads the data and writes `overlap.json` here. A test makes it again.
Records keep no texts, so tables and comparisons read from it which rows of two tasks are the same pair.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.data.corpora import normalised
from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.metrics.bootstrap import Pool
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairsData, Task
from zoo.errors import UsageError
from zoo.files import read_json, sha256_json, write_text

TABLE = Path(__file__).with_name("overlap.json")
_YEARS = ("STS12", "STS13", "STS14", "STS15", "STS16")
POOLS: dict[str, tuple[str, ...]] = {  # tasks that a suite may have side by side
    "sts": (*_YEARS, "STS-B"),
    "sts-raw": (*(f"{year}-raw" for year in _YEARS), "STS-B-raw"),
    "words": (
        *("SimLex-999", "WS-353-sim", "WS-353-rel", "MEN", "SCWS", "WS-353", "RG-65", "MC-30"),
        *("RW", "MTurk-287", "MTurk-771", "SimVerb-3500"),
    ),
}
DEV = {"STS-B": POOLS["sts"], "STS-B-raw": POOLS["sts-raw"]}  # development sets, and the tests looked through

Key = frozenset[str]


def keys(pairs: Pairs) -> list[Key]:
    """Return what two rows have in common when they are the same pair: both texts normalised, in either order."""
    return [frozenset((normalised(a), normalised(b))) for a, b in zip(pairs.first, pairs.second, strict=True)]


def gold_sha256(gold: NDArray[Any]) -> str:
    """Return the digest of gold scores that records have."""
    return hashlib.sha256(gold.astype("float32").tobytes()).hexdigest()


def tests_of(tasks: Sequence[str], data: DataSource) -> dict[str, PairsData]:
    """Return the data of tasks over pairs; raises MissingError or CorruptError, UsageError for another kind of task."""
    found = {}
    for name in tasks:
        task: Task = TASKS.get(name)
        loaded = task.load(data)
        if not isinstance(loaded, PairsData):
            raise UsageError(f"{name} has no scored pairs.")
        found[name] = loaded
    return found


def in_tests(dev: Pairs, tests: Mapping[str, PairsData]) -> dict[str, list[int]]:
    """Return the rows of `dev` that are test pairs, by task."""
    mine = keys(dev)
    rows = {}
    for name, data in tests.items():
        there = {key for pairs in data.subsets.values() for key in keys(pairs)}
        rows[name] = [row for row, key in enumerate(mine) if key in there]
    return rows


def _shared(tests: Mapping[str, PairsData]) -> dict[str, Any]:
    """Return, for each task, its rows that stand elsewhere too (or twice), and the number of the pair of each."""
    places: dict[Key, list[tuple[str, int]]] = defaultdict(list)
    golds = {}
    for name, data in tests.items():
        for row, key in enumerate(key for pairs in data.subsets.values() for key in keys(pairs)):
            places[key].append((name, row))
        golds[name] = np.concatenate([pairs.gold for pairs in data.subsets.values()])
    several = [found for found in places.values() if len(found) > 1]
    tasks: dict[str, Any] = {
        name: {"gold_sha256": gold_sha256(gold), "pairs": len(gold), "rows": [], "ids": []}
        for name, gold in golds.items()
    }
    for number, found in enumerate(several):
        for name, row in found:
            tasks[name]["rows"].append(row)
            tasks[name]["ids"].append(number)
    return {"shared": len(several), "tasks": tasks}


def build(data: DataSource) -> dict[str, Any]:
    """Return the table of everything that `POOLS` and `DEV` name."""
    tests = {pool: tests_of(tasks, data) for pool, tasks in POOLS.items()}
    dev = {}
    for name, tasks in DEV.items():
        loaded = next(found for found in tests.values() if name in found)
        pairs = loaded[name].dev
        assert pairs is not None
        rows = in_tests(pairs, {task: loaded[task] for task in tasks})
        dev[name] = {
            "sha256": loaded[name].located.sha256,
            "pairs": len(pairs),
            "in_test": len(set().union(*rows.values())),
            "by_task": {task: len(found) for task, found in rows.items()},
        }
    return {"pools": {pool: _shared(found) for pool, found in tests.items()}, "dev": dev}


@dataclass(frozen=True)
class _Pooled:
    pool: Pool
    gold_sha256: dict[str, str]
    places: dict[str, NDArray[np.intp]]


@functools.cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = read_json(TABLE)
    return found


@functools.cache
def _pooled(name: str) -> _Pooled:
    table = _table()["pools"][name]
    places, size = {}, table["shared"]
    for task, about in table["tasks"].items():
        mine = np.full(about["pairs"], -1, np.intp)
        mine[about["rows"]] = about["ids"]
        alone = np.flatnonzero(mine < 0)
        mine[alone] = size + np.arange(len(alone))
        size += len(alone)
        places[task] = mine
    golds = {task: about["gold_sha256"] for task, about in table["tasks"].items()}
    return _Pooled(Pool(size, sha256_json(table)), golds, places)


def pool_of(task: str, gold: str) -> tuple[Pool, NDArray[np.intp]] | None:
    """Return the pool that a task's pairs belong to and their places (n,) in it; None for other tasks or gold scores.

    `gold` is the digest that the record has: a trial's cut data has another one, and its pairs are drawn by themselves.
    """
    for name, tasks in POOLS.items():
        if task in tasks:
            pooled = _pooled(name)
            return (pooled.pool, pooled.places[task]) if pooled.gold_sha256[task] == gold else None
    return None


def shared_with(task: str, others: Sequence[str]) -> int:
    """Return how many pairs of a task stand in any of the other tasks too."""
    for name, tasks in POOLS.items():
        if task in tasks:
            places = _pooled(name).places
            there = [places[other] for other in others if other in tasks and other != task]
            return int(np.isin(places[task], np.concatenate(there)).sum()) if there else 0
    return 0


def dev_overlap(task: str) -> dict[str, Any] | None:
    """Return `pairs` and `in_test` (how many of them are test pairs) of a development set; None: not measured."""
    found: dict[str, Any] | None = _table()["dev"].get(task)
    return found


def main(arguments: Sequence[str]) -> int:
    """Write the table anew from the data folder that is named."""
    if len(arguments) != 1:
        print("usage: python -m benchmark.tasks.overlap DATA", file=sys.stderr)
        return 2
    write_text(TABLE, json.dumps(build(DataSource.from_options(arguments[0], hub=False)), separators=(",", ":")) + "\n")
    print(f"written: {TABLE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
