"""The README's table and the leaderboards' are what their records make: no cell is typed in by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmark.leaderboard.table import build_tables
from benchmark.leaderboard.write import markdown
from benchmark.records.store import Records
from benchmark.tasks.suites import all_suites

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path.parent for path in ROOT.glob("leaderboards/*/records"))


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def test_every_line_of_the_readme_s_table_is_a_line_of_the_leaderboard() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- top of leaderboards/zoo-mini/sts.md -->\n(.*?)<!-- end -->", readme, re.DOTALL)
    assert shown is not None
    table = rows((ROOT / "leaderboards/zoo-mini/sts.md").read_text(encoding="utf-8"))
    lines = rows(shown[1])
    assert len(lines) > 10
    assert lines == table[: len(lines)]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_tables_are_those_of_the_records(folder: Path) -> None:
    """Every score; what is tied needs the pair scores of all rows and is left to the tests of ties."""
    tables = build_tables(Records(folder, set_aside=False).all(), list(all_suites().values()))
    assert tables
    for table in tables:
        shipped = (folder / f"{table.suite.name}.md").read_text(encoding="utf-8").replace("≈", "")
        assert [line for line in rows(markdown(table)) if line not in rows(shipped)] == []
