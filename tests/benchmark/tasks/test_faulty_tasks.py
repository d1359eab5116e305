"""One mutation of a right task makes a wrong one, which `doctor` names with the task's line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml
from fakes import Cli

from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from benchmark.tasks.base import check_task
from zoo.errors import UsageError
from zoo.plugins import METHODS, load_plugin_file

RIGHT = """
import numpy as np
from benchmark.data.catalog import Dataset
from benchmark.data.sources import Located
from benchmark.tasks import register_task
from benchmark.tasks.base import Task, TaskData

QUERIES = ["a dog runs", "rain falls", "bread rises", "a train leaves"]
DOCUMENTS = ["the dog is running fast", "it rains", "the dough gets larger", "the train departs", "a red stone"]
RIGHT = [[0], [1], [2, 4], [3]]

class Found(TaskData):
    def __init__(self, located, limit):
        self.located, self.rows = located, min(limit or len(QUERIES), len(QUERIES))

    def texts(self):
        return QUERIES[: self.rows] + DOCUMENTS

    def score(self, vectors):
        sides = [np.asarray(vectors(texts), np.float64) for texts in (QUERIES[: self.rows], DOCUMENTS)]
        first, second = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)
        precisions = []
        for row, right in zip(np.argsort(-first @ second.T, kind="stable"), RIGHT):
            places = np.sort([list(row).index(document) + 1 for document in right])
            precisions.append(float(np.mean(np.arange(1, len(places) + 1) / places)))
        return {"main": float(np.mean(precisions)), "main_metric": "map", "reason": None,
                "items": {"values": precisions}, "best": max(precisions)}

@register_task("NAME")
class Search(Task):
    title, dataset, metric = "Search", "search", "MAP"

    def load(self, data, limit=None):
        entry = Dataset(self.dataset, self.title, "free")
        return Found(Located(entry, self.form, "bundled", {}, "0" * 64), limit)
"""
PAIRED = """
import numpy as np
from benchmark.data.catalog import Dataset
from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import Located
from benchmark.tasks import register_task
from benchmark.tasks.base import PairsData, Task

FIRST = ["a dog runs fast", "rain falls on the roof", "the bread rises", "a train leaves"]
SECOND = ["a dog is running", "it rains", "dough gets larger", "a stone"]

class Graded(PairsData):
    def score(self, vectors):
        scores = super().score(vectors)
        return scores

@register_task("NAME")
class Grades(Task):
    title, dataset = "Grades", "grades"

    def load(self, data, limit=None):
        located = Located(Dataset(self.dataset, self.title, "free"), self.form, "bundled", {}, "0" * 64)
        return Graded(located, {"test": Pairs(FIRST, SECOND, np.array([5.0, 4.0, 3.0, 0.0]))}, limit=limit)
