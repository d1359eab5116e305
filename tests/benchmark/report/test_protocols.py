"""Rows of another protocol stand in the table and are compared with none of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fakes import make_record
from scipy import stats

from benchmark.records.folder import Records
from benchmark.report.table import build_tables
from benchmark.report.write import markdown
from benchmark.tasks.suites import Suite

MEN = Suite(name="one", title="One", tasks=("MEN",), columns=("MEN",), dev="", corpus="")


def add(store: Records, name: str, gold: np.ndarray, seed: int, **changes: Any) -> None:
    predicted = gold + 0.5 * np.random.default_rng(seed).normal(size=len(gold))
    main = float(stats.spearmanr(predicted, gold).statistic)
    store.write(make_record(name, "MEN", main=main, **changes), (predicted, gold))


def line_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if f" {name} |" in line)


def test_another_protocols_row_is_not_compared_with_the_best(tmp_path: Path) -> None:
    """As good as the best, on the same pairs: marked under the same protocol, named as not compared under another."""
    gold = np.round(np.random.default_rng(0).uniform(0, 5, 120), 1)
    marked = {}
    for protocol in (1, 2):
        store = Records(tmp_path / str(protocol))
        add(store, "best", gold, 1)
        add(store, "near", gold, 2)
        add(store, "other", gold, 3, protocol=protocol)
        (table,) = build_tables(store.all(), [MEN], store)
        best = table.rows[0]
        assert best.about["protocol"] == 1, "the seeds above make the row of protocol 1 the best"
        text = markdown(table)
        marked[protocol] = "≈" in line_of(text, "other")
        assert "≈" in line_of(text, "near") or best.name == "near"
        assert ("comparable pair scores are missing: other." in text) is (protocol == 2)
    assert marked == {1: True, 2: False}
