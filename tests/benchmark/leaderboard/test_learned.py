"""What a run says at its end: against `compare` on the same records, without controls, pairs, averages or company."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli, failed, make_record
from scipy import stats

from benchmark.cli.closing import commands, with_controls
from benchmark.leaderboard.comparison import compare
from benchmark.leaderboard.learned import Learned, learned
from benchmark.leaderboard.rows import Table
from benchmark.leaderboard.table import build_tables
from benchmark.records.store import Records
from benchmark.run.options import RunOptions
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


def said(store: Records, *names: str) -> tuple[Table, Learned]:
    """Return the table and what it says of rows of these names."""
    records = store.all()
    (table,) = build_tables(records, [WORDS], store)
    keys = {record["row_key"] for record in records if record["method"]["name"] in names}
    return table, learned(table, records, store, keys)


def gaps(text: str) -> list[list[float]]:
    """Return every "2.1 (-1.0 to 5.2)" of a text as numbers."""
    return [[float(x) for x in found] for found in re.findall(r"(-?[\d.]+) \((-?[\d.]+) to (-?[\d.]+)\)", text)]


@pytest.fixture
def store(tmp_path: Path) -> Records:
    """A control, three rows above, about and below it."""
    folder = Records(tmp_path)
    add(folder, "random", 2.0, (0, 1, 2))
    add(folder, "far-above", 0.5, (0, 1, 2))
    add(folder, "equal", 2.0, (0, 1))
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
    assert len(one.sentences) == 1 and one.sentences[0].endswith(
        "No control is in the table to say how much of that is easy to have."
    )
    add(store, "near-row", 1.0)
    add(store, "other", 0.1)
    _, two = said(store, "one-row", "near-row")
    assert "are not told apart: the difference is" in two.sentences[1] and "other" not in " ".join(two.sentences)


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


def test_three_commands_lead_on(store: Records) -> None:
    """They name rows, tasks and folder; controls are asked for where there is none, under the run's own conditions."""
    table, one = said(store, "far-above", "equal")
    (store.folder / "elsewhere").mkdir()
    alone = Records(store.folder / "elsewhere")
    add(alone, "only", 1.0)
    without, only = said(alone, "only")
    options = RunOptions(methods="x", suites="two", backbone="b", results=store.folder)
    lines = commands(options, table, one)
    where = ["--results", str(store.folder)]
    assert [words for words, _ in lines] == [
        ["compare", "far-above", "equal", "--suite", "two", *where],
        ["report", "far-above", *where],
        ["leaderboard", "--by-condition", *where],
    ]
    ask = ["run", "--methods", "random,bag-of-words,avg-last", "--suite", "two", "--backbone", "b", *where]
    assert [words for words, _ in commands(options, without, only)][:2] == [ask, ["report", "only", *where]]


def test_controls_are_added_to_a_first_look_only() -> None:
    """Where methods alone are named; those that are named already are not named twice."""
    assert with_controls(RunOptions(methods="simcse,avg-*")).methods == "simcse,avg-*,random"
    assert with_controls(RunOptions(methods="avg-last", device="cpu", results=Path("x"))).methods == "avg-last,random"
    others: tuple[dict[str, Any], ...] = ({"suites": "pocket"}, {"tasks": "pocket-words"}, {"label": "m"}, {"limit": 9})
    for other in others:
        assert with_controls(RunOptions(methods="simcse", **other)).methods == "simcse"


@pytest.mark.slow
def test_the_run_ends_with_what_was_learned(cli: Cli, fakes: None, tmp_path: Path) -> None:
    """After the table on standard output, and not in JSON."""
    words = ("run", "--methods", "bag", "--tasks", "pocket-words", "--out", tmp_path, *FAST)
    answer = cli(*words)
    assert answer.code == 0 and suite("pocket").title in answer.out
    end = answer.out.partition("What was learned: ")[2]
    assert end.startswith("On Words, bag has") and end.count("  zoo-bench ") == 3
    assert "What was learned" not in cli(*words, "--json").out