"""
MUTATIONS = yaml.safe_load(Path(__file__).with_name("faulty_tasks.yaml").read_text(encoding="utf-8"))


def written(mutation: dict[str, str], folder: Path, name: str) -> Path:
    right = RIGHT if mutation["old"] in RIGHT else PAIRED
    assert mutation["old"] in right
    path = folder / "plugin.py"
    path.write_text(right.replace(mutation["old"], mutation["new"], 1).replace("NAME", name), encoding="utf-8")
    return path


def problems(path: Path, name: str) -> list[str]:
    TASKS.names()
    before = dict(TASKS._entries)
    try:
        assert load_plugin_file(path, [METHODS, TASKS]) is None
        return [problem for _, problem in check_task(TASKS.get(name), DataSource()) if problem]
    finally:
        TASKS._entries = before


@pytest.mark.parametrize("mutation", MUTATIONS["check"], ids=lambda mutation: mutation["what"])
def test_a_faulty_task_is_named_in_one_line_with_its_own(mutation: dict[str, str], tmp_path: Path) -> None:
    (problem,) = problems(written(mutation, tmp_path, "faulty-task"), "faulty-task")
    assert mutation["words"] in problem and "plugin.py:" in problem


NO_NAMES = ["pocket-words", "Pocket_Words", "stsb", "STS 12", "mteb:Own", "a,b", "x.yaml"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_task_s_name_that_is_taken_or_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Rename (one|it)\.") as caught:
        problems(written({"old": "NAME", "new": name}, tmp_path, name), name)
    assert "plugin.py:29" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", [*MUTATIONS["record"], *MUTATIONS["pairs"]], ids=lambda mutation: mutation["what"])
def test_what_only_a_record_shows_is_shown_by_check_too(mutation: dict[str, str], cli: Cli, tmp_path: Path) -> None:
    answer = cli("doctor", "faulty-task", "--plugin", written(mutation, tmp_path, "faulty-task"))
    (line,) = [line for line in answer.out.splitlines() if line.startswith("FAIL")]
    assert answer.code == 1 and mutation["words"] in line and "plugin.py:" in line


# What a task of pairs may do to its scores, in `score` or in `score_cosines`.
RIGHT_SCORES = {
    "as they are": "return scores",
    "a further score": 'return {**scores, "error": float(np.abs(scores["pairs"][0] - scores["pairs"][1] / 5).mean())}',
    "further scores of parts": 'return {**scores, "parts": {"first": float(scores["pairs"][0][0]), "n": 4}}',
    "another score, without pairs": 'del scores["pairs"]; return {**scores, "main": scores["all"]["pearson"]}',
    "items": 'values = scores.pop("pairs")[0].tolist()'
    '; return {**scores, "main": sum(values) / 4, "items": {"values": values}}',
}


@pytest.mark.slow
@pytest.mark.parametrize("place", ["score(self, vectors)", "score_cosines(self, cosines)"])
def test_scores_of_a_task_of_pairs_that_doctor_lets_pass_are_verified(place: str, cli: Cli, tmp_path: Path) -> None:
    plugins = []
    for number, scores in enumerate(RIGHT_SCORES.values()):
        text = PAIRED.replace("score(self, vectors)", place).replace("score(vectors)", place.replace("self, ", ""))
        path = tmp_path / f"plugin_{number}.py"
        path.write_text(text.replace("return scores", scores).replace("NAME", f"grades-{number}"), encoding="utf-8")
        plugins += ["--plugin", path]
    names = ",".join(f"grades-{number}" for number in range(len(RIGHT_SCORES)))
    well = cli("doctor", names, *plugins)
    assert well.code == 0, well.out
    run = cli("run", "--methods", "bag-of-words", "--tasks", names, "--no-controls", "--results", tmp_path, *plugins)
    verified = cli("verify", tmp_path, *plugins)
    assert run.code == verified.code == 0 and "5 cells: 5 verified" in verified.out, verified.out


@pytest.mark.slow
def test_after_a_raised_version_the_comparison_names_the_run_of_the_older_row(cli: Cli, tmp_path: Path) -> None:
    path = written({"old": "NAME", "new": "NAME"}, tmp_path, "raised-task")
    words = ("--plugin", path, "--tasks", "raised-task", "--no-controls", "--results", tmp_path / "out")
    for method in ("bag-of-words", "static-avg"):
        assert cli("run", "--methods", method, *words).code == 0
        type(TASKS.get("raised-task")).version = 2
    compare = ("compare", "bag-of-words", "static-avg", "--tasks", "raised-task", "--results", tmp_path / "out")
    refused = cli(*compare)
    remedy = refused.err.partition("measure it again: zoo-bench ")[2]
    assert refused.code == 2 and "--methods bag-of-words " in remedy, refused.err
    assert cli(*shlex.split(remedy)).code == cli(*compare).code == 0


def test_the_right_task_passes_and_its_items_give_intervals(cli: Cli, tmp_path: Path) -> None:
    """`compare` draws the average precisions, as it draws the items of this project's tasks."""
    path = written({"old": "NAME", "new": "NAME"}, tmp_path, "right-task")
    assert problems(path, "right-task") == []
    plain = tmp_path / "plain.py"
    text = RIGHT.replace('"items": {"values": precisions}, ', "").replace("NAME", "plain-task")
    plain.write_text(text, encoding="utf-8")
    run = (
        "run",
        "--plugin",
        path,
        "--methods",
        "bag-of-words,static-avg",
        "--no-controls",
        "--results",
        tmp_path / "out",
    )
    other = tmp_path / "other.py"
    other.write_text(
        RIGHT.replace('"main_metric": "map"', '"main_metric": "mrr"').replace("NAME", "night-task"), encoding="utf-8"
    )
    done = cli(*run, "--plugin", plain, "--plugin", other, "--tasks", "*-task")
    assert done.code == 0, done.err
    # A task without items is compared by nobody, and tasks of two measures have no mean.
    printed = next(line for line in done.out.splitlines() if line.startswith("Next, task by task: "))
    assert "--tasks night-task,right-task" in printed and "mean of all tasks" not in done.out
    assert [word for word in ("on night-task", "on right-task") if word not in done.out] == []
    following = cli(*shlex.split(printed.partition("zoo-bench ")[2]))
    assert following.code == 0 and printed.count("--plugin") == 3 and "Avg." not in following.out
    assert "Map, mrr x100" in following.out and "On night-task: " in following.out
    read = ("--results", tmp_path / "out", "--plugin", path)
    assert "On right-task: " in cli("compare", "bag-of-words", "static-avg", "--tasks", "r*-task", *read).out
    compared = cli("compare", "bag-of-words", "static-avg", "--tasks", "right-task", *read)
    assert "0 cells measured, 2 kept" in cli(*run, "--tasks", "right-task").err
    assert all(cli(command, *read).code == 0 for command in ("leaderboard", "pack"))
    verified = cli("verify", tmp_path / "out", "--plugin", path, "--plugin", plain, "--plugin", other)
    assert verified.code == 0 and "6 cells: 6 verified" in verified.out, verified.out
    assert "--remeasure" not in compared.out + compared.err and "right-task" in compared.out
