"""A run's cost is stated before it starts, follows from its FLOPs and the machine's product, and is bounded."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import Cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmark.data.readers.pairs import Pairs
from benchmark.metrics.finetuning import EPOCHS
from benchmark.run import estimate
from benchmark.run.options import RunOptions
from benchmark.run.plan import Request, Run
from benchmark.run.prepare import planned, prepare
from benchmark.run.runner import Remaining
from benchmark.tasks.finetune import ScoredFinetuneData
from benchmark.tasks.suites import all_suites
from zoo.encoder import Run as Fit
from zoo.machine import cpu_bf16, layer_rate, stretch_now
from zoo.methods.ct import CT
from zoo.progress import Progress, clock

AT = estimate.Rates(encoding=1e9, training=2e9)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    methods = "simcse,simcse:epochs=2,ptbert,cls,random,whitening,static-avg"
    folder = tmp_path_factory.mktemp("results")
    return prepare(Request(RunOptions(methods=methods, seeds=1, results=folder), progress=Progress.silent()))


def nli(folder: Path, rows: int) -> str:
    """Write labelled pairs of some ten words; return their file."""
    labels = ("entailment", "contradiction")
    texts = [f"a man of {n} sings in a park\ta person sings {n} songs\t{labels[n % 2]}" for n in range(rows)]
    (folder / "pairs.tsv").write_text("\n".join(["premise\thypothesis\tlabel", *texts]) + "\n", encoding="utf-8")
    return str(folder / "pairs.tsv")


def seconds(run: Run, monkeypatch: pytest.MonkeyPatch, rate: float, cores: int = 1) -> dict[str, float]:
    monkeypatch.setattr(estimate, "layer_rate", lambda *_, **__: rate)
    taken = estimate.estimated(run, cores).seconds
    return {plan.row.name: taken[plan.inputs.row_key] - estimate._SECONDS for plan in run.encoders}


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rate=st.floats(1e9, 1e14), cores=st.integers(1, 64))
def test_the_seconds_are_those_of_the_products(
    run: Run, monkeypatch: pytest.MonkeyPatch, rate: float, cores: int
) -> None:
    taken = seconds(run, monkeypatch, rate, cores)
    half = seconds(run, monkeypatch, rate / 2, cores)
    assert all(half[name] == pytest.approx(2 * taken[name]) for name in taken)
    assert taken == pytest.approx(seconds(run, monkeypatch, rate * cores))
    assert taken["simcse:epochs=2"] - taken["simcse"] == pytest.approx(taken["simcse"] - taken["cls"], rel=0.3)
    assert taken["simcse"] > taken["ptbert"] > taken["whitening"] > taken["cls"] > taken["random"] == 0


def test_it_counts_a_training_as_its_texts_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the sentences are twice the training; a tenth of the steps are a tenth."""
    (plan,) = [plan for plan in run.encoders if plan.row.name == "simcse"]
    row, corpus = plan.row, plan.inputs.corpus
    assert corpus is not None
    traits = replace(row.traits, picks_checkpoint=False)

    def training(**recipe: Any) -> float:
        changed = replace(plan, row=replace(row, recipe=replace(row.recipe, **recipe), traits=traits))
        return estimate._seconds(changed, AT, 0, 0)

    assert training(steps=47) / training(steps=470) == pytest.approx(0.1)
    inputs = replace(plan.inputs, corpus=replace(corpus, sentences=["one two"] * 64))
    tokens = 64 * (1.3 * 2 + 2)
    weights = estimate.weights_of(plan)
    expected = 6 * weights * 2 * tokens / AT.training
    without = replace(plan, row=replace(row, traits=traits), inputs=inputs)
    assert estimate._seconds(without, AT, 0, 0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("recipe", "looks"),
    [
        ({"steps": 100, "eval_every": None}, 1),
        ({"steps": 100, "eval_every": 25}, 4),
        ({"steps": 100, "eval_every": 30}, 4),
        ({"steps": 90, "looks": 7}, 7),
    ],
)
def test_each_look_at_the_development_set_is_an_encoding(run: Run, recipe: dict[str, Any], looks: int) -> None:
    (plan,) = [plan for plan in run.encoders if plan.row.name == "simcse"]
    changed = replace(plan, row=replace(plan.row, recipe=replace(plan.row.recipe, **recipe)))
    weights = estimate.weights_of(plan)
    without, with_looks = (estimate._seconds(changed, AT, 0, tokens) for tokens in (0, 500))
    assert with_looks - without == pytest.approx(looks * 2 * weights * 500 / AT.encoding)
    last = replace(changed, row=replace(changed.row, traits=replace(plan.row.traits, picks_checkpoint=False)))
    assert estimate._seconds(last, AT, 0, 500) == without


