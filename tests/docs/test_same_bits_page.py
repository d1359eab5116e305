"""The tables of docs/same-bits.md are what their commands print."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fakes import sentences

from tools.on_gpu import RECIPES
from tools.same_bits import CONDITIONS, methods

PAGE = Path(__file__).resolve().parents[2] / "docs" / "same-bits.md"


def block(name: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return text.partition(f"<!-- {name} -->\n")[2].partition("\n<!-- end -->")[0].splitlines()


def test_each_recipe_has_a_row_and_each_no_its_reason() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block("methods")[2:]]
    assert [row[0] for row in rows] == [f"`{name}`" for name in RECIPES]
    for name, *cells, why in rows:
        assert len(cells) == len(CONDITIONS) and set(cells) <= {"yes", "no"}
        assert ("no" in cells) == bool(why), name


@pytest.mark.slow
def test_the_command_prints_the_rows_of_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path))
    header, rule, *rows = methods(["avg-last", "whitening-target", "simcse-sup"])
    page = block("methods")
    assert page[:2] == [header, rule] and len(rows) == 3 and set(rows) <= set(page)


@pytest.mark.slow
def test_the_table_of_libraries_has_the_form_of_the_page() -> None:
    """Its figures are those of the page's texts and machine."""
    for package in ("onnxruntime", "onnx", "model2vec"):
        pytest.importorskip(package)
    from tools.same_bits_of_others import table

    texts = sentences()[:40]
    versions, empty, header, rule, *rows = table(texts[:20], texts[20:], np.arange(20.0))
    page = block("others")
    assert page[1:4] == [empty, header, rule] and "torch" in versions and "torch" in page[0]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    of_page = {line.strip("|").split("|")[0].strip() for line in page[4:]}
    assert of_page - {"OpenVINO, fp32"} == {row[0] for row in cells} - {"OpenVINO, fp32"}
    assert all(row[1:3] == ["100 %", "0e+00"] for row in cells if row[0].startswith("zoo-bench"))
    assert any(row[1] != "100 %" for row in cells)
