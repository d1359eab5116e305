"""`zoo-bench reproduce`: what it lists, what it refuses, and an analysis of a paper from the command to the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import Cli

from benchmark.leaderboard.papers import all_items

pytestmark = pytest.mark.slow


def test_the_list_names_everything_with_needs_or_the_reason(cli: Cli) -> None:
    answer = cli("reproduce", "--list", "--backbone", "zoo-mini", "--train-sentences", 64, "--precision", "fp32")
    assert answer.code == 0, answer.err
    lines = {
        line.split()[0]: line for line in answer.out.splitlines() if line.startswith(("ptbert", "burt", "promptbert"))
    }
    assert set(lines) == set(all_items())
    assert " none " in lines["ptbert-figure1"] and "a drawing" in lines["ptbert-figure1"]
    assert "skipthought:path=FILE" in lines["burt-table2"] and " partly " in lines["burt-table2"]
    printed = cli("reproduce", "--list", "ptbert-table3")
    assert " not here " in printed.out and "google-bert/bert-base-uncased" in printed.out and "days" in printed.out


def test_what_cannot_be_measured_or_is_unknown_is_told(cli: Cli) -> None:
    answer = cli("reproduce", "promptbert-table13")
    assert answer.code == 1 and "the recipes `promptbert*` have them" in answer.out
    answer = cli("reproduce", "promptbert-tabel13")
    assert answer.code == 2 and "Did you mean 'promptbert-table13'" in answer.err
    assert "--list has all" in cli("reproduce").err


def test_a_papers_analysis_ends_in_a_page_with_both_numbers(cli: Cli, tmp_path: Path) -> None:
    arguments = ("reproduce", "promptbert-table7", "--backbone", "zoo-mini", "--results", tmp_path, "--device", "cpu")
    dry = cli(*arguments, "--dry-run")
    assert dry.code == 0 and "zoo-bench analyze top-tokens --period" in dry.out and not list(tmp_path.iterdir())
    answer = cli(*arguments, "--precision", "fp32")
    assert answer.code == 0, answer.err
    page = (tmp_path / "papers" / "promptbert-table7" / "beside.md").read_text(encoding="utf-8")
    assert "| **i am sad.** | theirs | sad,sadness,happy,love,happiness |" in page
    assert page.count("| ours | ours |") == 4 and "zoo-mini" in page
