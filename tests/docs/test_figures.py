"""Figures and verdicts between marks are those of the records: `python -m tools.findings` writes them."""

from __future__ import annotations

import re

import pytest

from tools import figures, findings

PAGES = findings.pages()
ROOT = findings.ROOT
PROSE = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("leaderboards/**/README.md"))]
_NUMBER = r"[+-]?\d+\.\d\d"
BY_HAND = re.compile(rf"{_NUMBER} ?(?:\(|, |with ){_NUMBER} to {_NUMBER}|{_NUMBER} ± \d+\.\d\d")
# Blocks of a terminal with intervals that no mark makes: others' tests have the first, the others train for minutes.
BLOCKS_OF_OTHERS = {"README.md": 5, "docs/tutorials/adapt.md": 4, "docs/tutorials/teach.md": 1}
IN_BLOCKS = re.compile(r"-?\d+\.\d+,? to [+-]?\d+\.|\[-?\d+\.\d+, -?\d+\.\d+\]|\d ± \d")
# Figures of runs that have no records here: texts that are not included, other machines, and speeds.
WITHOUT_RECORDS = {"docs/how-to/own-domain.md", "docs/methods/finished.md", "docs/pocket.md", "docs/tutorials/teach.md"}


def test_the_first_figures_are_those_of_the_records() -> None:
    """The page that most people read; the test of all pages takes longer."""
    assert findings.written({"README.md": PAGES["README.md"]}) == {"README.md": PAGES["README.md"]}


@pytest.mark.slow
def test_every_figure_is_that_of_the_records() -> None:
    assert {path for path, text in findings.written(PAGES).items() if text != PAGES[path]} == set()


@pytest.mark.parametrize("path", PAGES)
def test_no_line_of_running_text_starts_with_a_mark(path: str) -> None:
    """A line that does is a block of HTML, in which Markdown stays as it is typed."""
    inline = [mark for mark in figures.MARK.finditer(PAGES[path]) if not mark[4].startswith("\n")]
    at = {position for mark in inline for position in (mark.start(1), mark.start(5))}
    assert not [PAGES[path][i : i + 60] for i in at if re.search(r"(^|\n)[ \t>*-]*$", PAGES[path][:i])]


def test_no_interval_and_no_spread_is_kept_by_hand() -> None:
    """Those of records stand between marks; what a listing prints is tested where its command is."""
    by_hand = {}
    for path in PROSE:
        text = re.sub(r"```.*?```|<!-- made: .*?<!-- end -->", "", path.read_text(encoding="utf-8"), flags=re.S)
        if figures_of := BY_HAND.findall(text):
            by_hand[path.relative_to(ROOT).as_posix()] = figures_of
    assert by_hand.keys() <= WITHOUT_RECORDS, by_hand


def test_no_block_of_a_terminal_has_an_interval_that_no_command_writes() -> None:
    lines = {}
    for path in PROSE:
        text = re.sub(r"<!-- made: .*?<!-- end -->", "", path.read_text(encoding="utf-8"), flags=re.S)
        blocks = [block for block in re.findall(r"^```.*?^```", text, re.S | re.M) if not block.startswith("```python")]
        if count := sum(bool(IN_BLOCKS.search(line)) for block in blocks for line in block.splitlines()):
            lines[path.relative_to(ROOT).as_posix()] = count
    assert lines == BLOCKS_OF_OTHERS


def test_a_block_of_a_terminal_is_written_again_with_its_own_times() -> None:
    text = PAGES["README.md"]
    (block,) = re.findall(r"<!-- made: choose -->.*?<!-- end -->", text, re.S)
    forged = block.replace("[40.7, 90.0]", "[50.7, 80.0]").replace("   17.3", "   12.3")
    assert forged != block and findings.written({"": forged}) == {"": block}
    times = block.replace("45    0.86", "45    0.97")
    assert times != block and findings.written({"": times}) == {"": times}


def test_the_fastest_of_a_block_stays_and_its_intervals_do_not() -> None:
    (block,) = re.findall(r"<!-- made: verdict -->.*?<!-- end -->", PAGES["docs/tutorials/choose.md"], re.S)
    text = " ".join(block.split())
    assert "fastest of them is bag-of-words." in text
    other = text.replace("is bag-of-words.", "is avg-last.").replace("40.7 to", "50.7 to")
    (again,) = findings.written({"": other}).values()
    assert "fastest of them is avg-last." in " ".join(again.split()) and "40.7 to" in " ".join(again.split())
