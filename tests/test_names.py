"""Names of tests say what they hold, in fewer than 60 characters, so that a list of failures can be read."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
LONGEST = 59


def test_names_of_tests_are_short() -> None:
    found = {
        name: path.relative_to(TESTS)
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^\s*def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(found) > 500
    assert {name: path for name, path in found.items() if len(name) > LONGEST} == {}
