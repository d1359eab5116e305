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
from benchmark.report.comparison import compare_rows
from benchmark.report.learned import learned
from benchmark.report.table import build_tables
from benchmark.stats.compare import compare
from benchmark.stats.marks import compared_by_name
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
    """Return what a run says of rows of these names, of which some start from others, and whom to compare next."""
    records = store.all()
    keys = {record["method"]["name"]: record["row_key"] for record in records}
    for record in records:
        if start := (starts or {}).get(record["method"]["name"]):
            record["start_key"] = keys[start]
    (table,) = build_tables(records, [WORDS], store)
    lines, after = learned(table, store, {keys[name] for name in names})
    return "\n".join(lines), after


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
    text, after = error_text(store, "far-above", "equal", starts={"far-above": "plain", "equal": "random"})
    assert text.startswith("Best of those compared: far-above.\nGained by training against plain: far-above +")
    assert text.endswith("; on the mean of all tasks, 95% intervals with the noise of pairs and of seeds.")
    assert after == ("far-above", "plain")
    by_name = {name: [r for r in store.all() if r["method"]["name"] == name] for name in ("far-above", "equal")}
    by_name |= {name: [r for r in store.all() if r["method"]["name"] == name] for name in ("random", "plain")}
    gaps = re.findall(r"([+-][\d.]+) \(([+-][\d.]+) to ([+-][\d.]+)\)", text)
    pairs = [("far-above", "plain"), ("equal", "random")]
    for numbers, (a, b) in zip(gaps, pairs, strict=True):
        line = compare("two", TASKS, by_name[a], by_name[b], store).average
        assert line is not None and f"against {b}: {a} " in text
        value, low, high = map(float, numbers)
        assert value == pytest.approx(line.difference, abs=0.06)
        assert [low, high] == pytest.approx([line.low, line.high], abs=0.06)


def test_rows_of_two_versions_are_not_compared(tmp_path: Path) -> None:
    """What a run says leaves out a control whose seeds were measured by two versions of a task, as a table does."""
    store = Records(tmp_path)
    add(store, "m", 0.2, (0, 1))
    add(store, "random", 1.0, (0, 1))
    assert "against random: m" in error_text(store, "m")[0]
    records = [r for r in store.all() if r["method"]["name"] == "m"]
    others = [r for r in store.all() if r["method"]["name"] == "random"]
    others[0]["task"]["version"] = 2
    assert compared_by_name({"m": records}, {"random": others}, TASKS, store, trial=False)[1] in ([], ["m"])


def test_one_seed_and_no_control(tmp_path: Path) -> None:
    """A row alone has nothing to be compared with; a row trained once has a difference without an interval."""
    store = Records(tmp_path)
    add(store, "one-row", 1.0, (0,))
    assert error_text(store, "one-row")[1] is None
    add(store, "random", 2.0, (0, 1, 2))
    text, after = error_text(store, "one-row")
    assert " to " not in text and "nan" not in text and after == ("one-row", "random")
    assert re.search(r"Difference against random: one-row \+[\d.]+\.$", text) and "--seeds 3" in text


def test_tasks_without_pairs_have_no_interval(tmp_path: Path) -> None:
    """Accuracies: averages beside each other; a failed row has none, and that is said too."""
    store = Records(tmp_path)
    for name, main in (("m", 0.7), ("random", 0.2)):
        for task in TASKS:
            store.write(make_record(name, task, main=main))
    text, after = error_text(store, "m")
    assert text == "Difference against random: m +50.0." and after is None
    store.write(failed(make_record("broken", TASKS[0]), "out of memory"))
    assert error_text(store, "broken") == (
        "No row of this run has a score on all tasks, so that nothing is compared.",
        None,
    )


@pytest.mark.parametrize("better", ["random", "bag-of-words"])
def test_the_control_that_a_row_is_beside_is_the_best(tmp_path: Path, better: str) -> None:
    """In a run's lines and in a table, whichever of two controls it is; the row itself is no control."""
    store = Records(tmp_path)
    for name in ("random", "bag-of-words"):
        add(store, name, 1.0 if name == better else 3.0)
    add(store, "m", 0.2, (0, 1, 2))
    text, after = error_text(store, "m")
    assert f"Difference against {better}: m +" in text and after == ("m", better)
    (table,) = build_tables(store.all(), [WORDS], store)
    value = next(row.average.mean for row in table.rows if row.name == better)
    assert f"The best control, {better}, has {value:.2f}; rows above it: 1 of 1, below it: 0 (" in table.learned
    assert f"against {better}" in table.learned.splitlines()[1]
    gaps = re.findall(r"([+-][\d.]+) \(([+-][\d.]+) to ([+-][\d.]+)\)", f"{text} {table.learned}")
    assert len(gaps) > 1 and all(float(low) < float(gap) < float(high) for gap, low, high in gaps)
    assert "tied" not in table.learned
    add(store, "twin", 0.2, (0, 1, 2))
    (table,) = build_tables(store.all(), [WORDS], store)
    assert "; 2 rows are tied for the best. The best control" in (table.learned or "")


@pytest.mark.slow
def test_a_run_ends_with_three_lines_and_a_link(cli: Cli, fakes: None, tmp_path: Path) -> None:
    """After the table on standard output; the files have the notes, and JSON has no lines."""
    words = ("run", "--methods", "bag,random", "--tasks", "pocket-words", "--results", tmp_path, *FAST)
    answer = cli(*words)
    assert answer.code == 0 and suite("pocket").title in answer.out
    last = answer.out.partition("\n\n")[2].splitlines()
    starts = ("Tied for the best", "Difference against random: bag", "Next, task by task: zoo-bench compare", "Notes")
    assert len(last) == 4 and all(map(str.startswith, last, starts))
    assert last[-1].endswith(str(tmp_path / "index.html")) and (tmp_path / "index.html").is_file()
    assert "Next, task" not in cli(*words, "--json").out


def test_a_finished_encoder_is_one_training(tmp_path: Path) -> None:
    """Exporting a row takes the noise of its seeds out of its interval, and the table and `compare` say so."""
    store = Records(tmp_path)
    add(store, "random", 2.0, (0, 1, 2))
    add(store, "trained", 0.5, (0, 1, 2))
    method = make_record("exported")["method"]
    method["traits"]["released"] = True
    add(store, "exported", 0.5, method=method)
    sentence = (
        "Finished encoders are one training each, and the noise of its seeds is not in their intervals: exported."
    )
    (table,) = build_tables(store.all(), [WORDS], store)
    assert sentence in (table.learned or "")
    text = " ".join(str(compare_rows(tmp_path, "exported", "trained", tasks=",".join(TASKS))).split())
    assert "a finished encoder: one training, and the noise of its seeds is not in the interval" in text
    others = [record for record in store.all() if record["method"]["name"] != "exported"]
    assert "Finished encoders" not in (build_tables(others, [WORDS], store)[0].learned or "")
