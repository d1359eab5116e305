"""`zoo-bench run FILE`: a run described by a file; suites of one's own; names of rows; JSON of a run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

from benchmark.records.folder import Records
from benchmark.run.options import read_run_file, run_file_path
from benchmark.tasks import TASKS
from benchmark.tasks.suites import choose_tasks, suite
from zoo.errors import UsageError
from zoo.paths import resource_folder
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

FAST = ("--precision", "fp32", "--limit", "20")
FILE = """\
about: a test
methods: [bag, "bag:salt=1"]
suites: pocket
tasks: [pocket-words, pocket-pairs]
precision: fp32
limit: 20
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


def records(folder: Path) -> list[Any]:
    return Records(folder).all()


@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_a_file_describes_a_run_and_records_name_it(cli: Cli, tmp_path: Path, file: Path) -> None:
    answer = cli("run", file, "--results", tmp_path / "out")
    assert answer.code == 0, answer.err
    measured = records(tmp_path / "out")
    assert {(r["method"]["name"], r["task"]["name"]) for r in measured} == {
        (method, task) for method in ("bag", "bag:salt=1") for task in ("pocket-words", "pocket-pairs")
    }
    named = {"name": str(file), "sha256": hashlib.sha256(FILE.encode()).hexdigest()}
    assert all(r["run_file"] == named and r["limit"] == 20 and r["precision"] == "fp32" for r in measured)
    assert all(r["command"][:3] == ["zoo-bench", "run", str(file)] for r in measured)


@pytest.mark.usefixtures("fakes")
def test_what_is_typed_wins_over_the_file(cli: Cli, tmp_path: Path, file: Path) -> None:
    """An option at its default is not typed; a label of the file goes with the methods of the file."""
    file.write_text(FILE + "label: [one, two]\n", encoding="utf-8")
    words = ("run", file, "--methods", "bag:salt=2", "--tasks", "pocket-words", "--limit", 30, "--results", tmp_path)
    assert cli(*words).code == 0
    (record,) = records(tmp_path)
    assert (record["method"]["name"], record["task"]["name"], record["limit"]) == ("bag:salt=2", "pocket-words", 30)
    assert record["precision"] == "fp32"


def test_shipped_files_name_what_there_is() -> None:
    """By name, with and without folder; their methods and suites exist."""
    folder = resource_folder("benchmark", "configs") / "runs"
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    assert "sts-main" in names and "pocket-main" in names
    for name in names:
        (stated,), _ = read_run_file(f"runs/{name}.yaml")
        assert run_file_path(name) == folder / f"{name}.yaml"
        assert parse_methods(stated["methods"], all_recipes())
        if "suites" not in stated:
            assert all(task in TASKS or task.startswith("mteb:") for task in stated["tasks"].split(","))
            continue
        for suite_name in stated["suites"].split(","):
            assert choose_tasks(suite(suite_name), stated.get("tasks"))
    with pytest.raises(UsageError, match="Did you mean 'sts-main'"):
        read_run_file("runs/sts-mian.yaml")


@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_rows_have_the_names_that_are_given(cli: Cli, tmp_path: Path) -> None:
    """A label takes the name's place in records; in tables the recipe stands behind it. A control stays one."""
    words = ("run", "--methods", "bag,random", "--tasks", "pocket-words", "--seeds", 1, "--results", tmp_path, *FAST)
    assert cli(*words, "--label", "our bag,chance").code == 0
    names = {r["method"]["name"]: r["method"]["recipe_name"] for r in records(tmp_path)}
    assert names == {"our bag": "bag", "chance": "random"}
    rows = json.loads((tmp_path / "pocket-trial.json").read_text(encoding="utf-8"))["rows"]
    assert {row["method"] for row in rows} == {f"{label} ({recipe})" for label, recipe in names.items()}
    assert {row["method"]: row["control"] for row in rows}["chance (random)"] == "control"
    assert cli(*words, "--label", "same,same").code == 2


