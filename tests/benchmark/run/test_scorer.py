"""A score is of the code that made it: tasks, metrics and probes have an identity of their own."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, make_record
from test_identity import FAST, forget_code, records_of

import benchmark.tasks.pocket as pocket
from benchmark.identity import scorer_digest, sketch, sketch_difference
from benchmark.records.conflicts import one_digest
from benchmark.records.store import Records
from benchmark.tasks import TASKS
from zoo.files import sha256_json

TASK = """
import numpy as np
from benchmark.tasks import register_task
from benchmark.tasks.base import Task, TaskData
from benchmark.data.catalog import Dataset
from benchmark.data.sources import Located
from zoo.errors import CorruptError

@register_task("half")
class Half(Task):
    title, dataset = "Half", "half"
    def load(self, data, limit=None):
        if DAMAGED:
            raise CorruptError("half: its gold file was changed.")
        return Data()

class Data(TaskData):
    rows = 2
    located = Located(Dataset("half", "Half", "none"), "plain", "folder", {}, "a" * 64)
    def texts(self):
        return ["one", "two"]
    def score(self, vectors):
        "Half of one."
        return {"main": float(vectors(self.texts()).any()) * 0.5, "main_metric": "half", "reason": None}
"""


def test_the_digest_follows_metrics_not_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a copy of the package: an edited metric counts; a comment, another task and another family do not."""
    package = Path(pocket.__file__).parents[1]
    shutil.copytree(package, tmp_path / "benchmark", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(pocket, "__file__", str(tmp_path / "benchmark" / "tasks" / "pocket.py"))
    names = ("pocket-words", "pocket-topics")

    def edited(file: str, before: str, after: str) -> list[bool]:
        """Which digests an edit changes."""
        path = tmp_path / "benchmark" / file
        code = path.read_text("utf-8")
        assert before in code
        forget_code()
        digests = [scorer_digest(TASKS.get(name)) for name in names]
        path.write_text(code.replace(before, after), encoding="utf-8")
        forget_code()
        changed = [scorer_digest(TASKS.get(name)) != digest for name, digest in zip(names, digests, strict=True)]
        path.write_text(code, encoding="utf-8")
        return changed

    try:
        assert edited("metrics/correlation.py", "\n    return ", "\n    return 0.5 * ") == [True, False]
        assert edited("metrics/classification.py", "\n    return ", "\n    return 0.5 * ") == [False, True]
        assert edited("metrics/correlation.py", "\n    return ", "\n    # a comment\n    return ") == [False, False]
        assert edited("tasks/base.py", '    """Scored pairs in subsets;', '    """Pairs;') == [False, False]
        assert edited("tasks/pocket.py", "ROWS = (", "ROWS = (*(), ") == [False, False]
        assert edited("tasks/transfer.py", "\n    return ", "\n    return 0.5 * ") == [False, False]
    finally:
        forget_code()


def test_settings_of_a_task_are_of_its_scorer() -> None:
    digests = {name: scorer_digest(TASKS.get(name)) for name in ("MR", "MR-fast", "MR-exact", "CR")}
    assert len(set(digests.values())) == 4


def test_a_plugin_tasks_edit_is_told_and_scored_again(cli: Cli, fakes: None, tmp_path: Path, monkeypatch: Any) -> None:
    """From cached vectors; before that its rows are not ranked with new ones."""
    plugin, results = tmp_path / "task.py", tmp_path / "out"

    def run(methods: str, code: str, *more: str) -> str:
        plugin.write_text(code.replace("DAMAGED", "False"), encoding="utf-8")
        forget_code()
        TASKS._entries.pop("half", None)
        words = ("--tasks", "half", "--precision", "fp32", "--embedding-cache", "1", "--results", results)
        return cli("run", "--methods", methods, *words, "--plugin", plugin, *more).err

    def scores() -> dict[str, float | None]:
        shown = one_digest(Records(results).all())
        return {r["method"]["name"]: r["scores"] and r["scores"]["main"] for r in shown}

    run("bag,bag:salt=1,bag:salt=3", TASK)
    assert "kept cells" not in run("bag", TASK.replace('"Half of one."', "# of one"))
    edited = TASK.replace("0.5", "0.25")
    assert "bag on half; --remeasure scores them again" in run("bag", edited)
    run("bag:salt=2", edited)
    assert scores() == {"bag": 0.5, "bag:salt=1": 0.5, "bag:salt=3": 0.5, "bag:salt=2": None}
    monkeypatch.setattr("benchmark.run.vectors.VectorStore._encode", None)  # no text is encoded
    assert "3 cells measured, 0 kept" in run("bag,bag:salt=1,bag:salt=3", edited, "--remeasure")
    assert scores() == {"bag": 0.25, "bag:salt=1": 0.25, "bag:salt=2": 0.25, "bag:salt=3": 0.25}
    forget_code()


def test_scorers_that_agreed_are_one() -> None:
    """Rows of another scorer are ranked once a cell was scored by both alike, and no cell otherwise."""
    old, new = "1" * 64, "2" * 64

    def row(name: str, scorer: str | None, scorers: dict[str, bool] | None = None) -> Any:
        code = {"commit": None, "digest": "0" * 64} | ({} if scorer is None else {"scorer": scorer})
        return make_record(name, code=code | ({"scorers": scorers} if scorers else {}))

    rows = [row("a", old), row("b", old), row("c", new), row("d", None)]
    alike, unlike = row("e", new, {old: True}), row("f", new, {old: False})
    for more, expected in (([], "abd"), ([alike], "abcde"), ([alike, unlike], "cdef"), ([unlike], "cdf")):
        for ordered in itertools.permutations([*rows, *more]):
            left = one_digest(ordered)
            assert "".join(sorted(r["method"]["name"] for r in left if r["status"] == "ok")) == expected
    (reason,) = {r["reason"] for r in one_digest(rows) if r["status"] != "ok"}
    assert reason is not None and reason.startswith("conflict: pocket-pairs was scored by other code (sha256 22222222)")


def test_the_record_says_whether_scorers_agree(cli: Cli, fakes: None, tmp_path: Path, monkeypatch: Any) -> None:
    words = ("run", "--methods", "bag", *FAST, "--results", tmp_path)
    assert cli(*words).code == 0
    (first,) = records_of(tmp_path)
    monkeypatch.setattr("benchmark.run.plan.scorer_digest", lambda task: "e" * 64)
    assert cli(*words, "--remeasure").code == 0
    (again,) = records_of(tmp_path)
    assert again["code"]["scorers"] == {first["code"]["scorer"]: True} and again["code"]["scorer"] == "e" * 64


def test_a_score_of_changed_data_is_not_current(cli: Cli, fakes: None, tmp_path: Path) -> None:
    """It is back in the table once a run finds the data as it was."""
    plugin, results = tmp_path / "task.py", tmp_path / "out"

    def shown(damaged: bool) -> str:
        plugin.write_text(TASK.replace("DAMAGED", str(damaged)), encoding="utf-8")
        TASKS._entries.pop("half", None)
        cli("run", "--methods", "bag", "--tasks", "half", "--results", results, "--plugin", plugin)
        cli("leaderboard", "--results", results)
        return (results / "other.md").read_text("utf-8")

    assert "50.00" in shown(damaged=False)
    table = shown(damaged=True)
    assert "half: half: its gold file was changed. Its score before that was 50.00." in table
    assert "| 50.00" not in table and "50.00" in shown(damaged=False)
    assert len(Records(results).all()) == 1


def test_a_sketch_estimates_the_difference() -> None:
    vectors = np.random.default_rng(0).normal(size=(16, 300)).astype(np.float32)
    moved = vectors + np.float32(0.01) * np.random.default_rng(1).normal(size=vectors.shape).astype(np.float32)
    assert sketch_difference(sketch(vectors), sketch(vectors)) == 0
    assert sketch_difference(sketch(moved), sketch(vectors)) == pytest.approx(0.01, rel=0.3)
    one = vectors.copy()
    one[3, 7] += 0.01  # one weight
    assert 1e-5 < sketch_difference(sketch(one), sketch(vectors)) < 1e-3
    assert sketch_difference(sketch(vectors[:, :200]), sketch(vectors)) > 0.5
    assert len(json.dumps(sketch(vectors))) < 900 and sha256_json(sketch(vectors)) == sha256_json(sketch(vectors))
