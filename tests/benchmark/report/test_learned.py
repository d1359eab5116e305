"""What a run says at its end: against `compare` on the same records, without controls, pairs, averages or company."""

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
from benchmark.report.comparison import compare
from benchmark.report.learned import Learned, learned
from benchmark.report.rows import Table
from benchmark.report.table import build_tables
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


def said(store: Records, *names: str, starts: Mapping[str, str] | None = None) -> tuple[Table, Learned]:
    """Return the table and what it says of rows of these names, of which some start from others."""
    records = store.all()
    (table,) = build_tables(records, [WORDS], store)
    keys = {record["method"]["name"]: record["row_key"] for record in records}
    begun = {keys[name]: keys[start] for name, start in (starts or {}).items()}
    return table, learned(table, records, store, {keys[name] for name in names}, begun)


def gaps(text: str) -> list[list[float]]:
    """Return every "2.1 (-1.0 to 5.2)" of a text as numbers."""
    return [[float(x) for x in found] for found in re.findall(r"(-?[\d.]+) \((-?[\d.]+) to (-?[\d.]+)\)", text)]


@pytest.fixture
def store(tmp_path: Path) -> Records:
    """A control, three rows above, about and below it."""
    folder = Records(tmp_path)
    add(folder, "random", 2.0, (0, 1, 2))
    add(folder, "far-above", 0.5, (0, 1, 2))
    add(folder, "equal", 2.0, (0, 1, 2))
    add(folder, "below-it", 9.0)
    return folder


@pytest.mark.slow
def test_sentences_have_the_numbers_of_compare(store: Records) -> None:
    """Values and intervals as `compare` has them, by other draws."""
    table, one = said(store, "far-above", "equal", "below-it")
    assert (one.rows, one.control, one.tasks) == (["far-above", "equal", "below-it"], "random", TASKS)
    text = " ".join(one.sentences)
    average = next(row.average.mean for row in table.rows if row.name == "random")
    assert text.startswith(f"On the mean of MEN and RG-65, the best control, random, has {average:.1f}. Above it: far-")
    assert "; below it: below-it by" in text and "not told apart from it: equal with a difference of" in text
    assert "far-above is" in text and "above equal, the next" in text
    by_name = {name: [r for r in store.all() if r["method"]["name"] == name] for name in (*one.rows, "random")}
    pairs = [("far-above", "random"), ("random", "below-it"), ("equal", "random"), ("far-above", "equal")]
    for found, (a, b) in zip(gaps(text), pairs, strict=True):
        line = compare("two", TASKS, by_name[a], by_name[b], store, 2000).average
        assert line is not None
        assert found[0] == pytest.approx(line.difference, abs=0.06)
        width = line.high - line.low
        assert found[1:] == pytest.approx([line.low, line.high], abs=0.1 * width)


def test_rows_alone_or_without_a_control(tmp_path: Path) -> None:
    """One row has nothing to be compared with, two have each other; only this run's rows are spoken of."""
    store = Records(tmp_path)
    add(store, "one-row", 1.0)
    _, one = said(store, "one-row")
    assert one.sentences[1:] == ["The table has no control that would show how much of that is easy to have."]
    add(store, "near-row", 1.0)
    add(store, "other", 0.1)
    _, two = said(store, "one-row", "near-row")
    text = " ".join(two.sentences)
    assert "the two best of this run, are not told apart: the difference is" in text and "other" not in text


def test_one_seed_has_no_interval(store: Records) -> None:
    """Rows trained once are named with their difference and the reason why no interval stands beside it."""
    add(store, "once-only", 1.2, (0,))
    _, one = said(store, "far-above", "once-only")
    text = " ".join(one.sentences)
    assert "; of one seed: once-only with a difference of" in text
    assert "above once-only, the next of this run's rows. In parentheses:" in text
    assert text.endswith("no interval, because its noise is not known: run --seeds 3.")
    assert len(gaps(text)) == 1 and "nan" not in text


def test_tasks_without_pairs_have_no_interval(tmp_path: Path) -> None:
    """Accuracies: averages beside each other; a failed row has none, and that is said too."""
    store = Records(tmp_path)
    for name, main in (("m", 0.7), ("random", 0.2)):
        for task in TASKS:
            store.write(make_record(name, task, main=main))
    _, one = said(store, "m")
    assert one.sentences[0] == "m has an average of 70.00; the best control, random, has 20.00."
    assert "no interval" in one.sentences[1] and one.tasks == ()
    store.write(failed(make_record("broken", TASKS[0]), "out of memory"))
    _, none = said(store, "broken")
    assert none.sentences == ["No row of this run has a score on all tasks, so that no averages are compared."]


@pytest.mark.slow
def test_each_row_has_its_gain_over_its_own_start(store: Records) -> None:
    """With the interval of `compare`; a start is no row of the run, and need not be a control."""
    add(store, "plain", 2.5)
    add(store, "static", 2.0)
    names, starts = ("far-above", "equal", "below-it"), {"far-above": "plain", "equal": "static", "below-it": "static"}
    _, one = said(store, *names, starts=starts)
    text = " ".join(one.sentences)
    assert one.starts == starts and one.rows == list(names)
    by_name = {name: [r for r in store.all() if r["method"]["name"] == name] for name in (*names, "plain", "static")}
    for name, how in (("far-above", "is {} above"), ("equal", "is not told apart from"), ("below-it", "is {} below")):
        start = starts[name]
        line = compare("two", TASKS, by_name[name], by_name[start], store, 2000).average
        assert line is not None
        wanted = [line.difference, line.low, line.high]
        if "{}" not in how:
            told = f"{name} {how} {start}, which it starts from: the difference is "
            assert told in text
            (found,) = gaps(text.partition(told)[2].partition(")")[0] + ")")
        else:
            found = gaps(text.partition(f"{name} is ")[2].partition(")")[0] + ")")[0]
            assert f") {how[-5:]} {start}, which" in text
            wanted = wanted if how.endswith("above") else [-line.difference, -line.high, -line.low]
        assert found == pytest.approx(wanted, abs=0.1 * (line.high - line.low))


@pytest.mark.slow
def test_the_run_ends_with_what_was_learned(cli: Cli, fakes: None, tmp_path: Path) -> None:
    """After the table on standard output, and not in JSON."""
    words = ("run", "--methods", "bag", "--tasks", "pocket-words", "--results", tmp_path, *FAST)
    answer = cli(*words)
    assert answer.code == 0 and suite("pocket").title in answer.out
    end = answer.out.partition("What was learned: ")[2]
    assert end.startswith("On Words, bag has") and end.count("zoo-bench ") <= 1
    assert "What was learned" not in cli(*words, "--json").out
