"""Shared and development pairs against the data itself; what is left of STS-B dev; where runs and tables say so."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, make_record

from benchmark.data.corpora import normalised
from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.records.folder import Records
from benchmark.records.query import scored_pairs
from benchmark.records.record import parse_record
from benchmark.report.conditions import conditions
from benchmark.report.latex import latex
from benchmark.report.table import build_tables
from benchmark.report.write import markdown
from benchmark.tasks import TASKS
from benchmark.tasks.base import DevOverlap, PairsData
from benchmark.tasks.loaded import load_tasks
from benchmark.tasks.overlap import (
    DEV,
    POOLS,
    TABLE,
    dev_overlap,
    dev_rows_in_tests,
    gold_sha256,
    keys,
    pool_of,
    repeated,
    shared_texts,
    shared_with,
)
from benchmark.tasks.suites import suite
from tools.find_overlap import known_overlap
from tools.studies.real_texts import texts_of_pairs

SEVEN = suite("sts").tasks


@functools.cache
def pairs_of(data_dir: Path, task: str, split: Any = "test") -> Pairs:
    (loaded,) = load_tasks([task], DataSource(data_dir, hub=False), None)
    return scored_pairs(loaded, split)


@pytest.mark.slow
def test_the_table_is_what_the_data_gives(data_dir: Path) -> None:
    """`python -m tools.find_overlap DATA` would write the file that is here."""
    assert json.loads(TABLE.read_text(encoding="utf-8")) == known_overlap(DataSource(data_dir, hub=False))


def test_a_task_says_how_many_of_its_pairs_repeat_others(data_dir: Path, cli: Cli) -> None:
    ours, theirs = (keys(pairs_of(data_dir, name)) for name in ("RG-65", "SimLex-999"))
    assert repeated("RG-65")["within"] == len(ours) - len(set(ours)) == 0
    assert repeated("RG-65")["SimLex-999"] == len(set(ours) & set(theirs)) == 1
    twice = keys(pairs_of(data_dir, "STS12"))
    assert repeated("STS12")["within"] == len(twice) - len(set(twice)) > 0 and repeated("no-task") == {}
    shown = " ".join(cli("tasks", "STS-B", "--show").out.split())
    assert "repeated test items: within 2, STS12 252," in shown and "STS-B, dev 3" in shown


@pytest.mark.slow
def test_items_that_are_in_training_data(data_dir: Path) -> None:
    """From the raw files: a task's questions in its own training part, and pairs in those of the STS Benchmark."""

    def letters(text: str) -> str:
        return "".join(character for character in text.lower() if character.isalnum())

    folder = data_dir / "senteval" / "downstream"
    questions = [
        {letters(line.split(" ", 1)[1]) for line in (folder / "TREC" / name).read_text("latin-1").splitlines()}
        for name in ("TREC_10.label", "train_5500.label")
    ]
    assert repeated("TREC") == {"within": 500 - len(questions[0]), "TREC, train": len(questions[0] & questions[1])}
    train = (folder / "STS" / "STSBenchmark" / "sts-train.csv").read_text("utf-8").splitlines()
    trained = {tuple(sorted(map(letters, line.split("\t")[5:7]))) for line in train}
    for name in ("STS14", "SICK-R"):
        pairs = pairs_of(data_dir, name)
        tested = {tuple(sorted(map(letters, both))) for both in zip(pairs.first, pairs.second, strict=True)}
        assert repeated(name)["training pairs STSBenchmark"] == len(tested & trained) > 50


def test_a_pool_s_places_are_the_pairs(data_dir: Path) -> None:
    """Rows of two tasks have one place exactly where their texts are the same; 1,007 of STS-B's are of the years."""
    names = [*POOLS["sts"], *POOLS["words"]]
    places: dict[str, set[int]] = {}
    for pool in ("sts", "words"):
        by_place: dict[int, frozenset[str]] = {}
        for task in POOLS[pool]:
            pairs = pairs_of(data_dir, task)
            pooled = pool_of(task, gold_sha256(pairs.gold))
            assert pooled is not None
            places[task] = set(pooled[1].tolist())
            assert max(places[task]) < pooled[0].size
            for place, *texts in zip(pooled[1].tolist(), pairs.first, pairs.second, strict=True):
                key = frozenset(map(normalised, texts))
                assert by_place.setdefault(place, key) == key
        assert len(by_place) == len(set(by_place.values())) == pooled[0].size
    stsb = pairs_of(data_dir, "STS-B")
    _, pool_places = pool_of("STS-B", gold_sha256(stsb.gold)) or (None, np.array([]))
    years = set[int]().union(*(places[task] for task in names[:5]))
    assert sum(place in years for place in pool_places.tolist()) == 1007
    assert pool_of("STS-B", "0" * 64) is None
    assert pool_of("SICK-R", "0" * 64) is None


