"""Rows that may truly be the best: against resamples by hand, unknown without pair scores, cached, in every form."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import make_record
from scipy import stats

from benchmark.data.sources import DataSource
from benchmark.records.folder import Records
from benchmark.records.query import scored_pairs
from benchmark.report.rows import Table
from benchmark.report.show import print_table
from benchmark.report.table import build_tables
from benchmark.report.write import markdown
from benchmark.stats import draws as row_stats
from benchmark.stats import marks
from benchmark.stats.draws import finished
from benchmark.tasks.loaded import load_tasks
from benchmark.tasks.overlap import keys, shared_with
from benchmark.tasks.suites import Suite
from zoo.paths import cache_folder

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
    (table,) = build_tables(store.all(), [WORDS], store)
    return table


def among(table: Table) -> dict[str, bool | None]:
    return {row.name: row.among_best for row in table.rows}


def printed(table: Table) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    print_table(table, stream)
    stream.seek(0)
    return stream.read()


@pytest.fixture
def store(tmp_path: Path) -> Records:
    """A best method of two seeds, a second that is hardly worse, a third that is."""
    folder = Records(tmp_path / "results")
    add(folder, "best", 1.0, (0, 1), base=10)
    add(folder, "near", 1.1, base=30)
    add(folder, "far", 3.0, base=20)
    return folder


@pytest.mark.slow
def test_against_a_bootstrap_by_hand(store: Records) -> None:
    """Means over seeds and tasks of scipy's correlations, over resamples drawn here."""
    table = table_of(store)
    assert among(table) == {"best": True, "near": True, "far": False}
    assert [f"{row.mark}{row.rank}" for row in table.rows] == ["≈1", "≈2", "3"]
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


def test_noise_of_pairs_is_that_of_all_seeds(tmp_path: Path) -> None:
    """In every resample of the pairs the score of a row is the mean over its seeds."""
    store = Records(tmp_path)
    add(store, "both", 1.0, (0, 1), base=10)
    add(store, "first", 1.0, base=10)
    add(store, "second", 1.0, base=11)
    rows = []
    for name in ("both", "first", "second"):
        rows.append(row_stats.finished((r for r in store.all() if r["method"]["name"] == name), TASKS))
    noise, _ = row_stats.item_noise(rows, store)
    for both, first, second in noise.influence.values():
        np.testing.assert_allclose(both, (first + second) / 2, rtol=1e-6, atol=1e-12)
        assert np.abs(both - first).max() > 0.01


