"""Equal key, equal value: what else is in a run, its order, workers, shards and the cache change no number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import Cli

from benchmark.records.folder import Records

METHODS = "avg-last,whitening-target,simcse:steps=2:batch_size=8"
TASKS = "pocket-pairs,pocket-words"


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A training depends on the number of threads, which workers divide."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def numbers(folder: Path) -> dict[str, tuple[Any, ...]]:
    store = Records(folder)
    cells = {}
    for record in store.all():
        assert record["status"] == "ok", record["reason"]
        pairs = [part.tobytes() for part in store.pair_scores(record)] if store.has_pairs(record) else None
        cells[record["key"]] = (record["scores"], pairs, record.get("items"), record["coverage"])
    return cells


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_cell_is_the_same_in_each_run(
    cli: Cli, tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))

    def run(folder: str, *more: object, methods: str = METHODS, tasks: str = TASKS) -> dict[str, tuple[Any, ...]]:
        common = ("--tasks", tasks, "--seeds", 1, "--train-sentences", 16, "--limit", 40, "--backbone", tiny_bert)
        answer = cli(
            "run", "--methods", methods, *common, "--precision", precision, "--results", tmp_path / folder, *more
        )
        assert answer.code == 0, answer.err
        return numbers(tmp_path / folder)

    wanted = run("all")
    assert len(wanted) == 6
    conditions: dict[str, dict[str, tuple[Any, ...]]] = {}
    for task in reversed(TASKS.split(",")):
        conditions["tasks alone"] = run("alone", tasks=task)
    conditions["another order"] = run("order", methods=",".join(reversed(METHODS.split(","))))
    conditions["two workers"] = run("workers", "--workers", 2)
    for part in ("2/2", "1/2"):
        conditions["shards"] = run("shards", "--shard", part)
    # A part of the texts, then all.
    run("some", "--embedding-cache", 1, tasks="pocket-words")
    conditions["partly from the cache"] = run("cache", "--embedding-cache", 1)
    conditions["from the cache"] = run("warm", "--embedding-cache", 1)
    for path in sorted((tmp_path / "warm" / "records").rglob("*.json"))[::2]:
        path.unlink()
    conditions["resumed"] = run("warm")
    for name, cells in conditions.items():
        assert cells.keys() == wanted.keys(), name
        for key, values in cells.items():
            for before, after in zip(wanted[key], values, strict=True):
                np.testing.assert_equal(after, before, name)
