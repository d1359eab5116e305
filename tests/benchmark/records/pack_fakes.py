"""A results folder to pack, and what a folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fakes import failed, make_record

from benchmark.records.folder import Records

TASKS = ("SICK-R-regressor", "STS-B-regressor")
PAIRS_EACH = 40


def fill(folder: Path) -> Records:
    """Three methods on four tasks, two of these with pair scores, three seeds each; a failed cell and a trial."""
    store = Records(folder)
    numbers = np.random.default_rng(3)
    golds = {task: np.round(numbers.uniform(0, 5, PAIRS_EACH), 1) for task in TASKS}
    for level, name in enumerate(("one", "two:x=1", "drei/ß")):
        for seed in range(3):
            for task in TASKS:
                noise = numbers.normal(0, 1 + level, PAIRS_EACH)
                predicted = golds[task] if (seed, level) == (2, 0) else golds[task] + noise
                main = 0.9 - level / 10 + seed / 100
                store.write(make_record(name, task, seed, main=main), (predicted, golds[task]))
            for task in ("pocket-phrases", "pocket-topics"):
                store.write(make_record(name, task, seed, main=0.5 + level / 100 + seed / 1000))
    store.write(failed(make_record("broken", TASKS[0]), "no such backbone"))
    store.write(make_record("trial", TASKS[0], 0, limit=5, main=0.1))
    return store


def contents(folder: Path) -> dict[str, Any]:
    """Everything that the records of a folder say, with their pair scores; fails where anything is left out."""
    store = Records(folder)
    by_key = {}
    for record in store.all():
        pairs = [side.tobytes() for side in store.pair_scores(record)] if store.has_pairs(record) else None
        by_key[record["method"]["name"], record["key"]] = (record, pairs)
    assert store.corrupt == []
    return by_key


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
