"""Each torture, small: no difference, no silent wrong result, no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("what", "count"), [("kills", 4), ("processes", 1), ("disk", 4), ("flips", 110)])
def test_nothing_gives_way(what: str, count: int) -> None:
    assert f"{count} tried, 0 wrong" in torture(what, str(count))


@pytest.mark.parametrize("what", ["pretrain", "pack", "leaderboard"])
def test_what_is_killed_ends_as_if_unbroken(what: str) -> None:
    assert "3 tried, 0 wrong" in torture("kills", "3", "--of", what)


@pytest.mark.parametrize("arguments", ["fuzz 6", "bulk 3000"])
def test_nothing_hostile_ends_in_a_traceback(arguments: str) -> None:
    assert " tried, 0 wrong" in torture(*arguments.split()).splitlines()[-1]


def torture(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.torture", *arguments]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580)
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-3000:]
    return answer.stdout
