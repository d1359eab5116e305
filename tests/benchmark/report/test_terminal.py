"""A table in a terminal: as wide as it, with whole numbers, the mean and the file's path, in the characters it has."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from fakes import Cli
from test_leaderboard import complete, table_of

from benchmark.records.folder import Records
from benchmark.report.show import print_table
from benchmark.tasks.suites import suite


@pytest.mark.parametrize("name", ["sts", "pocket"])
@pytest.mark.parametrize("width", [80, 120])
def test_a_table_fits_the_terminal(
    name: str, width: int, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is longer, each row is a line with its mean, and the file that has the rest is named."""
    store, names = Records(tmp_path), ("simcse", "ptbert", "promptbert-sup-roberta")
    for record in (one for row in names for one in complete(row, range(3), suite(name).tasks)):
        store.write(record)
    monkeypatch.setenv("COLUMNS", str(width))
    answer = cli("leaderboard", "--results", tmp_path, "--suite", name)
    table = table_of(store.all(), name)
    lines = answer.out.splitlines()
    assert all(len(line) <= width for line in lines if not line.startswith("written:"))
    for row in table.rows:
        (line,) = (one for one in lines if row.average.text() in one)
        assert f"{row.rank}  {row.name[:8]}" in line
    assert str(tmp_path / f"{name}.md") in answer.out
    fits = name == "pocket" and width == 120
    assert ("Not shown at this width, but in the files: the spread over seeds of each task" in answer.out) != fits


def test_a_terminal_without_utf8_gets_ascii() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii", write_through=True)
    table = table_of(complete("méthode", range(3)))
    table.rows[0].mark = "≈"
    print_table(table, stream)
    text = written.getvalue().decode("ascii")
    assert "+-" in text and "~1  m?thode" in text
