"""Tables of any size for the pages, and the data block of a page."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import numpy as np
from fakes import make_record

from benchmark.report.rows import Row, Table, Value, over_seeds
from benchmark.report.table import build_tables
from benchmark.tasks.suites import Suite, suite
from zoo.recipes import all_recipes

SEVEN = suite("sts").tasks
EVIL = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


def training(dev_scores: dict[str, float], **changes: Any) -> dict[str, Any]:
    corpus = {"name": "wiki", "sentences": 4096, "sha256": "0" * 64}
    return {
        "fitted": True,
        "steps": 64,
        "seconds": 100.0,
        "dev_scores": dev_scores,
        "dev_task": "STS-B",
        "corpus": corpus,
        **changes,
    }


def method_records(name: str, level: float, seeds: Any = (None,), tasks: Any = SEVEN, **changes: Any) -> list[Any]:
    """Records of a method near a level, every task and seed a little different."""
    return [
        make_record(name, task, seed, main=level + 0.01 * i + 0.001 * (seed or 0), **changes)
        for i, task in enumerate(tasks)
        for seed in seeds
    ]


def wide_table(methods: int = 60, tasks: int = 40, name: str = "wide") -> Table:
    """A table of random values, three seeds each, of several settings and backbones; every tenth row incomplete."""
    names = tuple(f"task-{i}" for i in range(tasks))
    wide = Suite(name=name, title=f"{tasks} tasks", tasks=names, columns=names, dev="", corpus="", note="A note.")
    (model,) = build_tables(method_records("m", 0.5, tasks=names), [wide])[0].rows
    generator = np.random.default_rng(0)
    rows = []
    for i in range(methods):
        scores = generator.uniform(20, 90, (3, tasks))
        values = {
            task: over_seeds({seed: float(score) for seed, score in enumerate(scores[:, j])})
            for j, task in enumerate(names)
        }
        means = scores.mean(axis=1)
        average = Value(float(means.mean()), float(means.std(ddof=1)), 3)
        notes = []
        if i % 10 == 9:
            values[names[0]] = Value(None, None, 0, "no data for task-0 here")
            average = Value(None, None, 0, f"{tasks - 1} of {tasks} tasks")
            notes = ["task-0: no data for task-0 here"]
        about = {
            **model.about,
            "setting": ("untrained", "unsupervised", "supervised", "transductive")[i % 4],
            "backbone": ("zoo-mini", "bert-base-uncased")[i % 2],
            "seeds": 3,
            "train_seconds": None if i % 4 == 0 else float(generator.uniform(1, 5000)),
            "texts_per_second": float(generator.uniform(100, 3000)),
        }
        rows.append(Row(f"method-{i}", f"{i:064x}", values, average, about, model.records, notes=notes))
    rows.sort(key=lambda row: (row.average.mean is None, -(row.average.mean or 0)))
    for rank, row in enumerate(rows, 1):
        row.rank = rank if row.average.mean is not None else None
    return Table(wide, rows, ["zoo-bench run --methods 'method-*'"])


def renamed(table: Table, index: int, name: str) -> Table:
    rows, old = list(table.rows), table.rows[index]
    records: Any = [
        {**record, "method": {**record["method"], "name": name, "recipe_name": name}} for record in old.records
    ]
    rows[index] = dataclasses.replace(old, name=name, records=records, spec=all_recipes().get(name))
    return dataclasses.replace(table, rows=rows)


def data_of(html: str) -> Any:
    """What the page's data block holds, as a browser reads it: up to the first </script>."""
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script', html, re.DOTALL)
    data = json.loads(block, parse_constant=lambda token: 1 / 0)
    for table in data.get("tables", ()):
        table["commands"] = [data["commands"][number] for number in table["commands"]]
    return data
