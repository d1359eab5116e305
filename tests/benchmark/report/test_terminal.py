"""A table in a terminal: as wide as it, with whole numbers, the mean and the file's path, in the characters it has."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes import Cli
from test_leaderboard import complete, table_of

from benchmark.records.folder import Records
from benchmark.report.rows import score_text, signed
from benchmark.report.show import print_table
from benchmark.report.terminal import Field, fitted, folded
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
    assert all(len(line) <= width for line in lines if " " in line.strip())
    for row in table.rows:
        (line,) = (one for one in lines if row.average.text() in one)
        assert f"{row.rank}  {row.name[:8]}" in line
    assert str(tmp_path / f"{name}.md") in answer.out
    fits = name == "pocket" and width == 120
    assert ("Not shown at this width, but in the files: the spread over seeds of each task" in answer.out) != fits


@pytest.mark.parametrize("names", [("simcse", "ptbert"), ("promptbert-sup-roberta", "cls", "whitening-target")])
def test_a_mean_of_some_tasks_gives_way_where_all_tasks_of_the_average_then_stand_beside_it(
    names: Sequence[str],
) -> None:
    """From wide to narrow: all columns, then all tasks and the average, then fewer tasks beside the means."""
    table = table_of([record for name in names for record in complete(name, range(3))])
    seen: list[tuple[str, ...]] = []
    for width in range(140, 55, -1):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        print_table(table, stream, width=width)
        stream.seek(0)
        heads = next(line for line in stream if "Method" in line).split()
        assert "Avg." in heads
        seen.append(tuple(name for name in (*suite("sts").tasks, *suite("sts").means) if name not in heads))
    assert list(dict.fromkeys(seen))[:4] == [(), ("STS12-16",), ("STS15", "STS16"), ("STS14", "STS15", "STS16")]


def test_a_terminal_without_utf8_gets_ascii() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii", write_through=True)
    table = table_of(complete("méthode", range(3)))
    table.rows[0].mark = "≈"
    print_table(table, stream)
    text = written.getvalue().decode("ascii")
    assert "+-" in text and re.search(r"^1  m\?thode .*  ~$", text, re.MULTILINE)


@pytest.mark.parametrize("width", [30, 80, 100, 160])
def test_the_least_important_columns_go_first_and_names_keep_both_ends(width: int) -> None:
    """What is left out is named; a name that is cut stays another one than its neighbours."""
    names = [f"sentence-transformers/all-MiniLM-L6-v2 dims={dims}" for dims in (64, 128, 384)]
    columns = [
        ("score [95 %]", ["71.2 [70.1, 72.3]"] * 3),
        ("ms", ["7.1"] * 3),
        *((f"c{i}", ["1" * 9] * 3) for i in range(9)),
    ]
    fields = [Field("", names, right=False, name=True)]
    fields += [Field(head, cells, priority=place) for place, (head, cells) in enumerate(columns)]
    lines, left_out = fitted(fields, width)
    assert all(len(line) <= width for line in lines)
    heads = [head for head, _ in columns]
    assert left_out == heads[len(heads) - len(left_out) :]
    assert len({line.partition("71.2 [70.1, 72.3]")[0] for line in lines[2:]}) == len(names)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_prose_is_broken_at_blanks_alone(width: int) -> None:
    """Words stay whole, what continues a line begins where it does, and a pipe gets each line as it is."""
    text = "  differs: simcse on STS-B: 64.44 is recorded, and 64.45 when its pairs are encoded again; " * 2
    lines = folded([text], width)
    assert len(lines) > 1 and all(len(line) <= width and line.startswith("  ") for line in lines)
    assert " ".join(lines).split() == text.split()
    assert folded([text], None) == [text]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_last_column_is_broken_beside_the_others_or_below_them(width: int) -> None:
    licence = "not stated; commonly taken to be for research alone, as its authors answered"
    fields = [Field("SET", ["MPQA"], right=False), Field("ROWS", ["train 4,076, test 1,725, dev 500"], right=False)]
    lines, left_out = fitted([*fields, Field("LICENCE", [licence], right=False, prose=True)], width, rule=False)
    assert not left_out and all(len(line) <= width for line in lines)
    assert " ".join(" ".join(lines).split()).endswith(licence) or width > 60
    assert licence.split()[-1] in lines[-1]


@pytest.mark.parametrize(
    ("value", "score", "gap"), [(-0.004, "0.00", "0.00"), (0.004, "0.00", "+0.00"), (-0.006, "-0.01", "-0.01")]
)
def test_a_zero_has_no_minus(value: float, score: str, gap: str) -> None:
    assert score_text(value) == score and signed(value) == gap
    assert signed(value, 1) == ("+0.0" if value > 0 else "0.0")
