"""Honest results, measured once."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import benchmark
from benchmark.checking.verify import Check
from benchmark.data.sources import DataSource
from benchmark.records.folder import Records
from benchmark.run.measure import EncoderMeasurement
from benchmark.run.plan import Cell

TASKS = "pocket-pairs,pocket-topics"


@pytest.fixture(scope="session")
def honest(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """Return the results of an untrained, a random and a trained row on a backbone given by its path."""
    folder = tmp_path_factory.mktemp("honest")
    options: dict[str, Any] = {"backbone": str(tiny_bert), "train_sentences": 40, "limit": 40, "seeds": 2}
    benchmark.evaluate(
        "bag-of-words:dim=64,random:dim=64,simcse:batch_size=8:steps=2:learning_rate=1e-2",
        tasks=TASKS,
        results=folder,
        quiet=True,
        device="cpu",
        **options,
    )
    return folder


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell of one encoder is measured once: what is edited in its record does not change its vectors."""
    measure, known = EncoderMeasurement.measure_cell, dict[Any, Any]()

    def measure_cell(self: EncoderMeasurement, cell: Cell) -> Any:
        key = self.plan.key, cell.task.name, cell.task.data and cell.task.data.rows
        known[key] = known.get(key) or measure(self, cell)
        return copy.deepcopy(known[key])

    monkeypatch.setattr(EncoderMeasurement, "measure_cell", measure_cell)


@pytest.fixture(scope="session")
def check(honest: Path, tiny_bert: Path) -> Check:
    """Return the check of the honest folder, whose encoders are kept."""
    return Check(Records(honest), DataSource.from_options(None, hub=False), weights=[tiny_bert])
