"""Makes `overlap.json` from the data: `python -m benchmark.tasks.find_overlap DATA` writes the file.

It names pairs that occur in several tasks, and development pairs that are test pairs. A test makes the table again.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairsData
from benchmark.tasks.overlap import DEV, POOLS, TABLE, Key, gold_sha256, in_each_test, keys
from zoo.errors import UsageError
from zoo.files import write_text


def tests_of(tasks: Sequence[str], data: DataSource) -> dict[str, PairsData]:
    """Return the data of tasks on pairs; raises MissingError or CorruptError, UsageError for another kind of task."""
    found = {}
    for name in tasks:
        loaded = TASKS.get(name).load(data)
        if not isinstance(loaded, PairsData):
            raise UsageError(f"{name} has no scored pairs.")
        found[name] = loaded
    return found


def _shared(tests: Mapping[str, PairsData]) -> dict[str, Any]:
    """Return, for each task, the rows whose pair occurs in another row or task too, and the number of that pair."""
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


def known_overlap(data: DataSource) -> dict[str, object]:
    """Return the table for all tasks in `POOLS` and `DEV`."""
    tests = {pool: tests_of(tasks, data) for pool, tasks in POOLS.items()}
    dev = {}
    for name, tasks in DEV.items():
        loaded = next(found for found in tests.values() if name in found)
        pairs = loaded[name].dev
        assert pairs is not None
        rows = in_each_test(pairs, {task: loaded[task] for task in tasks})
        dev[name] = {
            "sha256": loaded[name].located.sha256,
            "pairs": len(pairs),
            "by_task": {task: len(found) for task, found in rows.items()},
            "rows": sorted(set().union(*rows.values())),
        }
    return {"pools": {pool: _shared(found) for pool, found in tests.items()}, "dev": dev}


def main(arguments: Sequence[str]) -> int:
    """Write the table again from the data folder in `arguments`."""
    if len(arguments) != 1:
        print("usage: python -m benchmark.tasks.find_overlap DATA", file=sys.stderr)
        return 2
    write_text(TABLE, json.dumps({"pools": {}, "dev": {}}))  # loading the tasks reads this file
    write_text(
        TABLE, json.dumps(known_overlap(DataSource.from_options(arguments[0], hub=False)), separators=(",", ":")) + "\n"
    )
    print(f"written: {TABLE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
