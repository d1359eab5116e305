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
    lines = [line.removesuffix(r" \\") for line in code.splitlines() if line.endswith(r" \\")]
    rows = [line.split(" & ") for line in lines if not line.startswith(r"\multicolumn")]
    assert all(len(row) == len(columns[1]) for row in rows)
    return rows[1:]


def names(rows: list[list[str]]) -> list[str]:
    """Return the rows' names without their marks."""
    return [re.sub(r"\$\^\{[^$]*\}\$$", "", row[0]) for row in rows]


KNOWN = set(
    "begin end centering caption toprule midrule bottomrule textbf pm smallskip footnotesize textbackslash textbar"
    " textasciitilde textasciicircum textless textgreater textquotedbl ldots to approx geq"
    " midrule multicolumn textit par dagger ddagger S P ast".split()
)


def test_a_table_is_whole_and_its_best_values_are_bold() -> None:
    rows = check_syntax(text_of(complete("low", 0.4) + complete("top", 0.6)))
    assert names(rows) == ["top", "low"]
    assert rows[0][1:] == [r"\textbf{60.00}"] * 9
    assert rows[1][1:] == ["40.00"] * 9


def test_equal_as_printed_is_equally_bold() -> None:
    rows = check_syntax(text_of(complete("a", 0.5) + complete("b", 0.500001)))
    assert all(cell == r"\textbf{50.00}" for row in rows for cell in row[1:])


def test_spread_stands_outside_the_bold() -> None:
    records = [make_record("m", task, seed, main=0.5 + 0.1 * seed) for seed in range(2) for task in TASKS]
    row, _ = check_syntax(text_of(records + complete("n", 0.5)))
    assert row[1] == r"\textbf{55.00} $\pm$ 7.07"


def test_nothing_is_bold_over_two_protocols_or_in_a_trial() -> None:
    assert r"\textbf" not in text_of(complete("a", 0.4) + complete("b", 0.6, row="2", protocol=2))
    trial = text_of(complete("a", 0.4, limit=50))
    assert r"\textbf" not in trial and "TRIAL" in trial
    check_syntax(trial)


def conditioned(**changes: Any) -> list[Any]:
    """Records under four conditions, the best of them transductive; changes are of all records."""
    pairs = {"corpus": {"name": "nli", "pairs": 4321}}
    records = complete("plain", 0.3) + complete("also-plain", 0.4) + complete("random", 0.1)
    records += complete("sup", 0.5, training=pairs) + complete("on-test", 0.6)
    for record in records:
        name, traits = record["method"]["name"], record["method"]["traits"]
        traits |= {"transductive": name == "on-test", "needs_pairs": name == "sup"}
    return [{**record, **changes} for record in records]


def test_conditions_are_parts_and_daggers_with_a_legend() -> None:
    """A reader of the paper sees what each row learned from; nothing of the Markdown's conditions is dropped."""
    text = text_of(conditioned())
    headings = re.findall(r"\\textit\{(\w+): ", text)
    assert headings == ["untrained", "supervised", "transductive", "controls"]
    assert r"\textit{transductive: fitted on the test texts themselves}" in text
    rows = check_syntax(text)
    assert names(rows) == ["also-plain", "plain", "sup", "on-test", "random"]
    marks = {row[0].partition("$")[2] for row in rows}
    assert marks == {r"^{\dagger}$", r"^{\ddagger}$"}
    (legend,) = (line for line in text.splitlines() if r"\footnotesize $^{\dagger}$" in line)
    assert (
        r"$^{\dagger}$ tiny, fp32, protocol 1; $^{\ddagger}$ tiny, fp32, supervised: 4,321 labelled pairs of nli"
        in legend
    )


def test_nothing_is_bold_across_conditions() -> None:
    """The best of two like rows is bold; a row alone under its conditions has nothing to be better than."""
    rows = check_syntax(text_of(conditioned()))
    assert {name: r"\textbf" in row[-1] for name, row in zip(names(rows), rows, strict=True)} == {
        "also-plain": True,
        "plain": False,
        "sup": False,
        "on-test": False,
        "random": False,
    }
    nowhere = [failed(r, "no data", "n/a") for r in complete("n", 0.5)]
    assert r"\textbf" not in text_of(complete("m", 0.4) + nowhere)
    bf16 = [{**r, "precision": "bf16"} for r in complete("n", 0.5)]
    assert r"\textbf" not in text_of(complete("m", 0.4) + bf16)


def test_rows_not_told_apart_from_the_best_are_marked() -> None:
    """With what the mark means below; without such a row the table has neither."""
    (table,) = build_tables(conditioned(), [suite("sts")])
    assert "approx" not in latex(table)
    table.legend = "≈: may truly be the best."
    table.rows[0].mark = table.rows[2].mark = "≈"
    text = latex(table)
    rows = dict(zip(names(check_syntax(text)), check_syntax(text), strict=True))
    assert [name for name, row in rows.items() if row[-1].startswith(r"$\approx$ ")] == ["also-plain", "on-test"]
    assert r"\par{\footnotesize $\approx$: may truly be the best.}" in text


def test_what_is_missing_is_a_dash_with_its_reason() -> None:
    records = complete("m", 0.5)
    records[2] = failed(records[2], "no data & no_file: 100 % {gone}\nsecond line", "n/a")
    text = text_of(records)
    (row,) = check_syntax(text)
    assert (row[3], row[-2], row[-1]) == ("--", "--", "--")
    assert r"--: not available. m: STS14: no data \& no\_file: 100 \% \{gone\} second line." in text


@pytest.mark.parametrize("name", ["a_b&c%d#e$f{g}h~i^j\\k", 'méthode-<x>|"y"', "m:pooler=a,b±…"])
def test_any_name_is_escaped(name: str) -> None:
    (row,) = check_syntax(text_of(complete(name, 0.5)))
    assert names([row]) == [escape(name)]


def test_escapes_are_single_characters_not_of_escapes() -> None:
    assert escape(r"\{") == r"\textbackslash{}\{"
    assert escape("a\n b") == "a b"
    assert escape("`all`: --data, STS12-16 — no ---") == "all: -{}-data, STS12-16 --- no -{}-{}-"