@pytest.mark.parametrize("rows", [1, 40, 300])
def test_fine_tuning_counts_its_epochs_and_seeds(run: Run, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """An encoder without a seed is fine-tuned with three; one that is not fine-tuned takes no longer."""
    pairs = Pairs(["one two"] * rows, ["three"] * rows, np.ones(rows))
    first = run.tasks[0].data
    assert first is not None
    data = ScoredFinetuneData(first.located, {"train": pairs, "test": pairs.head(0)}, None, low=0, high=5)
    with_task = replace(run, tasks=(*run.tasks, replace(run.tasks[0], data=data)))
    before, after = seconds(run, monkeypatch, 1e9), seconds(with_task, monkeypatch, 1e9)
    more = {name: after[name] - before[name] for name in after}
    (weights,) = {estimate.weights_of(plan) for plan in run.encoders if plan.row.name == "cls"}
    once = 6 * weights * EPOCHS * rows * (1.3 * 3 + 4 + estimate._UPDATE / 16) / 1e9
    assert more["cls"] == pytest.approx(3 * once) and more["simcse"] == pytest.approx(once)
    assert more["whitening"] == more["random"] == 0


@pytest.mark.parametrize(("at_once", "share"), [(1, 1), (2, 2), (7, 7), (99, 7), (0, 1)])
def test_no_more_encoders_work_at_once_than_there_are(run: Run, at_once: int, share: int) -> None:
    assert len(run.encoders) == 7
    timed = replace(run, seconds={plan.inputs.row_key: 420.0 for plan in run.encoders})
    assert estimate.in_all(timed, timed.encoders, at_once).endswith(f"take about {clock(7 * 420 / share)}")


CASES = [
    ("simcse", "fp32"),
    ("ptbert", "fp32"),
    ("simcse", "bf16"),
    ("simcse:batch_size=8", "fp32"),
    ("infersent:lstm_dim=1024:epochs=1", "bf16"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "precision"), CASES)
def test_a_training_takes_about_what_is_estimated(method: str, precision: str, tmp_path: Path) -> None:
    """Processor seconds of one thread; the layer is timed before and after, as other work may slow it."""
    if precision == "bf16" and not cpu_bf16()["bfloat16"]:
        pytest.skip("this processor has no bfloat16")
    pairs = nli(tmp_path, 512) if "infersent" in method else None
    options = RunOptions(methods=method, seeds=1, results=tmp_path, train_sentences=1024, pairs=pairs, controls=False)
    run = prepare(Request(replace(options, precision=precision, tasks="pocket-words"), progress=Progress.silent()))
    (plan,) = run.encoders
    assert plan.inputs.corpus is not None

    def stated() -> float:
        layer_rate.cache_clear()
        return estimate.estimated(run, 1).seconds[plan.inputs.row_key] - estimate._SECONDS

    before, threads = stated(), torch.get_num_threads()
    encoder = plan.row.cls(plan.row.recipe, run.runtime)
    torch.set_num_threads(1)
    try:
        started = time.process_time()
        encoder.fit(plan.inputs.corpus, run=Fit(seed=0))
        taken = time.process_time() - started
    finally:
        torch.set_num_threads(threads)
    expected = min(before, stated())
    assert expected / 2 < taken < expected * 2


def test_a_layer_is_timed_and_draws_nothing() -> None:
    state = torch.get_rng_state()
    assert all(layer_rate("fp32", training=training) > 1e8 for training in (False, True))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("pairs", "rows", "epochs", "steps"), [("shared", 330, 1, 20), ("disjoint", 330, 3, 30)])
def test_no_more_updates_count_than_the_passes_have(pairs: Any, rows: int, epochs: int, steps: int) -> None:
    recipe = CT.Recipe(pairs=pairs, epochs=epochs)
    groups = recipe.groups(rows, 0)
    assert recipe.most_steps(rows) == groups.count // groups.of_batch == steps


def test_the_first_line_and_the_dry_run_say_how_long_it_takes(cli: Cli, tmp_path: Path) -> None:
    answer = cli("run", "--methods", "simcse", "--dry-run", "--results", tmp_path)
    assert answer.code == 0 and re.search(r"all of them take about \d+:\d\d", answer.err)


