"""Each tutorial as a notebook: valid, with every command of the page, one executed; and the example of a page runs."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

DOCS = Path(__file__).resolve().parents[2] / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))


def notebook(tutorial: Path) -> Any:
    nbformat = pytest.importorskip("nbformat", reason="pip install nbclient ipykernel")
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec is not None and spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    return nbformat.from_dict(hooks.notebook(tutorial.read_text(encoding="utf-8")))


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_is_a_valid_notebook_with_all_its_commands(tutorial: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="pip install nbclient ipykernel")
    cells = notebook(tutorial)
    nbformat.validate(cells)
    commands = re.findall(r"^zoo-bench .+", tutorial.read_text(encoding="utf-8"), re.M)
    code = "\n".join(cell.source for cell in cells.cells if cell.cell_type == "code")
    assert re.findall(r"^!(zoo-bench .+)", code, re.M) == commands != []
    text = "\n".join(cell.source for cell in cells.cells if cell.cell_type == "markdown")
    assert "```sh" not in text and ".md)" not in text


@pytest.mark.slow
def test_the_notebook_of_choose_gives_the_answer_of_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")
    monkeypatch.delenv("ZOO_BENCH_BACKBONE", raising=False)  # the tests' own is smaller than a reader's
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    cells = notebook(DOCS / "tutorials" / "choose.md")
    nbclient.NotebookClient(cells, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))
    shown = "".join(out.get("text", "") for cell in cells.cells for out in cell.get("outputs", ()))
    shown = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", shown).split())
    assert "static-freq-sub-case-pun is first: Spearman 72.4" in shown
    assert "dims=64 int8" in shown


@pytest.mark.slow
def test_the_page_of_adapt_states_what_its_files_hold(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines before its table: they depend on no training."""
    monkeypatch.delenv("ZOO_BENCH_BACKBONE", raising=False)  # the tests' own is smaller than a reader's
    page = (DOCS / "tutorials" / "adapt.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r'```python title="shop.py"\n(.*?)```', page, re.DOTALL)
    exec(code, {})
    (command,) = re.findall(r"^zoo-bench (adapt .*?) --methods whitening,cosent", page, re.M)
    answer = cli(*shlex.split(command), "--methods", "whitening", "--out", tmp_path / "adapted")
    (stated,) = re.findall(r"^tickets.txt: .*?^starts from zoo-small$", page, re.M | re.DOTALL)
    assert " ".join(stated.split()) in " ".join(answer.out.split())


PAGE = (Path(__file__).parents[2] / "docs/significance.md").read_text(encoding="utf-8")


def test_the_example_tells_two_methods_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """One of twice the noise is below the other, and is not among the best."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    numbers, best = capsys.readouterr().out.splitlines()
    low, high, p = map(float, numbers.split())
    assert 0 < low < high and p < 0.05
    assert best == "[ True False]"
