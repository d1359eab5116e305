"""Killed by SIGKILL at random instants, what is done again ends as if unbroken: a small part of the drills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_a_full_disk_ends_what_is_written_beside_a_run_with_a_sentence() -> None:
    command = [sys.executable, "-m", "tools.drills", *"disk 3 --only page,pack,export,cache,new".split()]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580)
    assert answer.returncode == 0 and "15 tried, 0 wrong" in answer.stdout, answer.stdout + answer.stderr


@pytest.mark.slow
def test_what_is_killed_ends_as_if_unbroken() -> None:
    words = "kills 3 --of run --of pack --of leaderboard".split()
    command = [sys.executable, "-m", "tools.drills", *words]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580)
    assert answer.returncode == 0 and answer.stdout.count("3 tried, 0 wrong") == 3, answer.stdout + answer.stderr
