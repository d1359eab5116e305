"""Makes `overlap.json` from the data: `python -m tools.find_overlap DATA` writes the file.

It names pairs that occur in several tasks, texts that occur in several pairs, and development pairs that are test
pairs, and counts the tested rows of every task that are in its other parts or in training pairs. A test makes the table
again.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmark.data.catalog import catalog
from benchmark.data.corpora import load_pairs, normalised
from benchmark.data.readers.pairs import Pairs
from benchmark.data.readers.transfer import Labelled
from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairsData, TaskData
from benchmark.tasks.finetune import LabelledFinetuneData, ScoredFinetuneData
from benchmark.tasks.overlap import DEV, DISJOINT, POOLS, TABLE, Key, gold_sha256, in_each_test, keys, numbered
from benchmark.tasks.phrases import ChoiceData, RetrievalData
from benchmark.tasks.relatedness import RegressorData
from benchmark.tasks.transfer import TransferData
from zoo.files import write_text

TRAINED = ("nli", "ppdb2-human", "STSBenchmark")
"""The training pairs of `--pairs` that are searched; the text of a run is searched in each run."""

# CR and MPQA have a few lines without letters and digits.
_EMPTY = {frozenset({""})}


def _items(data: TaskData) -> dict[str, set[Key]]:
    """Return the distinct keys of a task's parts; those of the scored part are "test"."""
    parts: dict[str, Sequence[Pairs | Labelled | None]]
    match data:
        case PairsData():
            parts = {"test": [*data.subsets.values()], "dev": [data.dev], "train": [data.train]}
        case RegressorData():
            parts = {name: [pairs] for name, pairs in zip(("train", "dev", "test"), data.splits, strict=True)}
        case ScoredFinetuneData():
            parts = {name: [pairs] for name, pairs in data.splits.items()}
        case TransferData() | LabelledFinetuneData():
            names = {1: ("test",), 2: ("train", "test"), 3: ("train", "dev", "test")}[len(data.parts)]
            parts = {name: [part] for name, part in zip(names, data.parts, strict=True)}
        case ChoiceData():
            return {
                "test": _keys([choice.phrase for choice in data.choices], [choice.right for choice in data.choices])
            }
        case RetrievalData():
            return {"test": _keys(data.phrases, data.right)}
        case _:
            return {"test": _keys(data.tested())}
    return {
        name: set[Key]().union(*(_keys(part.first, part.second) for part in several if part is not None))
        for name, several in parts.items()
    }


def _keys(first: Sequence[str], second: Sequence[str] | None = None) -> set[Key]:
    """Return the distinct keys of pairs, or of single texts."""
    sides = (map(normalised, side) for side in (first, second or first))
    return {frozenset(both) for both in zip(*sides, strict=True)}


def _repeats(tasks: Mapping[str, TaskData], data: DataSource) -> dict[str, dict[str, int]]:
    """Return how many rows of each task repeat another, and how many distinct ones are elsewhere, by place."""
    items = {name: _items(task) for name, task in tasks.items()}
    known: dict[str, set[Key]] = {}
    for name in TRAINED:
        texts = load_pairs(name, data, None).sentences
        known[name] = _keys(texts[::2], texts[1::2]) | _keys(texts)
    repeats = {}
    for name, parts in items.items():
        pool = next((mates for mates in POOLS.values() if name in mates), ())
        places = {mate: items[mate]["test"] for mate in pool if mate != name}
        # The development pairs of a task in DISJOINT are those that it scores.
        own_parts = [part for part in ("dev", "train") if part in parts and (part, name in DISJOINT) != ("dev", True)]
        places |= {f"{name}, {part}": parts[part] for part in own_parts}
        train_set = tasks[name].located.dataset.name if parts.get("train") else None
        places |= {f"training pairs {one}": known[one] for one in TRAINED if one != train_set}
        counts = {place: len((parts["test"] & there) - _EMPTY) for place, there in places.items()}
        within = tasks[name].rows - len(parts["test"])
        repeats[name] = {"within": within, **{place: count for place, count in counts.items() if count}}
    return repeats


def _shared(tests: Mapping[str, PairsData]) -> dict[str, Any]:
    """Return, for each task, the rows whose pair occurs in another row or task too, and the number of that pair."""
    places: dict[Key, list[tuple[str, int]]] = defaultdict(list)
    golds = {}
    for name, data in tests.items():
        for row, key in enumerate(key for pairs in data.subsets.values() for key in keys(pairs)):
            places[key].append((name, row))
        golds[name] = np.concatenate([pairs.gold for pairs in data.subsets.values()])
    several = [group for group in places.values() if len(group) > 1]
    tasks: dict[str, Any] = {
        name: {"gold_sha256": gold_sha256(gold), "pairs": len(gold), "rows": [], "ids": []}
        for name, gold in golds.items()
    }
    for number, group in enumerate(several):
        for name, row in group:
            tasks[name]["rows"].append(row)
            tasks[name]["ids"].append(number)
    return {"shared": len(several), "tasks": tasks}


