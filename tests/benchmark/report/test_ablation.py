"""An ablation: every row beside its base, with the numbers of `compare`, on the terminal and in LaTeX."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import Cli

from benchmark.report.ablation import ablation
from benchmark.report.comparison import compare_rows
from zoo.errors import UsageError

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
