"""A table in a terminal: as wide as it, with whole numbers, the mean and the file's path, in the characters it has."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from fakes import Cli, failed, make_record
from test_leaderboard import SEVEN, complete, table_of

from benchmark.records.folder import Records
from benchmark.report.terminal import print_table, text_of
from benchmark.tasks.suites import suite

LONG = "promptbert-sup-roberta-transfer:template_length=256:epochs=4"


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
    whole = name == "pocket" and width == 120
    assert ("Not shown at this width, but in the files: the spread over seeds of each task" in answer.out) != whole


def test_the_spread_goes_first_then_the_last_tasks_then_letters_of_names() -> None:
    records = [*complete("simcse", range(3)), *complete(LONG), failed(make_record("half", "STS12"), "no data", "n/a")]
    table = table_of(records)
    texts = {}
    for width in (None, 160, 80, 20):
        texts[width] = text_of([table], width)
    assert LONG in texts[None] and "n/a (0 of 7 tasks)" in texts[None]
    first = next(row for row in table.rows if row.name == "simcse")
    for task in SEVEN:
        assert first.values[task].text() in texts[None]
        assert first.values[task].text() not in texts[160]
        assert first.values[task].text().split()[0] in texts[160]
    assert "STS12  " in texts[80] and " STS-B" not in texts[80].split("─")[0]
    assert first.average.text().split()[0] in texts[20]
    assert max(map(len, texts[20].partition("zoo-bench")[0].splitlines())) <= 20, "all but the signature, one word"


def test_a_terminal_without_utf8_gets_ascii() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii", write_through=True)
    table = table_of(complete("méthode", range(3)))
    table.rows[0].mark = "≈"
    print_table(table, stream)
    text = written.getvalue().decode("ascii")
    assert "+-" in text and "~1  m?thode" in text
