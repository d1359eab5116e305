"""The speed harness measures what it says: both sides do the same work, and sizes are what was asked for."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from benchmark.data.sources import DataSource
from benchmark.plan import load_tasks
from benchmark.speed.encoding import layer_flops, our_side, peer_side, scores
from benchmark.speed.scaling import measure
from benchmark.speed.table import conditions, write_csv
from zoo.tokens import MEMORY


def test_both_sides_make_the_same_vectors_and_scores(minilm: Path) -> None:
    pytest.importorskip("sentence_transformers")
    tasks = load_tasks(["pocket-pairs"], DataSource(None, hub=False), 12)
    ours = our_side(str(minilm), "cpu", "fp32")(tasks)
    theirs = peer_side(str(minilm), "cpu", "fp32")(tasks)
    np.testing.assert_allclose(ours["pocket-pairs"], theirs["pocket-pairs"], atol=1e-5)
    assert scores(tasks, ours)["pocket-pairs"] == pytest.approx(scores(tasks, theirs)["pocket-pairs"], abs=1e-6)


def test_our_side_tokenises_anew_every_time(minilm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = load_tasks(["pocket-pairs"], DataSource(None, hub=False), 12)
    encode = our_side(str(minilm), "cpu", "fp32")
    calls = []
    forget = MEMORY.forget
    monkeypatch.setattr(MEMORY, "forget", lambda: calls.append(forget()))
    encode(tasks)
    encode(tasks)
    assert len(calls) == 2


def test_operations_of_the_layers(minilm: Path) -> None:
    """Six layers of 384 x 1,536: 12 x 384 squared weights each, two operations a weight and token."""
    tasks = load_tasks(["pocket-pairs"], DataSource(None, hub=False), 12)
    per_token = 2 * 6 * 12 * 384**2
    found = layer_flops(str(minilm), tasks)
    assert found % per_token == 0
    assert tasks[0].data is not None
    assert 3 * len(set(tasks[0].data.texts())) < found / per_token < 100 * len(set(tasks[0].data.texts()))


def test_a_size_is_so_many_distinct_lines(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"line number {i // 2}\n" for i in range(100)), encoding="utf-8")
    found = measure(text, "static-avg", 30, "cpu", "fp32")
    assert found["texts"] == 30
    assert found["rest_mb"] == pytest.approx(found["peak_mb"] - found["texts_and_vectors_mb"], abs=0.1)


def test_every_row_of_the_file_has_the_conditions(tmp_path: Path) -> None:
    write_csv(tmp_path / "speed.csv", [{"side": "a"}, {"side": "b"}], conditions("cpu", "numpy"))
    with (tmp_path / "speed.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["side"] for line in lines] == ["a", "b"]
    assert all(line["torch"] and line["numpy"] and line["device"] == "cpu" for line in lines)
