"""Rows tied with the best: right by a bootstrap of its own, unknown where pair scores are missing, cached."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import make_record
from scipy import stats

from benchmark.leaderboard import significance
from benchmark.leaderboard.report import make_leaderboard
from benchmark.leaderboard.table import Table, build_tables
from benchmark.leaderboard.write import markdown
from benchmark.records.store import Records
from benchmark.tasks.suites import Suite, suite

TASKS = ("WS-353-sim", "MEN")
WORDS = Suite(name="two", title="Two", tasks=TASKS, columns=TASKS, dev="", corpus="")
SIZES = {"WS-353-sim": 60, "MEN": 150}
GOLD = {task: np.round(np.random.default_rng(n).uniform(0, 5, n), 1) for task, n in SIZES.items()}


def scores_of(task: str, noise: float, seed: int) -> np.ndarray:
    """Return scores that follow the gold ones more or less closely."""
    return np.asarray(GOLD[task] + noise * np.random.default_rng([seed, SIZES[task]]).normal(size=SIZES[task]))


def add(store: Records, name: str, noise: float, seeds: Sequence[Any] = (None,), base: int = 0, **changes: Any) -> None:
    """Write records of a method with their pair scores."""
    for task in TASKS:
        for seed in seeds:
            predicted = scores_of(task, noise, base + (seed or 0))
            main = float(stats.spearmanr(predicted, GOLD[task]).statistic)
            store.write(make_record(name, task, seed, main=main, **changes), (predicted, GOLD[task]))


def table_of(store: Records) -> Table:
    """Return the only table of a folder."""
    (table,) = build_tables(store.all(), [WORDS], store)
    return table


def ties(table: Table) -> dict[str, bool | None]:
    """Return `tied` of each row."""
    return {row.name: row.tied for row in table.rows}


@pytest.fixture
def store(tmp_path: Path) -> Records:
    """A best method of two seeds, a second that is hardly worse, a third that is."""
    folder = Records(tmp_path / "results")
    add(folder, "best", 1.0, (0, 1), base=10)
    add(folder, "near", 1.1, base=30)
    add(folder, "far", 3.0, base=20)
    return folder


def test_ties_against_a_bootstrap_by_hand(store: Records) -> None:
    """Means over seeds and tasks of scipy's correlations, over resamples drawn here."""
    table = table_of(store)
    assert ties(table) == {"best": True, "near": True, "far": False}
    assert [row.place() for row in table.rows] == ["≈1", "≈2", "3"]
    generator = np.random.default_rng(0)
    methods = {"best": [(1.0, 10), (1.0, 11)], "near": [(1.1, 30)], "far": [(3.0, 20)]}
    drawn = []
    for _ in range(400):
        rows = {task: generator.integers(0, n, n) for task, n in SIZES.items()}
        drawn.append([
            np.mean([
                stats.spearmanr(scores_of(task, noise, seed)[index], GOLD[task][index]).statistic
                for task, index in rows.items()
                for noise, seed in seeds
            ])
            for seeds in methods.values()
        ])  # fmt: skip
    best, near, far = np.transpose(drawn)
    assert 0.1 < (best < near).mean() < 0.9
    assert (best < far).mean() < 0.005


def test_the_best_alone_shares_no_place(tmp_path: Path) -> None:
    """Nothing is marked, and the line below still says how it was found."""
    store = Records(tmp_path)
    add(store, "best", 0.3)
    add(store, "far", 3.0)
    table = table_of(store)
    assert ties(table) == {"best": False, "far": False}
    assert "≈1" not in markdown(table)
    assert table.ties in markdown(table)


def test_what_cannot_be_compared_is_unknown(store: Records) -> None:
    """No pair scores (a record of before), other pairs (a trial's), no file, a damaged one: only these rows."""
    for task in TASKS:
        store.write(make_record("old", task, main=0.9 if task == "MEN" else 0.1))
        gold = GOLD[task][::-1].copy()
        store.write(make_record("other pairs", task, main=0.2), (gold, gold))
    add(store, "gone", 2.0, base=40)
    add(store, "damaged", 2.0, base=50)
    for record in store.all():
        path = store.pairs_file(record)
        if path is not None and record["method"]["name"] == "gone" and record["task"]["name"] == "MEN":
            path.unlink()
        if path is not None and record["method"]["name"] == "damaged":
            path.write_bytes(path.read_bytes()[:50])
    table = table_of(store)
    unknown = {"old": None, "other pairs": None, "gone": None, "damaged": None}
    assert ties(table) == {"best": True, "near": True, "far": False, **unknown}
    assert all(name in table.ties for name in unknown)
    notes = {row.name: row.notes for row in table.rows}
    assert len(notes.pop("damaged")) == 2
    assert set(map(tuple, notes.values())) == {()}
    assert "significance: " in markdown(table)


