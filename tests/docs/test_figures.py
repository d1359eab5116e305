"""Figures and verdicts between marks are those of the records: `python -m tools.findings` writes them."""

from __future__ import annotations

import re

import pytest

from tools import figures, findings

PAGES = findings.pages()


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
