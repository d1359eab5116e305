"""Reads `overlap.json`: pairs of several tasks, texts of several pairs, development pairs in tests, repeated rows.

Records contain no texts, so common pairs come from here. `python -m tools.find_overlap DATA` makes the file.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.data.corpora import normalised
from benchmark.data.readers.pairs import Pairs
from benchmark.tasks.base import DevOverlap, PairsData, TaskData
from zoo.errors import UsageError
from zoo.files import read_json, sha256_json

TABLE = Path(__file__).with_name("overlap.json")
_YEARS = ("STS12", "STS13", "STS14", "STS15", "STS16")
# Tasks that one suite may contain together.
POOLS: dict[str, tuple[str, ...]] = {
    "sts": (*_YEARS, "STS-B"),
    "sts-raw": (*(f"{year}-raw" for year in _YEARS), "STS-B-raw"),
    "words": (
        *("SimLex-999", "WS-353-sim", "WS-353-rel", "MEN", "SCWS", "WS-353", "RG-65", "MC-30"),
        *("RW", "MTurk-287", "MTurk-771", "SimVerb-3500"),
    ),
}
DISJOINT = {"stsb-dev-disjoint": "STS-B", "stsb-dev-disjoint-raw": "STS-B-raw"}
DEV = {"STS-B": POOLS["sts"], "STS-B-raw": POOLS["sts-raw"]}

Key = frozenset[str]


def keys(pairs: Pairs) -> list[Key]:
    """Return a key per row, equal for the same pair: both texts normalised, in either order."""
    return [frozenset((normalised(a), normalised(b))) for a, b in zip(pairs.first, pairs.second, strict=True)]


def gold_sha256(gold: NDArray[Any]) -> str:
    return hashlib.sha256(gold.astype("float32").tobytes()).hexdigest()


def in_tests(dev: Pairs, tests: Mapping[str, TaskData]) -> list[int]:
    return sorted(set[int]().union(*in_each_test(dev, tests).values()))


def in_each_test(dev: Pairs, tests: Mapping[str, TaskData]) -> dict[str, list[int]]:
    """Raises UsageError for a task without pairs."""
    dev_keys = keys(dev)
    rows = {}
    for name, data in tests.items():
        if not isinstance(data, PairsData):
            raise UsageError(f"{name} has no scored pairs.")
        there = {key for pairs in data.subsets.values() for key in keys(pairs)}
        rows[name] = [row for row, key in enumerate(dev_keys) if key in there]
    return rows


@dataclass(frozen=True)
class Pool:
    size: int
    digest: str


@dataclass(frozen=True)
class _Pooled:
    pool: Pool
    gold_sha256: dict[str, str]
    places: dict[str, NDArray[np.intp]]


@functools.cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_json(TABLE)
    return table


@functools.cache
def _pooled(name: str) -> _Pooled:
    table = _table()["pools"][name]
    places, size = {}, table["shared"]
    for task, about in table["tasks"].items():
        pool_ids = np.full(about["pairs"], -1, np.intp)
        pool_ids[about["rows"]] = about["ids"]
        alone = np.flatnonzero(pool_ids < 0)
        pool_ids[alone] = size + np.arange(len(alone))
        size += len(alone)
        places[task] = pool_ids
    golds = {task: about["gold_sha256"] for task, about in table["tasks"].items()}
    return _Pooled(Pool(size, sha256_json(table)), golds, places)


def pool_of(task: str, gold: str) -> tuple[Pool, NDArray[np.intp]] | None:
    """Return the pool of a task's pairs and their positions (n,) in it; None for other tasks or other gold scores.

    A trial's cut data has another `gold` digest, and its pairs are resampled separately.
    """
    for name, tasks in POOLS.items():
        if task in tasks:
            pooled = _pooled(name)
            return (pooled.pool, pooled.places[task]) if pooled.gold_sha256[task] == gold else None
    return None


def shared_texts(task: str, gold: str) -> NDArray[np.intp] | None:
    """Return the numbers of both texts (rows, 2) of each pair of a task's pool, or of the task without a pool.

    -1 is a text of no other pair.
    """
    for name, tasks in POOLS.items():
        if task in tasks:
            pooled = _pooled(name)
            return _texts(name, pooled.pool.size) if pooled.gold_sha256[task] == gold else None
    about = _texts_of(task)
    return _texts(task, about["pairs"]) if about is not None and about["gold_sha256"] == gold else None


def _texts_of(name: str) -> dict[str, Any] | None:
    table = _table()["texts"]
    entry: dict[str, Any] | str | None = table.get(name)
    return _texts_of(entry) if isinstance(entry, str) else entry


@functools.cache
def _texts(name: str, rows: int) -> NDArray[np.intp]:
    about = _texts_of(name)
    assert about is not None
    numbers = np.full((rows, 2), -1, np.intp)
    numbers[about["rows"]] = np.stack([about["first"], about["second"]], axis=1)
    return numbers


def numbered(texts: Sequence[tuple[str, str]]) -> NDArray[np.intp]:
    """Return the numbers of both texts (rows, 2) of pairs; texts equal by `keys` have the same number.

    Examples:
        >>> numbered([("A cat.", "a dog"), ("a cat", "A bird")]).tolist()
        [[0, 1], [0, 2]]
    """
    numbers: dict[str, int] = {}
    both = [[numbers.setdefault(normalised(text), len(numbers)) for text in pair] for pair in texts]
    return np.array(both, np.intp).reshape(-1, 2)


def shared_with(task: str, others: Sequence[str]) -> int:
    for name, tasks in POOLS.items():
        if task in tasks:
            places = _pooled(name).places
            there = [places[other] for other in others if other in tasks and other != task]
            return int(np.isin(places[task], np.concatenate(there)).sum()) if there else 0
    return 0


def repeated(task: str) -> dict[str, int]:
    """Count a task's repeated rows, and its rows in other places.

    Places are other tasks, its own dev and train parts, and training pairs.
    """
    repeats: dict[str, int] = _table()["repeats"].get(task, {})
    return repeats


def dev_rows_in_tests(task: str, sha256: str | None = None) -> list[int] | None:
    """Return dev rows among test pairs, None if unmeasured on this data (see `DEV`)."""
    about = _table()["dev"].get(task)
    return None if about is None or sha256 not in (None, about["sha256"]) else list(about["rows"])


def dev_overlap(task: str) -> DevOverlap | None:
    """Count development pairs without `limit`."""
    if task in DISJOINT:
        pairs = _table()["dev"][DISJOINT[task]]["pairs"]
        return DevOverlap(pairs - len(dev_rows_in_tests(DISJOINT[task]) or ()), 0)
    rows = dev_rows_in_tests(task)
    return None if rows is None else DevOverlap(_table()["dev"][task]["pairs"], len(rows))
