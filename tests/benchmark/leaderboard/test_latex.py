"""LaTeX that a reader's TeX would take: escaped, balanced, as wide as it says; bold only where there is a best."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fakes import failed, make_record

from benchmark.leaderboard.latex import escape, latex
from benchmark.leaderboard.table import build_tables
from benchmark.tasks.suites import suite

TASKS = suite("sts").tasks


def text_of(records: list[Any]) -> str:
    (table,) = build_tables(records, [suite("sts")])
    return latex(table)


def complete(name: str, level: float, **changes: Any) -> list[Any]:
    return [make_record(name, task, main=level, **changes) for task in TASKS]


def check_syntax(text: str) -> list[list[str]]:
    """Return the cells of each body row, once environments and braces balance and no special character is bare."""
    code = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", code):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", code):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
    assert len(re.findall(r"(?<!\\)\$", code)) % 2 == 0
    assert not re.search(r"(?<!\\)[#%_^~]", re.sub(r"(?<!\\)\$[^$]*\$", "", code))
    assert all(name in KNOWN for name in re.findall(r"\\([A-Za-z]+)", code))
    columns = re.search(r"\\begin\{tabular\}\{(l r*|lr*)\}", code)
    assert columns
    rows = [line.removesuffix(r" \\").split(" & ") for line in code.splitlines() if line.endswith(r" \\")]
    assert all(len(row) == len(columns[1]) for row in rows)
    return rows[1:]


KNOWN = set(
    "begin end centering caption toprule midrule bottomrule textbf pm smallskip footnotesize textbackslash textbar"
    " textasciitilde textasciicircum textless textgreater textquotedbl ldots to".split()
)


def test_a_table_is_whole_and_its_best_values_are_bold() -> None:
    rows = check_syntax(text_of(complete("low", 0.4) + complete("top", 0.6)))
    assert [row[0] for row in rows] == ["top", "low"]
    assert rows[0][1:] == [r"\textbf{60.00}"] * 8
    assert rows[1][1:] == ["40.00"] * 8


def test_equal_as_printed_is_equally_bold() -> None:
    rows = check_syntax(text_of(complete("a", 0.5) + complete("b", 0.500001)))
    assert all(cell == r"\textbf{50.00}" for row in rows for cell in row[1:])


def test_spread_stands_outside_the_bold() -> None:
    records = [make_record("m", task, seed, main=0.5 + 0.1 * seed) for seed in range(2) for task in TASKS]
    (row,) = check_syntax(text_of(records))
    assert row[1] == r"\textbf{55.00} $\pm$ 7.07"


def test_nothing_is_bold_over_two_protocols_or_in_a_trial() -> None:
    assert r"\textbf" not in text_of(complete("a", 0.4) + complete("b", 0.6, row="2", protocol=2))
    trial = text_of(complete("a", 0.4, limit=50))
    assert r"\textbf" not in trial and "TRIAL" in trial
    check_syntax(trial)


def test_what_is_missing_is_a_dash_with_its_reason() -> None:
    records = complete("m", 0.5)
    records[2] = failed(records[2], "no data & no_file: 100 % {gone}\nsecond line", "n/a")
    text = text_of(records)
    (row,) = check_syntax(text)
    assert (row[3], row[-1]) == ("--", "--")
    assert r"--: not available. m: STS14: no data \& no\_file: 100 \% \{gone\} second line." in text


@pytest.mark.parametrize("name", ["a_b&c%d#e$f{g}h~i^j\\k", 'méthode-<x>|"y"', "m:pooler=a,b±…"])
def test_any_name_is_escaped(name: str) -> None:
    (row,) = check_syntax(text_of(complete(name, 0.5)))
    assert row[0] == escape(name)


def test_escapes_are_single_characters_not_of_escapes() -> None:
    assert escape(r"\{") == r"\textbackslash{}\{"
    assert escape("a\n b") == "a b"
    assert escape("`all`: --data, STS12-16 — no ---") == "all: -{}-data, STS12-16 --- no -{}-{}-"
