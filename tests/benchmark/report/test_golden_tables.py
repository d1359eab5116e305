"""Golden tables: ten published rows in every form of a table; a change of their text is reviewed as a diff.

`ZOO_BENCH_WRITE_GOLDEN=1 pytest tests/benchmark/report/test_golden_tables.py` writes the folder `golden` anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmark.report.leaderboard import Leaderboard, make_leaderboard
from benchmark.report.render import TEMPLATES
from zoo import __version__

GOLDEN = Path(__file__).with_name("golden")
PUBLISHED = Path(__file__).parents[3] / "leaderboards" / "zoo-small"
# A control, an untrained row, labels, a fit on the test texts, an override, a text to escape, one checkpoint by dev.
ROWS = (
    "random",
    "bag-of-words",
    "cls",
    "sif:a=0.01",
    'prompt:period=true:template="This sentence : \\"[X]\\" means [MASK] ."',
    "flow-target",
    "simcse",
    "ptbert-repo",
    "promptbert-repo:denoise=false",
    "sbert",
)
# Words that only some of the files have, so that no form is empty or another's.
PARTS = {
    "sts.md": "## Cost",
    "sts-published.md": "# Published beside measured",
    "sts.csv": "rank,among best",
    "sts.json": '"by_seed"',
    "sts.tex": r"\toprule",
    "sts-dev.tex": r"\textbackslash{}",
    "words.md": "## Cost",
    "words.csv": "rank,among best",
    "page.html": '"ancestry"',
    "notebook.html": "<h4>",
    "terminal.txt": "≈",
}


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    """The tables of the rows, which are not written."""
    return make_leaderboard(PUBLISHED, suites="sts,words,sts-dev", methods=",".join(ROWS), baseline="cls")


def forms_of(board: Leaderboard) -> dict[str, str]:
    """Return the texts by name; the page without its scripts and styles, which have tests in a browser."""
    page = board.files["index.html"].replace(__version__, "VERSION")
    for part in TEMPLATES.iterdir():
        if part.suffix in (".js", ".css"):
            page = page.replace(part.read_text(encoding="utf-8"), f"<{part.name}>")
    table = "\n".join(str(board).splitlines()[:-1])  # the last line names the results folder
    files = {name: text for name, text in board.files.items() if name in PARTS}
    return {**files, "page.html": page, "notebook.html": board._repr_html_(), "terminal.txt": table}


def test_every_form_of_ten_published_rows_is_the_golden_one(board: Leaderboard) -> None:
    forms = forms_of(board)
    if os.environ.get("ZOO_BENCH_WRITE_GOLDEN"):
        for name, text in forms.items():
            (GOLDEN / name).write_text(text, encoding="utf-8", newline="\n")
    assert {path.name for path in GOLDEN.iterdir()} == forms.keys() == PARTS.keys()
    for name, text in forms.items():
        assert PARTS[name] in text, name
        assert text.splitlines() == (GOLDEN / name).read_text(encoding="utf-8").splitlines(), name
