"""A score is of the code that made it: tasks, metrics and probes have an identity of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from fakes import Cli
from test_identity import forget_code

import benchmark.tasks.pocket as pocket
from benchmark.identity import scorer_digest, sketch, sketch_difference
from benchmark.records.folder import Records
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