def test_marks_are_kept_for_the_same_records_alone(store: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second table compares nothing; another score, another row, an option or a damaged cache does again."""
    counted = []
    real = marks.compared
    monkeypatch.setattr(marks, "compared", lambda *given: counted.append(1) or real(*given))
    first = table_of(store)
    assert (len(counted), among(table_of(store)), table_of(store).legend) == (1, among(first), first.legend)
    build_tables(store.all(), [WORDS], store, baseline="far")
    assert len(counted) == 2
    (against,) = build_tables(store.all(), [WORDS], store, baseline="far")
    assert (len(counted), [row.against for row in against.rows]) == (2, ["↑", "↑", ""])
    add(store, "more", 1.0, base=40)
    assert among(table_of(store))["more"] is not None and len(counted) == 3
    record = store.all()[0]
    record["scores"]["main"] -= 0.001  # type: ignore[index]
    build_tables([record, *store.all()[1:]], [WORDS], store)
    assert len(counted) == 4
    for path in (cache_folder() / "significance").glob("*.json"):
        path.write_text(path.read_text().replace("true", "false"))
    assert among(table_of(store))["best"] and len(counted) == 5


def test_noise_of_seeds_keeps_a_row_in(tmp_path: Path) -> None:
    """A row whose pairs alone would leave it out stays where its seeds differ more than it is behind."""
    for name, second in (("alike", 21), ("apart", 22)):
        store = Records(tmp_path / name)
        add(store, "best", 0.5, base=10)
        for seed, noise in ((0, 1.0), (1, 1.0 if name == "alike" else 4.0)):
            for task in TASKS:
                predicted = scores_of(task, noise, second)
                main = float(stats.spearmanr(predicted, GOLD[task]).statistic)
                store.write(make_record("seeds", task, seed, main=main), (predicted, GOLD[task]))
        assert among(table_of(store)) == {"best": True, "seeds": name == "apart"}


def test_one_seed_has_no_mark(store: Records) -> None:
    """A row of one seed is named with the reason, even above all others; those are compared with one another."""
    add(store, "once", 0.1, (0,), base=60)
    table = table_of(store)
    assert among(table) == {"once": None, "best": True, "near": True, "far": False}
    assert [f"{row.mark}{row.rank}" for row in table.rows] == ["1", "≈2", "≈3", "4"]
    reason = "One seed, so the noise of seeds is unknown and there is no mark (run --seeds 3): once."
    for text in (table.legend, markdown(table), printed(table)):
        assert reason in " ".join(text.split())
    assert "want of comparable" not in table.legend


def test_the_noise_of_a_backbone_s_rows_is_borrowed(store: Records) -> None:
    """Only where it is asked for and another row of the same backbone has seeds; the legend says so."""
    add(store, "once", 1.0, (0,), base=60)
    method = {**store.all()[0]["method"], "sources": {"backbone": {"name": "small"}}}
    for record in store.all():
        if record["method"]["name"] in ("best", "once"):
            named = {**method, **record["method"], "sources": method["sources"]}
            store.write({**record, "method": named}, store.pair_scores(record))
    assert among(table_of(store))["once"] is None
    (table,) = build_tables(store.all(), [WORDS], store, borrow_seed_noise=True)
    assert among(table)["once"] is True
    by_seed = [np.mean([stats.spearmanr(scores_of(t, 1.0, n), GOLD[t]).statistic for t in TASKS]) for n in (10, 11)]
    assert f"once ({100 * np.std(by_seed, ddof=1):.2f}, 1 degrees of freedom)" in table.legend
    assert "has no mark" not in table.legend


@pytest.mark.parametrize(
    ("backbones", "df"), [((), 0), (("a", "a", "a", "a"), 3), (("a", "b", "a", "b"), 1), (("a", "a", "a", ""), 0)]
)
def test_only_a_row_of_one_seed_borrows_noise_and_only_of_its_backbone(
    backbones: tuple[str, ...], df: int, tmp_path: Path
) -> None:
    """Without backbones, as without the option, nothing is borrowed; rows of several seeds keep their own."""
    store = Records(tmp_path)
    for place, seeds in enumerate(((0, 1), (0, 1), (0, 1), (0,))):
        add(store, f"row{place}", 0.5 + place, seeds, base=10 * place)
    rows = [finished([r for r in store.all() if r["method"]["name"] == f"row{n}"], TASKS) for n in range(4)]
    result = marks.marked(rows, store, TASKS, backbones)
    assert {place: noise.df for place, noise in result.one_seed.items()} == {3: df}
    expected = [np.var([*row_stats.by_seed(row).values()], ddof=1) / 2 for row in rows[:3]]
    assert result.sample is not None and result.sample.seed_variance[:3].tolist() == pytest.approx(expected)


def test_the_best_alone_has_no_mark(tmp_path: Path) -> None:
    """The set is the best: nothing is marked, and no legend explains a mark that is not there."""
    store = Records(tmp_path)
    add(store, "best", 0.3)
    add(store, "far", 3.0)
    table = table_of(store)
    assert among(table) == {"best": True, "far": False}
    assert "of seeds: not contained (no row depends on a seed)" in table.legend
    for text in (markdown(table), printed(table)):
        assert "≈" not in text and "approx" not in text and "told apart" not in text


def test_only_own_seeds_have_another_mark(tmp_path: Path) -> None:
    """A row far below the best whose seeds lie far apart cannot be told; a row near the best ties with it."""
    store = Records(tmp_path)
    for number, noise in enumerate((0.3, 0.3, 0.32, 2.0)):
        add(store, f"quiet{number}", noise, (0, 1, 2), base=100 * number)
    for seed, noise in enumerate((0.3, 1.5, 4.0)):
        for task in TASKS:
            predicted = scores_of(task, noise, seed + 900)
            main = float(stats.spearmanr(predicted, GOLD[task]).statistic)
            store.write(make_record("spread", task, seed, main=main), (predicted, GOLD[task]))
    table = table_of(store)
    marks = {row.name: row.mark for row in table.rows}
    assert marks == {"quiet0": "≈", "quiet1": "≈", "quiet2": "≈", "spread": "?", "quiet3": ""}
    assert "?: undecided." in table.legend
    assert {f"{row.mark}{row.rank}" for row in table.rows[-2:]} & {"?4", "?5"}


def test_controls_are_no_part_of_power(tmp_path: Path) -> None:
    """Rows without seeds beside a noisy control: how many pairs show 1.0; the noise is that of the pairs alone."""
    store = Records(tmp_path)
    add(store, "one", 1.0, base=10)
    add(store, "two", 1.2, base=20)
    add(store, "random", 9.0, (0, 1, 2), base=30)
    legend = table_of(store).legend
    assert "no row but controls depends on a seed. With these 210 pairs" in legend and "over seeds" not in legend
    (seen, needed) = re.findall(r"a difference of ([\d.]+) between .* 1.0 takes ([\d,]+) pairs", legend)[0]
    assert int(needed.replace(",", "")) == pytest.approx(210 * float(seen) ** 2, rel=0.01)


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
    assert among(table) == {"best": True, "near": True, "far": False, **unknown}
    compared, _, missing = table.legend.partition("Not compared")
    assert all(f" {name}" in missing and f" {name}" not in compared for name in unknown)
    notes = {row.name: row.notes for row in table.rows}
    assert len(notes.pop("damaged")) == 2
    # Each of them has a sign of its own on the terminal, between the tied ones too.
    lines = printed(table).splitlines()
    (head,) = (line for line in lines if line.startswith("#"))
    ranked = [(match[1], line) for line in lines if (match := re.match(r" *\d+  (.+?)  ", line))]
    ties = {name: line[head.index("tie") :].strip() for name, line in ranked}
    assert ties == {"best": "≈", "near": "≈", "far": "", **dict.fromkeys(unknown, "–")}
    assert set(map(tuple, notes.values())) == {()}
    assert "significance: " in markdown(table)


def test_without_the_best_row_s_pairs_nothing_is_known(store: Records) -> None:
    """The comparison is with the best row or none at all."""
    for task in TASKS:
        store.write(make_record("top", task, main=0.99))
    table = table_of(store)
    assert set(among(table).values()) == {None}
    assert table.legend == ""
    assert "≈" not in markdown(table)


def test_an_incomplete_row_has_no_place(store: Records) -> None:
    """A row without an average cannot tie, and harms no other."""
    store.write(make_record("half", "MEN", main=0.99), (GOLD["MEN"], GOLD["MEN"]))
    assert among(table_of(store)) == {"best": True, "near": True, "far": False, "half": None}


@pytest.mark.slow
def test_shared_pairs_are_drawn_together(data_dir: Path, tmp_path: Path) -> None:
    """On whole data, pairs that STS-B shares with the years are drawn for both; cut data has draws of its own."""
    loaded = load_tasks(["STS16", "STS-B"], DataSource(data_dir, hub=False), None)
    store = Records(tmp_path)
    pairs = {task.name: scored_pairs(task, "test") for task in loaded}
    golds = {name: of_task.gold for name, of_task in pairs.items()}
    records = {}
    for task, gold in golds.items():
        salts = [[ord(letter) for letter in "".join(sorted(key))] for key in keys(pairs[task])]
        predicted = gold + [np.random.default_rng(salt).normal() for salt in salts]  # the same for a pair
        record = make_record("a", task)
        store.write({**record, "task": {**record["task"], "rows": len(gold)}}, (predicted, gold))
        (records[task],) = [r for r in store.all() if r["task"]["name"] == task]
    noise, _ = row_stats.item_noise([{task: [record] for task, record in records.items()}], store)
    (years,), (stsb,) = (noise.errors(task)[0] for task in records)
    nothing = {task: np.concatenate([of, np.zeros_like(of)]) for task, of in noise.influence.items()}
    both = replace(noise, influence=nothing).between([*records], [0, 1])[0][0, 1]
    assert shared_with("STS-B", ["STS16"]) == 285
    assert (4 * both - years**2 - stsb**2) / (2 * years * stsb) > 0.12  # 0 of independent draws