def test_without_the_best_row_s_pairs_nothing_is_known(store: Records) -> None:
    """The comparison is with the best row or none at all."""
    for task in TASKS:
        store.write(make_record("top", task, main=0.99))
    table = table_of(store)
    assert set(ties(table).values()) == {None}
    assert table.ties == ""
    assert "≈" not in markdown(table)


def test_an_incomplete_row_has_no_place(store: Records) -> None:
    """A row without an average cannot tie, and harms no other."""
    store.write(make_record("half", "MEN", main=0.99), (GOLD["MEN"], GOLD["MEN"]))
    assert ties(table_of(store)) == {"best": True, "near": True, "far": False, "half": None}


def test_a_file_is_resampled_once(store: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second table takes the samples from the cache; only a file of other bytes is resampled, or a bad cache."""
    counted: list[tuple[int, int]] = []
    real = significance.resample

    def counting(predicted: np.ndarray, gold: np.ndarray, *, resamples: int) -> np.ndarray:
        counted.append((len(predicted), resamples))
        return real(predicted, gold, resamples=resamples)

    monkeypatch.setattr(significance, "resample", counting)
    first = ties(table_of(store))
    everything = [(4, 100), (4, 100), (3, 2000), (3, 2000)]  # two of the best, one of near; far is far at a glance
    assert counted == everything
    assert ties(table_of(store)) == first
    assert counted == everything
    add(store, "far", 1.01, base=20)
    assert ties(table_of(store)) == {"best": True, "near": True, "far": True}
    assert counted == [*everything, (1, 100), (1, 100), (1, 2000), (1, 2000)]
    for path in (significance.cache_folder() / "significance").iterdir():
        path.write_bytes(b"damaged")
    assert ties(table_of(store)) == {"best": True, "near": True, "far": True}
    assert counted[-4:] == [(4, 100), (4, 100), (4, 2000), (4, 2000)]


def test_files_have_the_mark(store: Records, tmp_path: Path) -> None:
    """Markdown, CSV and JSON, through the command's own function, without loading torch."""
    for path in (store.folder / "records").rglob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["task"]["name"] == "MEN":
            for task in set(suite("words").tasks) - set(TASKS):  # MEN's pairs stand in for the suite's other tasks
                other = make_record(record["method"]["name"], task, record["seed"], main=record["scores"]["main"])
                store.write(other, store.pair_scores(record))
    script = (
        "import sys; from pathlib import Path; from benchmark.leaderboard.report import make_leaderboard\n"
        "make_leaderboard(Path(sys.argv[1]), Path(sys.argv[2]), 'words'); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, str(store.folder), str(tmp_path)], check=True, capture_output=True)
    lines = (tmp_path / "words.md").read_text(encoding="utf-8").partition("## Cost")[0].splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:] == ["≈1", "≈2", "3"]
    assert any(line.startswith("≈: not significantly different") for line in lines)
    with (tmp_path / "words.csv").open(encoding="utf-8", newline="") as file:
        assert [row["tied"] for row in csv.DictReader(file)] == ["True", "True", "False"]
    content = json.loads((tmp_path / "words.json").read_text(encoding="utf-8"))
    assert [row["tied"] for row in content["rows"]] == [True, True, False]


def test_records_of_before_make_the_table_they_made(tmp_path: Path) -> None:
    """Without any pair scores: bare ranks, an empty column."""
    store = Records(tmp_path)
    for name in ("a", "b"):
        for task in suite("words").tasks:
            store.write(make_record(name, task, main=0.5 if name == "a" else 0.4))
    make_leaderboard(tmp_path, tmp_path, "words")
    assert "≈" not in (tmp_path / "words.md").read_text(encoding="utf-8")
    content = json.loads((tmp_path / "words.json").read_text(encoding="utf-8"))
    assert [(row["rank"], row["tied"]) for row in content["rows"]] == [(1, None), (2, None)]