def test_a_task_shares_no_pair_with_itself_and_other_data_is_not_known() -> None:
    assert shared_with("STS-B", SEVEN) == shared_with("STS-B", SEVEN[:5]) == 1007
    assert shared_with("STS-B", ["STS-B", "SICK-R"]) == shared_with("SICK-R", SEVEN) == 0
    assert dev_rows_in_tests("STS-B") and dev_rows_in_tests("STS-B", "0" * 64) is None


@pytest.mark.slow
@pytest.mark.parametrize("form", ["", "-raw"])
def test_what_is_left_has_no_test_pair(data_dir: Path, form: str) -> None:
    """369 pairs of STS-B dev, none of them in STS12-16 or STS-B test, scored and used for checkpoints."""
    source = DataSource(data_dir, hub=False)
    (loaded,) = load_tasks([f"stsb-dev-disjoint{form}"], source, None)
    assert isinstance(loaded.data, PairsData) and loaded.data.dev is not None
    dev, full = loaded.data.dev, pairs_of(data_dir, f"STS-B{form}", "dev")
    assert (len(dev), loaded.data.dev_overlap()) == (369, DevOverlap(369, 0))
    assert dev_overlap(f"stsb-dev-disjoint{form}") == DevOverlap(369, 0)
    tested = {
        frozenset(map(normalised, texts))
        for task in DEV[f"STS-B{form}"]
        for pairs in [pairs_of(data_dir, task)]
        for texts in zip(pairs.first, pairs.second, strict=True)
    }
    remaining = [frozenset(map(normalised, texts)) for texts in zip(dev.first, dev.second, strict=True)]
    assert not tested & set(remaining)
    every = [frozenset(map(normalised, texts)) for texts in zip(full.first, full.second, strict=True)]
    assert [key for key in every if key not in tested] == remaining
    (stsb,) = load_tasks([f"STS-B{form}"], source, None)
    assert stsb.data is not None
    assert stsb.data.dev_overlap() == DevOverlap(1500, 1131)
    assert loaded.identity()["sha256"] != stsb.identity()["sha256"]
    (cut,) = load_tasks([f"STS-B{form}"], source, 100)
    assert cut.data is not None
    assert cut.data.dev_overlap() == DevOverlap(100, sum(row < 100 for row in dev_rows_in_tests(f"STS-B{form}") or ()))


