"""A row that lacks seeds of its run says so in every output, and has no mark; its records state how many there were."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from fakes import Cli, make_record
from scipy import stats

from benchmark.records.folder import Records
from benchmark.report.latex import latex
from benchmark.report.page import page
from benchmark.report.rows import Table
from benchmark.report.show import print_table
from benchmark.report.table import build_tables
from benchmark.report.write import csv, markdown
from benchmark.tasks.suites import Suite

PAIRS = Suite(name="one", title="One", tasks=("WS-353-sim",), columns=("WS-353-sim",), dev="", corpus="")
GOLD = np.random.default_rng(0).uniform(0, 5, 60)


def table_of(store: Records) -> Table:
    (table,) = build_tables(store.all(), [PAIRS], store)
    return table


def test_missing_seeds_are_said_and_the_row_has_no_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Records(tmp_path)
    for name, seeds in (("whole", (0, 1, 2)), ("other", (0, 1, 2)), ("lacking", (0, 2))):
        for seed in seeds:
            predicted = GOLD + np.random.default_rng([seed, len(name)]).normal(size=len(GOLD))
            main = float(stats.spearmanr(predicted, GOLD).statistic)
            store.write(make_record(name, "WS-353-sim", seed, main=main, seeds=3), (predicted, GOLD))
    table = table_of(store)
    assert {row.name: (row.mark, row.missing_seeds) for row in table.rows} == {
        "whole": ("≈", ""),
        "other": ("≈", ""),
        "lacking": ("", "2 of 3 seeds"),
    }
    assert all(row.average.mean is not None for row in table.rows)
    assert (
        "Seeds are missing, so there is no mark (run the same command again): lacking (2 of 3 seeds)." in table.legend
    )
    print_table(table)
    outputs = (markdown(table), latex(table), csv(table), page([table]), capsys.readouterr().out)
    for text in outputs:
        assert "2 of 3 seeds" in " ".join(text.split())
    predicted = GOLD + np.random.default_rng([1, len("lacking")]).normal(size=len(GOLD))
    store.write(make_record("lacking", "WS-353-sim", 1, seeds=3), (predicted, GOLD))
    assert not any(row.missing_seeds for row in table_of(Records(tmp_path)).rows)


def test_records_state_how_many_seeds_were_planned(cli: Cli, fakes: None, tmp_path: Path) -> None:
    line = "run --methods bag,fitted --seeds 2 --shard 1/2 --tasks pocket-words --limit 20 --results".split()
    assert cli(*line, tmp_path).code == 0
    records = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "records").rglob("*.json")]
    assert {(r["method"]["name"], r["seed"]): r.get("seeds") for r in records} == {
        ("bag", None): None,
        ("fitted", 0): 2,
    }
