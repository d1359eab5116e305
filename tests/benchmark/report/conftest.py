"""Pages, and a browser to read them with."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import failed, make_record
from page_fakes import EVIL, method_records, renamed, training, wide_table

from benchmark.report.page import page
from benchmark.report.table import build_tables
from benchmark.tasks.suites import suite


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "wide.html"
    path.write_text(page([wide_table(60, 40)]), encoding="utf-8")
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two suites: three seeds with curves, one value, a gap, and a name that is HTML."""
    curve = training({"250": 50.25, "1000": 51.5})
    pairs = ["pocket-pairs", "pocket-words", "pocket-phrases", "pocket-topics"]
    records = method_records("alpha", 0.4, range(3), training=curve) + method_records("beta", 0.6)
    records += [failed(make_record("gamma", "STS12"), "no data for STS12 here", "n/a")]
    records += method_records("gamma", 0.7, tasks=suite("sts").tasks[1:]) + method_records("alpha", 0.5, tasks=pairs)
    tables = build_tables(records, [suite("sts"), suite("pocket")])
    tables[0].legend = "≈: tied for the best."
    tables[0].rows[1].mark = "≈"
    (tmp_path / "page.html").write_text(page([renamed(tables[0], 0, EVIL), tables[1]]), encoding="utf-8")
    return tmp_path / "page.html"