@pytest.mark.usefixtures("fakes")
def test_a_suite_of_one_s_own(cli: Cli, tmp_path: Path) -> None:
    """Its tasks are run and have a table, which `leaderboard --suite FILE` makes again."""
    file = tmp_path / "mine.yaml"
    file.write_text("tasks: [pocket-words, pocket-phrases]\ncolumns: [W, P]\ndev: pocket-pairs\n", encoding="utf-8")
    out = tmp_path / "out"
    assert cli("run", "--methods", "bag", "--suite", file, "--results", out, *FAST).code == 0
    assert {r["task"]["name"] for r in records(out)} == {"pocket-words", "pocket-phrases"}
    assert cli("leaderboard", "--results", out, "--out", tmp_path / "again", "--suite", file).code == 0
    for folder in (out, tmp_path / "again"):
        table = json.loads((folder / "mine-trial.json").read_text(encoding="utf-8"))
        assert table["rows"][0]["average"]["mean"] is not None
    file.write_text("tasks: [pocket-wrods]\n", encoding="utf-8")
    assert "pocket-words" in cli("run", "--methods", "bag", "--suite", file, "--results", out, *FAST).err
    (tmp_path / "sts.yaml").write_text("tasks: [pocket-words]\n", encoding="utf-8")
    assert "rename the file" in cli("run", "--methods", "bag", "--suite", tmp_path / "sts.yaml").err


@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_a_run_as_json(cli: Cli, tmp_path: Path) -> None:
    """What was done, what failed and why, the tables; --dry-run says what would be done."""
    words = ("run", "--methods", "bag,crash-in-fit", "--tasks", "pocket-words", "--seeds", 1, "--results", tmp_path)
    planned = json.loads(cli(*words, *FAST, "--dry-run", "--json").out)
    assert [(one["method"], one["done"], one["cells"]) for one in planned["encoders"]] == [
        ("bag", 0, 1),
        ("crash-in-fit", 0, 1),
    ]
    answer = cli(*words, *FAST, "--json")
    assert answer.code == 1
    content = json.loads(answer.out)
    assert (content["measured"], content["exit_code"]) == (1, 1)
    assert "exploded" in content["failed"][0]["reason"]
    assert content["tables"] == [json.loads((tmp_path / "pocket-trial.json").read_text(encoding="utf-8"))]
    assert "cell measured" in answer.err


@pytest.mark.usefixtures("fakes")
def test_a_file_of_several_runs(cli: Cli, tmp_path: Path, file: Path) -> None:
    """What stands beside the list holds for each run; what is typed wins in all of them."""
    several = "controls: false\nprecision: fp32\nlimit: 20\nruns:\n- {methods: bag, tasks: pocket-words}\n"
    file.write_text(several + "- {methods: 'bag:salt=1', tasks: pocket-pairs, limit: 25}\n", encoding="utf-8")
    answer = cli("run", file, "--results", tmp_path / "out")
    assert answer.code == 0, answer.err
    measured = {(r["method"]["name"], r["task"]["name"], r["limit"]) for r in records(tmp_path / "out")}
    assert measured == {("bag", "pocket-words", 20), ("bag:salt=1", "pocket-pairs", 25)}
    assert "run 2 of 2" in answer.out
    assert cli("run", file, "--limit", 30, "--results", tmp_path / "typed").code == 0
    assert {r["limit"] for r in records(tmp_path / "typed")} == {30}
    assert cli("run", file, "--json").code == 2
    for wrong in ("runs: 3\n", "runs: []\n", "runs: [bag]\n"):
        file.write_text(wrong, encoding="utf-8")
        with pytest.raises(UsageError, match="runs is a list of mappings"):
            read_run_file(str(file))
    file.write_text("runs:\n- {methods: bag, tsaks: x}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="tsaks"):
        read_run_file(str(file))
