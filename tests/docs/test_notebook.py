"""The notebook of the docs runs from top to bottom in a kernel of its own, and shows what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")
pytest.importorskip("ipykernel", reason="pip install nbclient ipykernel")
pytest.importorskip("matplotlib", reason="pip install 'zoo-bench[plots]'")
pytest.importorskip("mteb", reason="pip install 'zoo-bench[mteb]'")

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "notebooks" / "measure-your-encoder.ipynb"


def read() -> Any:
    nbformat = pytest.importorskip("nbformat", reason="pip install nbclient ipykernel")
    return nbformat.read(NOTEBOOK, as_version=4)


def test_the_notebook_ships_without_outputs() -> None:
    assert all(not cell.outputs and cell.execution_count is None for cell in read().cells if cell.cell_type == "code")


def test_the_notebook_runs_and_shows_its_tables(tmp_path: Path) -> None:
    notebook = read()
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))
    shown = [out.data for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs if "data" in out]
    # Others are bars of the progress.
    tables = [data["text/html"] for data in shown if "<table" in data.get("text/html", "")]
    assert len(tables) == 6  # the function, its frame, several, the comparison, the leaderboard, the library's model
    assert all("pocket-words" in table or "Pocket (" in table for table in tables)
    names = ("letters", "letters", "client", "avg-last", "my-encoder", "the library")
    for table, name in zip(tables, names, strict=True):
        assert name in table
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    printed = "".join(out.text for out in outputs if out.output_type == "stream")
    assert "5 encoders x 2 tasks" in printed and "[5/5] " in printed, "the progress"
    (plot,) = [data["image/png"] for data in shown if "image/png" in data]
    assert len(plot) > 1000
    assert (tmp_path / "results" / "pocket.md").is_file() and (tmp_path / "exported" / "modules.json").is_file()
    assert "zoo-bench/my-encoder" in shown[-1]["text/plain"]