def _texts(tests: Mapping[str, PairsData], pool: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the texts that several pairs of a pool share; pairs stand in the order of `benchmark.tasks.overlap`."""
    rows: dict[int, tuple[str, str]] = {}
    size = pool["shared"]
    for name, data in tests.items():
        about = pool["tasks"][name]
        places = dict(zip(about["rows"], about["ids"], strict=True))
        for row, texts in enumerate(_sides([*data.subsets.values()])):
            if row not in places:
                places[row] = size
                size += 1
            rows.setdefault(places[row], texts)
    return _repeated([rows[place] for place in range(size)])


def _sides(several: Sequence[Pairs]) -> list[tuple[str, str]]:
    return [texts for pairs in several for texts in zip(pairs.first, pairs.second, strict=True)]


def _repeated(texts: Sequence[tuple[str, str]]) -> dict[str, list[int]]:
    """Return the rows with a text that another row has too, and the numbers of both sides; -1 for other texts."""
    numbers = numbered(texts)
    # A row of one text twice is no repetition.
    both = np.where(numbers[:, :1] == numbers[:, 1:], [[1, 0]], 1)
    often = np.bincount(numbers.ravel(), weights=both.ravel()) > 1
    again = np.where(often[numbers], np.cumsum(often)[numbers] - 1, -1)
    rows = np.flatnonzero((again >= 0).any(axis=1))
    return {"rows": rows.tolist(), "first": again[rows, 0].tolist(), "second": again[rows, 1].tolist()}


def _of_tasks(every: Mapping[str, TaskData]) -> dict[str, dict[str, object]]:
    """Return the texts that several pairs share, of each task with scored pairs outside of the pools."""
    pooled = {name for names in POOLS.values() for name in names}
    digests: dict[str, dict[str, object]] = {}
    for name, data in every.items():
        if name not in pooled and isinstance(data, PairsData | RegressorData):
            several = [*data.subsets.values()] if isinstance(data, PairsData) else [data.test]
            gold = np.concatenate([pairs.gold for pairs in several])
            digests[name] = {"gold_sha256": gold_sha256(gold), "pairs": len(gold), **_repeated(_sides(several))}
    return digests


def known_overlap(data: DataSource) -> dict[str, object]:
    """Return the table for all tasks in `POOLS` and `DEV`, and the repeated rows of every task of the catalog."""
    rows_of = {name: TASKS.get(name) for name in TASKS.names() if TASKS.is_builtin(name)}
    every = {name: row.load(data) for name, row in rows_of.items() if row.dataset in catalog()}
    tests = {
        pool: {name: task for name in tasks if isinstance(task := every[name], PairsData)}
        for pool, tasks in POOLS.items()
    }
    dev = {}
    for name, tasks in DEV.items():
        loaded = next(pool for pool in tests.values() if name in pool)
        pairs = loaded[name].dev
        assert pairs is not None
        rows = in_each_test(pairs, {task: loaded[task] for task in tasks})
        dev[name] = {
            "sha256": loaded[name].located.sha256,
            "pairs": len(pairs),
            "by_task": {task: len(shared_rows) for task, shared_rows in rows.items()},
            "rows": sorted(set().union(*rows.values())),
        }
    pools = {pool: _shared(pool_tests) for pool, pool_tests in tests.items()}
    texts: dict[str, object] = {pool: _texts(pool_tests, pools[pool]) for pool, pool_tests in tests.items()}
    texts |= _of_tasks(every)
    # Of equal entries, as those of two forms of a text are, the later ones name the first.
    firsts = {repr(one): name for name, one in reversed(texts.items())}
    texts = {name: one if firsts[repr(one)] == name else firsts[repr(one)] for name, one in texts.items()}
    return {"pools": pools, "texts": texts, "dev": dev, "repeats": _repeats(every, data)}


def main(arguments: Sequence[str]) -> int:
    """Write the table again from the data folder in `arguments`."""
    if len(arguments) != 1:
        print("usage: python -m tools.find_overlap DATA", file=sys.stderr)
        return 2
    # Loading the tasks reads this file.
    write_text(TABLE, json.dumps({"pools": {}, "texts": {}, "dev": {}, "repeats": {}}))
    write_text(
        TABLE, json.dumps(known_overlap(DataSource.from_options(arguments[0], hub=False)), separators=(",", ":")) + "\n"
    )
    print(f"written: {TABLE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
