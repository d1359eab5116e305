"""Every reason for n/a stands in one table, which the handbook shows, and is given somewhere."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmark.reasons import REASONS, page, reason

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (ROOT / "benchmark", ROOT / "papers/zoo_bench_papers")
FILES = [path for room in ROOMS for path in sorted(room.rglob("*.py"))]
# Where a record or a value gets its reason.
GIVEN = {"Measured": 2, "Value": 3}


def test_the_handbook_has_every_reason() -> None:
    """`python -m benchmark.reasons` prints the table."""
    assert (ROOT / "docs/reference/missing.md").read_text(encoding="utf-8").endswith(f"\n\n{page()}")


def test_every_reason_is_given_and_no_other() -> None:
    """A literal anywhere in a file that gives reasons counts, since a name may be chosen before."""
    literals: set[str] = set()
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        direct = [node.args[0] for node in calls if getattr(node.func, "id", "") == "reason"]
        assert {a.value for a in direct if isinstance(a, ast.Constant)} <= REASONS.keys(), path
        if direct:
            literals |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)} & REASONS.keys()
    assert literals | {"quoted"} == REASONS.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_file_words_a_reason_of_its_own(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and (place := GIVEN.get(getattr(node.func, "id", ""))):
            words = node.args[place : place + 1] + [word.value for word in node.keywords if word.arg == "reason"]
            assert not any(isinstance(word, ast.JoinedStr) for word in words), f"{path}:{node.lineno}"
            assert not any(isinstance(getattr(word, "value", None), str) for word in words), f"{path}:{node.lineno}"


def test_a_reason_has_its_values() -> None:
    assert reason("uncovered", without=1200, texts=3000) == "1,200 of its 3,000 texts have no vector in the file"
    with pytest.raises(KeyError):
        reason("seeds", done=1)
