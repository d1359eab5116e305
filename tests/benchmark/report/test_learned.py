"""What a run says at its end: against `compare` on the same records, and without controls, pairs or averages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, failed, make_record
from scipy import stats

from benchmark.records.folder import Records
from benchmark.report.learned import learned
from benchmark.report.table import build_tables
from benchmark.stats.compare import compare
from benchmark.tasks.suites import Suite, suite

TASKS = ("MEN", "RG-65")
WORDS = Suite(name="two", title="Two", tasks=TASKS, columns=TASKS, dev="", corpus="")
FAST = ("--limit", 20, "--precision", "fp32", "--device", "cpu")
GOLD = {task: np.round(np.random.default_rng(n).uniform(0, 5, 240), 1) for n, task in enumerate(TASKS)}


def add(store: Records, name: str, noise: float, seeds: Sequence[int | None] = (None,), **changes: Any) -> None:
    """Write records of a method with their pair scores: the gold ones and some noise."""
    for place, task in enumerate(TASKS):
        for seed in seeds:
            generator = np.random.default_rng([len(name), place, seed or 0])
            predicted = GOLD[task] + noise * generator.normal(size=len(GOLD[task]))
            main = float(stats.spearmanr(predicted, GOLD[task]).statistic)
            store.write(make_record(name, task, seed, main=main, **changes), (predicted, GOLD[task]))


def error_text(
    store: Records, *names: str, starts: Mapping[str, str] | None = None
) -> tuple[str, tuple[str, str] | None]:
    """Return what a table says of rows of these names, of which some start from others, and whom to compare next."""
    records = store.all()
    keys = {record["method"]["name"]: record["row_key"] for record in records}
    for record in records:
        if start := (starts or {}).get(record["method"]["name"]):
            record["start_key"] = keys[start]
    (table,) = build_tables(records, [WORDS], store)
    return learned(table, store, {keys[name] for name in names})


@pytest.fixture
def store(tmp_path: Path) -> Records:
    """A control, two rows above and about it, and the vectors that one of them starts from."""
    folder = Records(tmp_path)
    add(folder, "random", 2.0, (0, 1, 2))
    add(folder, "far-above", 0.5, (0, 1, 2))
    add(folder, "equal", 2.0, (0, 1, 2))
    add(folder, "plain", 2.5)
    return folder


@pytest.mark.slow
def test_sentences_have_the_numbers_of_compare(store: Records) -> None:
    """Values and intervals as `compare` has them, by other draws; a start is no row of the run."""
    text, after = error_text(store, "far-above", "equal", starts={"far-above": "plain"})
    assert text.startswith("On the mean of all tasks, far-above has") and after == ("far-above", "plain")
    by_name = {name: [r for r in store.all() if r["method"]["name"] == name] for name in ("far-above", "equal")}
    by_name |= {name: [r for r in store.all() if r["method"]["name"] == name] for name in ("random", "plain")}
    gaps = re.findall(r"([+-][\d.]+) \(([+-][\d.]+) to ([+-][\d.]+)\)", text)
    pairs = [("far-above", "plain"), ("far-above", "random"), ("equal", "random")]
    for numbers, (a, b) in zip(gaps, pairs, strict=True):
        line = compare("two", TASKS, by_name[a], by_name[b], store).average
        assert line is not None and f"against {b}" in text
        value, low, high = map(float, numbers)
        assert value == pytest.approx(line.difference, abs=0.06)
        assert [low, high] == pytest.approx([line.low, line.high], abs=0.06)


def test_one_seed_and_no_control(tmp_path: Path) -> None:
    """A row alone has nothing to be compared with; a row trained once has a difference without an interval."""
    store = Records(tmp_path)
    add(store, "one-row", 1.0, (0,))
    assert error_text(store, "one-row")[1] is None
    add(store, "random", 2.0, (0, 1, 2))
    text, after = error_text(store, "one-row")
    assert " to " not in text and "nan" not in text and after == ("one-row", "random")
    assert re.search(r"one-row: \+[\d.]+ against random\. .*--seeds 3", text)


def test_tasks_without_pairs_have_no_interval(tmp_path: Path) -> None:
    """Accuracies: averages beside each other; a failed row has none, and that is said too."""
    store = Records(tmp_path)
    for name, main in (("m", 0.7), ("random", 0.2)):
        for task in TASKS:
            store.write(make_record(name, task, main=main))
    text, after = error_text(store, "m")
    assert "m has 70.00. The best control, random, has 20.00.\nm: +50.0 against random." in text and after is None
    store.write(failed(make_record("broken", TASKS[0]), "out of memory"))
    assert error_text(store, "broken") == (
        "No row of this run has a score on all tasks, so that nothing is compared.",
        None,
    )


@pytest.mark.slow
def test_the_run_ends_with_what_was_learned(cli: Cli, fakes: None, tmp_path: Path) -> None:
    """After the table on standard output, and not in JSON."""
    words = ("run", "--methods", "bag", "--tasks", "pocket-words", "--results", tmp_path, *FAST)
    answer = cli(*words)
    assert answer.code == 0 and suite("pocket").title in answer.out
    end = answer.out.partition("What was learned: ")[2]
    assert end.startswith("On Words, bag has") and end.count("zoo-bench ") <= 1
    assert "What was learned" not in cli(*words, "--json").out


def test_a_row_that_lacks_a_task_leaves_the_sentences_the_others(tmp_path: Path) -> None:
    """The table's own sentences are of rows with all tasks; of the run's rows those on their common tasks are told."""
    store = Records(tmp_path)
    for name, noise in (("good", 0.5), ("fair", 1.5), ("partial", 1.0)):
        add(store, name, noise, (0, 1))
    assert error_text(store, "good", "fair", "partial")[0].startswith("On the mean of all tasks, good has")
    gone = [path for path in tmp_path.glob("records/partial*/*.json") if f'"{TASKS[1]}"' in path.read_text()]
    for path in gone:
        path.unlink()
    assert len(gone) == 2 and error_text(Records(tmp_path), "good", "fair", "partial")[0].startswith(
        f"On {TASKS[0]}, good has"
    )
