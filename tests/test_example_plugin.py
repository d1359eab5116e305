"""The worked plugin of examples/: installed through pip into a folder of its own, found by its entry points, run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from server import run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "zoo-bench-trigrams"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    target = tmp_path_factory.mktemp("plugin")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), str(EXAMPLE)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    assert not (ROOT / "examples" / "zoo-bench-trigrams" / "build").exists()
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(target), os.environ.get("PYTHONPATH", "")])}


def zoo_bench(*arguments: str, environment: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-m", "benchmark.cli.main", *arguments], env=environment, cwd=cwd)


def test_installed_plugin_is_listed_without_being_loaded(installed: dict[str, str], tmp_path: Path) -> None:
    result = zoo_bench("methods", environment=installed, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "plugin (zoo_bench_trigrams:Trigrams" in result.stdout  # the line is cut where the window ends


def test_installed_plugin_keeps_the_contract(installed: dict[str, str], tmp_path: Path) -> None:
    result = zoo_bench("doctor", "trigrams", environment=installed, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_installed_method_and_task_run_beside_the_built_in_ones(installed: dict[str, str], tmp_path: Path) -> None:
    arguments = ("run", "--methods", "trigrams,trigrams:buckets=64,static-avg", "--tasks", "opposites,pocket-pairs")
    result = zoo_bench(*arguments, environment=installed, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    table = json.loads((tmp_path / "zoo-bench-results" / "other.json").read_text(encoding="utf-8"))
    scores = {row["method"]: row["scores"]["opposites"]["mean"] for row in table["rows"]}
    assert set(scores) == {"trigrams", "trigrams:buckets=64", "static-avg"}
    assert {row["method"]: (row["backbone"], row["precision"], row["parameters"]) for row in table["rows"]}[
        "trigrams"
    ] == ("", "fp32", 0)
    assert scores["trigrams"] < 0, "words that mislead must mislead a bag of characters"


def test_the_same_file_runs_without_being_installed(tmp_path: Path) -> None:
    plugin = EXAMPLE / "zoo_bench_trigrams.py"
    arguments = ("run", "--plugin", str(plugin), "--methods", "trigrams", "--tasks", "opposites")
    result = zoo_bench(*arguments, environment=dict(os.environ), cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "opposites" in result.stdout