@pytest.mark.parametrize(
    ("first", "second", "to_measure", "cells"),
    [
        ("random --seeds 2", "random,static-avg --seeds 3", "2 of 4 encoders", 4),
        ("static-avg,random --seeds 2", "random --seeds 2", "0 of 2 encoders", 0),
        ("random --seeds 1", "static-avg", "1 encoder", 2),
        ("random --seeds 2 --tasks pocket-words", "random,static-avg --seeds 2", "3 encoders", 4),
        ("random --seeds 2", "random --seeds 2 --remeasure", "2 encoders", 4),
    ],
)
def test_the_first_line_counts_encoders_with_cells_to_measure(
    first: str, second: str, to_measure: str, cells: int, cli: Cli, tmp_path: Path
) -> None:
    for words in (first, second):
        tasks = "" if "--tasks" in words else " --tasks pocket-words,pocket-phrases"
        answer = cli("run", "--precision", "fp32", "--results", tmp_path, "--methods", *(words + tasks).split())
        assert answer.code == 0, answer.err
    assert answer.err.startswith(f"{to_measure} x 2 tasks on cpu")
    assert f"\n{cells} cells measured" in answer.err + answer.out


def test_a_busy_machine_is_said_before_the_run_and_until_an_encoder_ends(run: Run) -> None:
    busy = replace(run, seconds={plan.inputs.row_key: 60.0 for plan in run.encoders}, stretch=3.0)
    count = len(run.encoders)
    assert (
        estimate.in_all(busy, busy.encoders, 1)
        == f"; all of them take about {count}:00, {3 * count}:00 beside the machine's other work"
    )
    assert estimate.in_all(replace(busy, stretch=1.0), busy.encoders, 1) == f"; all of them take about {count}:00"
    remaining = Remaining(run.encoders, busy.seconds, stretch=busy.stretch)
    assert remaining.text() == f", about {3 * count}:00 left in all"
    remaining.done(run.encoders[0], 60.0)
    assert remaining.text() == f", about {count - 1}:00 left in all", "what was measured replaces it"


@pytest.mark.parametrize("threads", [1, 3])
def test_other_work_is_seen_in_the_processor_time_of_threads(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Threads that run a quarter of the time are stretched fourfold; nothing runs faster than without other work."""
    monkeypatch.setattr("zoo.machine._LOOK", 0.02)
    for part, expected in ((0.25, 4.0), (0.5, 2.0), (1.0, 1.0), (2.0, 1.0)):
        ticks = threading.local()

        def thread_time(part: float = part, ticks: Any = ticks) -> float:
            ticks.calls = getattr(ticks, "calls", 0) + 1
            return float(part * 0.02 * (1 - ticks.calls % 2))

        monkeypatch.setattr("zoo.machine.time.thread_time", thread_time)
        assert stretch_now(threads) == pytest.approx(expected)


def test_a_suites_own_text_is_bounded_and_a_line_says_how_to_take_more(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded = {name: replace(suite, train_sentences=100) for name, suite in all_suites().items()}
    monkeypatch.setattr("benchmark.tasks.suites.all_suites", lambda: bounded)
    words = ("run", "--methods", "simcse", "--dry-run", "--results", tmp_path)
    stderr = cli(*words).err
    assert "training text: 100 sentences of" in stderr and "--train-sentences N takes more" in stderr
    stderr = cli(*words, "--train-sentences", "200").err
    assert "training text: 200 sentences of" in stderr and "takes more" not in stderr
    (tmp_path / "own.txt").write_text("\n".join(f"a sentence {i}" for i in range(300)), encoding="utf-8")
    stderr = cli(*words, "--corpus", tmp_path / "own.txt").err
    assert "training text: 300 sentences of own.txt" in stderr and "takes more" not in stderr, "its user chose it"


def test_every_shipped_suite_is_bounded() -> None:
    assert all(suite.train_sentences <= 20_000 for suite in all_suites().values())


def test_every_recipe_has_an_estimate(tmp_path: Path) -> None:
    """Those with neither looks nor an interval of them, as SBERT's, too."""
    pairs = nli(tmp_path, 50)
    given: dict[str, Any] = {"tasks": "pocket-words", "pairs": pairs, "allow_missing": True, "controls": False}
    options = RunOptions(methods="*", seeds=1, results=tmp_path, **given)
    run = estimate.estimated(planned(Request(options, progress=Progress.silent())), 1)
    trained = [plan for plan in run.encoders if plan.sentences]
    assert {"sbert", "simcse", "ptbert", "burt", "infersent-glove"} <= {plan.row.name for plan in trained}
    without = {plan.row.name for plan in trained if run.seconds[plan.inputs.row_key] <= estimate._SECONDS}
    assert without == {"static-contrastive-halves"}, "its vectors are in a table, without a layer"
