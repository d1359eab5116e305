"""`compare` draws pairs that share a text together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fakes import Cli, make_record
from test_compare import GOLD, compared, rho, scores_of

from benchmark.data.sources import DataSource
from benchmark.records.folder import Records
from benchmark.records.query import scored_pairs
from benchmark.stats.bootstrap import influences
from benchmark.stats.clusters import clusters_of
from benchmark.tasks.loaded import load_tasks
from benchmark.tasks.overlap import numbered


@pytest.mark.slow
def test_pairs_that_share_a_text_are_drawn_together(cli: Cli, tmp_path: Path) -> None:
    """Of a known task, of its first pairs, whose texts are read here, and of a task whose texts are nowhere."""
    store = Records(tmp_path)
    everywhere = DataSource(None, hub=False)
    effective, errors = {}, {}
    for name, limit in (("pocket-words", None), ("pocket-phrases", None), ("pocket-pairs", 40)):
        (task,) = load_tasks([name], everywhere, limit)
        pairs = scored_pairs(task, "test")
        texts = numbered([*zip(pairs.first, pairs.second, strict=True)])
        effective[name] = clusters_of(*texts.T).effective
        wrong = [np.random.default_rng(row).normal(size=texts.max() + 1) for row in range(2)]  # by text
        rows = [np.float32(pairs.gold + of_row[texts].sum(axis=1)) for of_row in wrong]
        apart = np.subtract(*influences(np.stack(rows), pairs.gold)[1])
        errors[name] = 100 * np.sqrt(apart @ apart) / len(apart), len(apart)
        for row, predicted in zip("ab", rows, strict=True):
            record = make_record(row, name, main=rho(predicted, pairs.gold)) | {"limit": limit}
            store.write(record, (predicted, pairs.gold))
    for row in "ab":
        predicted = scores_of("good" if row == "a" else "bad", "MEN", None)
        store.write(make_record(row, "MEN", main=rho(predicted, GOLD["MEN"])), (predicted, GOLD["MEN"]))
    words = ("a", "b", "--results", tmp_path, "--tasks")
    for name, expected in effective.items():
        (line,) = compared(cli, *words, name)["comparisons"][0]["lines"]
        assert line["unrelated"] == pytest.approx(expected)
        unrelated, rows = errors[name]
        assert round(expected) - 1 <= round(line["df"], 6) <= rows - 1
        assert line["pairs_error"] >= unrelated
    assert effective["pocket-words"] < 300
    shown = " ".join(cli("compare", *words, "pocket-words,MEN").out.split())
    assert f"fewer unrelated ones: {effective['pocket-words']:,.0f} for pocket-words." in shown
    assert "Rows are taken as independent, because their texts are not at hand: MEN." in shown
    assert "drawn together" not in cli("compare", *words, "MEN").out
