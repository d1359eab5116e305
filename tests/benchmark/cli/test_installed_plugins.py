"""Each faulty entry point of an installed package is named once by `methods`, `tasks` and `doctor`; all else works."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from server import run

pytestmark = pytest.mark.slow
POINTS = """
[zoo_bench.methods]
simcse = faulty_good:Good
avg-last = faulty_good:Good
absent-one = no_such_module:Thing
raises-one = faulty_raises:Thing
no-class = collections:OrderedDict
no-attribute = faulty_good:Nothing
good-one = faulty_good:Good

[zoo_bench.tasks]
pocket-words = faulty_good:Good
absent-task = no_such_module:Thing
raises-task = faulty_raises:Thing

[zoo_bench.commands]
run = faulty_raises:command
absent-command = no_such_module:command
"""
GOOD = """
import numpy as np
from zoo.methods.static import Static

class Good(Static):
    "A good one."
"""
# Known without an import of the package, and by an import alone.
TAKEN = ("simcse of faulty", "avg-last of faulty", "absent-one of faulty")
IMPORTED = ("raises-one", "no-class", "no-attribute")
TASKS = ("pocket-words of faulty", "absent-task of faulty", "raises-task")
COMMANDS = ("run of faulty", "absent-command of faulty")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A distribution as installed, with its modules."""
    folder = tmp_path_factory.mktemp("installed")
    about = folder / "faulty-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    (folder / "faulty_good.py").write_text(GOOD)
    (folder / "faulty_raises.py").write_text("x = 1\nraise RuntimeError('no luck')\n")
    return folder


def zoo_bench(folder: Path, *words: str) -> CompletedProcess[str]:
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    done = run(
        [sys.executable, "-m", "benchmark.cli.main", *words], env={**os.environ, "PYTHONPATH": paths}, cwd=folder
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


def test_a_list_names_each_broken_plugin_once(folder: Path) -> None:
    listed = zoo_bench(folder, "methods")
    assert listed.returncode == 0, listed.stderr
    assert [listed.stdout.count(f"broken: {name}:") for name in TAKEN] == [1, 1, 1]
    assert "good-one" in listed.stdout and "faulty_raises.py:2" not in listed.stdout, "nothing is imported"
    asked = zoo_bench(folder, "methods", "absent-one")
    assert asked.returncode == 0 and asked.stdout.startswith("broken: absent-one of faulty: there is no module")
    tasks = zoo_bench(folder, "tasks")
    assert tasks.returncode == 0 and [tasks.stdout.count(f"broken: {name}:") for name in TASKS] == [1, 1, 1]


def test_doctor_names_each_broken_plugin_once(folder: Path) -> None:
    answer = json.loads(zoo_bench(folder, "doctor", "--json").stdout)
    assert {*answer["broken_plugins"]} == {*TAKEN, *IMPORTED, *TASKS, *COMMANDS}
    assert "faulty_raises.py:2" in answer["broken_plugins"]["raises-one"] and answer["problems"] == []


def test_all_else_works(folder: Path) -> None:
    words = ("run", "--methods", "good-one,avg-last", "--tasks", "pocket-words", "--no-controls", "--limit", "20")
    done = zoo_bench(folder, *words)
    assert done.returncode == 0 and "broken" not in done.stdout + done.stderr, done.stderr
    for command in (("leaderboard",), ("compare", "good-one", "avg-last"), ("cite",), ("--help",)):
        assert zoo_bench(folder, *command).returncode == 0
    for name in ("raises-one", "absent-one"):
        asked = zoo_bench(folder, "run", "--methods", name, "--tasks", "pocket-words")
        assert asked.returncode == 2 and asked.stderr.count("broken") == 1 and "no-class" not in asked.stderr
