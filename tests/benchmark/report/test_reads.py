"""A command reads its results folder once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fakes import Cli, make_record

from benchmark.records.folder import Records


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose records were read, in order."""
    read: list[Path] = []
    all_records = Records.all
    monkeypatch.setattr(Records, "all", lambda store: read.append(store.folder) or all_records(store))  # type: ignore[func-returns-value]
    return read


@pytest.mark.parametrize(
    "words",
    ["leaderboard --strict", "leaderboard --methods simcse --json", "compare simcse esimcse", "claims"],
)
def test_a_command_reads_the_folder_once(cli: Cli, reads: list[Path], tmp_path: Path, words: str) -> None:
    store = Records(tmp_path / "kept")
    gold = np.random.default_rng(0).uniform(0, 5, 50)
    for place, name in enumerate(("simcse", "esimcse")):
        for task in ("STS12", "STS13"):
            predicted = gold + np.random.default_rng(place).normal(size=50)
            store.write(make_record(name, task), (predicted, gold))
    (tmp_path / "kept" / "claims.md").write_text("")
    answer = cli(*words.split(), "--results", tmp_path / "kept")
    assert answer.code == 0, answer.err
    assert reads == [tmp_path / "kept"]


@pytest.mark.slow
def test_a_run_reads_the_folder_once_for_its_tables(cli: Cli, fakes: None, reads: list[Path], tmp_path: Path) -> None:
    """Finished cells are looked up one by one; the tables and what they show are one read."""
    limits = ("--limit", 20, "--precision", "fp32", "--device", "cpu")
    answer = cli("run", "--methods", "bag", "--tasks", "pocket-words", "--results", tmp_path, *limits)
    assert answer.code == 0 and "index.html" in answer.out, answer.err
    assert reads == [tmp_path]
