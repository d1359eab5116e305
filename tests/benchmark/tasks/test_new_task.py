"""A task is one file of its data set: in a copy of the tree, lists, suites and checks have it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAIRS = "cup\tmug\t3.5\ncup\tcloud\t0.5\nriver\tstream\t3.8\nriver\tchair\t0.2\n"
ENTRY = """
title: "Four pairs"
licence: "CC0"
citation: "Nobody 2020, Four pairs"
rows: {{test: 4}}
forms:
  plain: {{folder: words, files: {{four.txt: {sha256}}}}}
tasks:
  Four-4:
    title: "Four pairs of words"
    read: words.word_pairs
    settings: {{highest: 4}}
    aliases: [Quartet]
    suites: {{words-more: Four}}
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the file of a data set, and the data beside it."""
    tree = tmp_path_factory.mktemp("tree") / "project"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "models", "*.parquet", "site"))
    (tree / "zoo" / "models").symlink_to(ROOT / "zoo" / "models")
    (tree / "data" / "words").mkdir(parents=True)
    (tree / "data" / "words" / "four.txt").write_text(PAIRS, encoding="utf-8")
    entry = ENTRY.format(sha256=hashlib.sha256(PAIRS.encode()).hexdigest())
    (tree / "benchmark" / "data" / "sets" / "Four-4.yaml").write_text(entry, encoding="utf-8")
    return tree


def python(tree: Path, *words: str) -> str:
    """Run a module of the copy; return what it prints."""
    environment = os.environ | {"PYTHONPATH": str(tree), "ZOO_BENCH_DATA": str(tree / "data")}
    environment.pop("ZOO_BENCH_TEST_DATA", None)  # the papers' data has no Four-4
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_one_file_is_all(tree: Path, tmp_path: Path) -> None:
    """It is listed with its licence, stands in its suite, is measured and scored, and passes the checks of all."""
    (shown,) = json.loads(python(tree, "benchmark", "tasks", "quartet", "--show", "--json"))["tasks"]
    assert (shown["name"], shown["family"], shown["suites"]) == ("Four-4", "words", ["words-more"])
    assert (shown["licence"], shown["rows"], shown["found"]) == ("CC0", {"test": 4}, "folder")
    results = ("--results", str(tmp_path), "--no-controls")
    python(tree, "benchmark", "run", "--methods", "random", "--tasks", "Four-4", *results)
    table = (tmp_path / "words-more.md").read_text(encoding="utf-8")
    assert "Four" in table and "random" in table
    checks = ("tests/benchmark/data/test_catalog.py", "tests/benchmark/tasks/test_tasks.py")
    assert "test_every_entry_is_complete[Four-4]" in python(
        tree, "pytest", "-q", "-rA", *checks, "-k", "Four or every_row"
    )
