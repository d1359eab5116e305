"""How many files of the project a reader meets who follows a small run, from an empty cache, before its tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = 64  # the aim is 40


@pytest.mark.slow
def test_a_run_enters_few_files_before_its_tables(tmp_path: Path) -> None:
    environment = {**os.environ, "ZOO_BENCH_CACHE": str(tmp_path), "ZOO_BENCH_EMBEDDING_CACHE": "4"}
    command = [sys.executable, "-m", "tools.house", "walk"]
    counted = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    match = re.search(r"(\d+)  files before its tables", counted)
    assert match is not None and 10 < int(match[1]) <= FILES, counted