@pytest.mark.slow
def test_other_data_is_looked_through(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that the table was not measured on: the same pairs are left out, found in the data at once."""
    (known,) = load_tasks(["stsb-dev-disjoint"], DataSource(data_dir, hub=False), None)
    monkeypatch.setattr("benchmark.tasks.sts.dev_rows_in_tests", lambda *_: None)
    (task,) = load_tasks(["stsb-dev-disjoint"], DataSource(data_dir, hub=False), None)
    assert task.identity() == known.identity()
    stsb = TASKS.get("STS-B").load(DataSource(data_dir, hub=False))
    assert stsb.dev_overlap() == DevOverlap(1500, None)


def trained(name: str, **training: Any) -> list[Any]:
    """Return records of a method that picked its checkpoint."""
    return [make_record(name, task, 0, training={"dev_task": "STS-B", **training}) for task in SEVEN]


def test_tables_say_what_picked_a_checkpoint() -> None:
    """In every condition, LaTeX's too; a record may not know the shared pairs."""
    old = trained("old", dev_pairs=1500, dev_pairs_in_test=1131)
    new = trained("new", dev_task="stsb-dev-disjoint", dev_pairs=369, dev_pairs_in_test=0)
    (table,) = build_tables([*old, *new, *(make_record("plain", task) for task in SEVEN)], [suite("sts")])
    notes = {row.name: conditions(row) for row in table.rows}
    assert "checkpoint by STS-B dev (⚠ 1,131 of its 1,500 pairs are STS test pairs)" in notes["old"]
    assert "checkpoint by stsb-dev-disjoint (none of its 369 pairs is an STS test pair)" in notes["new"]
    assert "checkpoint" not in notes["plain"]
    for text in (notes["old"], notes["new"]):
        assert text in markdown(table)
    assert "checkpoint by STS-B dev" in latex(table) and "checkpoint by stsb-dev-disjoint" in latex(table)
    (cut,) = build_tables(trained("cut", dev_pairs=50, dev_pairs_in_test=None), [suite("sts")])
    assert conditions(cut.rows[0]).endswith("checkpoint by STS-B dev")


@pytest.mark.slow
def test_a_run_by_another_development_set(data_dir: Path, cli: Cli, fakes: None, tmp_path: Path) -> None:
    """Another encoder and another row; the record says which pairs and how many of them are tested on."""
    run = ("run", "--methods", "picking", "--tasks", "STS-B", "--data", data_dir)
    run = (*run, "--out", tmp_path, "--seeds", "1", "--train-sentences", "20")
    assert cli(*run).code == 0
    assert cli(*run, "--dev", "stsb-dev-disjoint").code == 0
    by_dev_task = {r["training"]["dev_task"]: r for r in Records(tmp_path).all() if r["training"]}
    full, disjoint = by_dev_task["STS-B"], by_dev_task["stsb-dev-disjoint"]
    assert (full["training"]["dev_pairs"], full["training"]["dev_pairs_in_test"]) == (1500, 1131)
    assert (disjoint["training"]["dev_pairs"], disjoint["training"]["dev_pairs_in_test"]) == (369, 0)
    for key in ("key", "row_key", "encoder_key"):
        assert full[key] != disjoint[key]  # type: ignore[literal-required]
    for record in by_dev_task.values():
        parse_record(json.dumps(record).encode(), "here")


@pytest.mark.parametrize("task", ["STS12", "MEN", "SICK-R", "STS-B-raw"])
def test_equal_texts_of_pairs_have_one_number(data_dir: Path, task: str) -> None:
    """Two pairs share a text in the table where they do in the data, and a text of one pair alone has no number."""
    pairs = pairs_of(data_dir, task)
    digest = gold_sha256(pairs.gold)
    numbers = shared_texts(task, digest)
    assert numbers is not None and shared_texts(task, "0" * 64) is None
    pooled = pool_of(task, digest)
    numbers = numbers if pooled is None else numbers[pooled[1]]
    both_texts = [*zip(map(normalised, pairs.first), map(normalised, pairs.second), strict=True)]
    # A text of one pair alone has a number of its own, on each side of it.
    twice = sum(a == b for (a, b), known in zip(both_texts, numbers, strict=True) if (known < 0).all())
    assert len(np.unique(texts_of_pairs(task))) == len({text for both in both_texts for text in both}) + twice
    for row in np.random.default_rng(0).choice(len(pairs), 60, replace=False):
        texts_of_row = {normalised(pairs.first[row]), normalised(pairs.second[row])}
        sharing = [
            i
            for i, both in enumerate(zip(pairs.first, pairs.second, strict=True))
            if i != row
            and texts_of_row & {normalised(text) for text in both}
            and texts_of_row != {normalised(text) for text in both}
        ]
        known = set(numbers[row].tolist()) - {-1}
        equal_rows = [i for i in range(len(pairs)) if i != row and known & set(numbers[i].tolist())]
        assert set(sharing) <= set(equal_rows)
        assert all(texts_of_row & {normalised(pairs.first[i]), normalised(pairs.second[i])} for i in equal_rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEV)
def test_development_pairs_that_are_test_pairs(data_dir: Path, name: str) -> None:
    """1,131 of 1,500, each with the same gold score, by both texts' letters and digits; found here in another way."""
    tested: dict[tuple[str, ...], list[float]] = {}
    for task in DEV[name]:
        pairs = pairs_of(data_dir, task)
        for first, second, gold in zip(pairs.first, pairs.second, pairs.gold, strict=True):
            tested.setdefault(tuple(sorted(map(normalised, (first, second)))), []).append(gold)
    dev = pairs_of(data_dir, name, "dev")
    golds = [tested.get(tuple(sorted(map(normalised, texts)))) for texts in zip(dev.first, dev.second, strict=True)]
    in_tests = [row for row, gold in enumerate(golds) if gold]
    assert (len(dev), len(in_tests)) == (1500, 1131)
    assert dev_rows_in_tests(name) == in_tests
    assert dev_overlap(name) == DevOverlap(1500, 1131)
    for row in in_tests:
        assert min(abs(gold - dev.gold[row]) for gold in golds[row] or ()) < 0.01
