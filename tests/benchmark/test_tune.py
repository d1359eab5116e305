"""Tuning: spaces, studies that go on where they were, and development pairs alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.data.corpora import normalised
from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.run.options import TUNED_ON, RunOptions
from benchmark.run.plan import Run
from benchmark.run.prepare import prepare
from benchmark.tasks.base import PairsData
from benchmark.tasks.loaded import load_tasks
from benchmark.tune import Budget, default_space, space_of, tune, typed_space
from zoo.errors import TrainingError, UsageError
from zoo.progress import Progress
from zoo.recipes import all_recipes, tuned_recipes


def recipe(name: str = "simcse") -> object:
    return all_recipes()[name].resolve()[1]


def test_a_space_has_bounds_multiples_and_lists() -> None:
    space = space_of(recipe(), {"learning_rate": "0.5x..4x:log", "epochs": "1..3", "batch_size": [32, 64]}, "simcse")
    assert (space["learning_rate"].low, space["learning_rate"].high, space["learning_rate"].log) == (
        1.5e-5,
        1.2e-4,
        True,
    )
    assert space["epochs"].whole and 3 in space["epochs"] and 4 not in space["epochs"]
    assert 64 in space["batch_size"] and 128 not in space["batch_size"]


@pytest.mark.parametrize(
    ("stated", "named"),
    [
        ({"learning_rate": "1e-4..1e-5"}, "LOW..HIGH"),
        ({"learning_rate": "0..1:log"}, "LOW..HIGH"),
    ],
)
def test_a_space_that_does_not_fit_is_named(stated: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        space_of(recipe(), stated, "simcse")


def test_typed_spaces() -> None:
    assert typed_space(["a=1..2", "b=[3, 4]"]) == {"a": "1..2", "b": [3, 4]}
    with pytest.raises(UsageError, match="learning_rate"):
        typed_space(["learning_rate"])


def test_keys_that_a_recipe_lacks_or_leaves_open_are_not_tuned() -> None:
    assert set(default_space(recipe())) == {"learning_rate", "temperature", "batch_size"}
    assert default_space(recipe("ct"))["batch_size"] == [16, 64, 128, 256]
    assert default_space(recipe("avg-last")) == {}


def options(folder: Path, methods: str, **more: object) -> RunOptions:
    chosen = {"backbone": "zoo-mini", "corpus": "pocket-text", "train_sentences": 32, "precision": "fp32", **more}
    return RunOptions(methods=methods, results=folder, **{"dev": "pocket-pairs", **chosen})  # type: ignore[arg-type]


SPACE = ["batch_size=[16, 32, 64]", "learning_rate=1x..30x:log"]


@pytest.mark.slow
def test_a_study_goes_on_and_its_recipe_runs(tmp_path: Path) -> None:
    wanted = options(tmp_path, "simcse")
    first = tune(wanted, Budget(2), space=SPACE, progress=Progress.silent())[0]
    again = tune(wanted, Budget(3), space=SPACE, progress=Progress.silent())[0]
    assert (first.trials, again.trials) == (2, 3)
    assert tune(wanted, Budget(2), space=SPACE, progress=Progress.silent())[0] == first  # the budget, and no trial more
    again = tune(wanted, Budget(3), space=SPACE, progress=Progress.silent())[0]
    assert first.before == again.before is not None and again.best >= first.best  # the recipe's own settings, first
    assert "| 2 |" in again.file.with_suffix(".md").read_text()
    spec = tuned_recipes(tmp_path)["simcse-tuned"]
    assert spec.tuned is not None and (spec.tuned.trials, spec.tuned.dev) == (3, "pocket-pairs")
    (plan,) = prepare(Run(options(tmp_path, "simcse-tuned", tasks="pocket-pairs", seeds=1))).encoders
    assert plan.tuned == spec.tuned and plan.recipe.batch_size == again.values["batch_size"]


@pytest.mark.slow
def test_a_study_whose_trials_all_fail_has_the_reason(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="temperature must be above 0"):
        tune(options(tmp_path, "simcse"), Budget(2), space=["temperature=[-1.0, -2.0]"], progress=Progress.silent())
    with pytest.raises(UsageError, match="--trials 0"):
        tune(options(tmp_path, "simcse"), Budget(0))
    with pytest.raises(UsageError, match="avg-last"):
        tune(options(tmp_path, "avg-last"), Budget(1))


@pytest.mark.slow
def test_a_study_reads_no_test_pair(tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    located, locate = [], DataSource.locate

    def watched(self: DataSource, name: str, form: str) -> object:
        located.append(name)
        return locate(self, name, form)

    def refused(self: PairsData, *_: object) -> None:
        raise AssertionError("a study scored test pairs")

    monkeypatch.setattr(DataSource, "locate", watched)
    monkeypatch.setattr(PairsData, "score", refused)
    wanted = options(tmp_path, "simcse", dev=None, data=str(data_dir))  # which is stsb-dev-disjoint here
    tune(wanted, Budget(1), space=SPACE, progress=Progress.silent())
    assert set(located) - {"pocket-text"} == {"STSBenchmark"}
    dev = prepare(Run(replace(wanted, dev=TUNED_ON)), write=False).dev.data  # type: ignore[union-attr]
    assert dev is not None and dev.dev_overlap().in_test == 0  # type: ignore[union-attr]


def test_six_pairs_of_the_task_are_in_a_test(data_dir: Path) -> None:
    """They are SICK-R's; docs/tune.md says so. Compared are lower-case letters and digits, in either order."""

    def pairs(some: Pairs) -> set[frozenset[str]]:
        return {frozenset(map(normalised, pair)) for pair in zip(some.first, some.second, strict=True)}

    tests = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
    (dev, *others) = [one.data for one in load_tasks([TUNED_ON, *tests], DataSource(data_dir, hub=False), None)]
    shared = [len(pairs(dev.dev) & {p for part in one.subsets.values() for p in pairs(part)}) for one in others]  # type: ignore[union-attr]
    assert dict(zip(tests, shared, strict=True)) == {**dict.fromkeys(tests, 0), "SICK-R": 6}
