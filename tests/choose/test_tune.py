"""Tuning by its command: development pairs alone, a seed of its own, studies that go on, and recipes that run."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import zoo
from benchmark.data.corpora import normalised
from benchmark.data.readers.pairs import Pairs
from benchmark.data.sources import DataSource
from benchmark.keys import code_digest
from benchmark.run.options import TUNED_ON, RunOptions
from benchmark.run.plan import Request
from benchmark.run.prepare import prepare
from benchmark.run.vectors import VectorStore
from benchmark.tasks.base import PairsData
from benchmark.tasks.loaded import load_tasks
from choose import tune as module
from choose.commands.tune import command
from choose.tune import Budget, Tuning, identity_of_study, tune
from zoo.encoder import Corpus, FitReport, Run
from zoo.errors import CorruptError, MissingError, TrainingError, UsageError
from zoo.files import read_signed
from zoo.methods.simcse import SimCSE
from zoo.progress import Progress
from zoo.recipes import all_recipes, tuned_recipes


def options(folder: Path, methods: str = "simcse", **more: object) -> RunOptions:
    chosen = {"backbone": "zoo-mini", "corpus": "pocket-text", "train_sentences": 32, "precision": "fp32", **more}
    return RunOptions(methods=methods, results=folder, **{"dev": "pocket-pairs", **chosen})  # type: ignore[arg-type]


SPACE = ["batch_size=[16, 32, 64]", "learning_rate=1x..30x:log"]


def tuned(folder: Path, trials: int, studies: int = 1, space: list[str] = SPACE, **more: object) -> list[Tuning]:
    wanted = options(folder, **more)  # type: ignore[arg-type]
    return tune(wanted, Budget(trials, studies=studies), space=space, progress=Progress.silent())


@dataclasses.dataclass
class Trained:
    """Recipes and seeds of the trainings in place of which scores are given."""

    recipes: list[Any] = dataclasses.field(default_factory=list)
    seeds: list[int] = dataclasses.field(default_factory=list)
    sentences: list[int] = dataclasses.field(default_factory=list)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trained]:
    """Trainings take no time; the score is higher the higher the rate is, and the recipe's own has the lowest."""
    kept = Trained()

    def fit(self: SimCSE, corpus: Corpus, *, dev_score: object = None, run: Run) -> FitReport:
        kept.recipes.append(self.recipe)
        kept.seeds.append(run.seed)
        kept.sentences.append(len(corpus.sentences))
        return FitReport(fitted=True)

    monkeypatch.setattr(SimCSE, "fit", fit)

    def score_dev(self: PairsData, vectors: VectorStore) -> float:
        return 1e4 * kept.recipes[-1].learning_rate if isinstance(vectors._obtain(), SimCSE) else 0.12

    monkeypatch.setattr(PairsData, "score_dev", score_dev)
    return kept


@pytest.mark.parametrize(
    ("methods", "first", "second", "studies", "to_make"),
    [("simcse", 2, 5, 1, 3), ("simcse,simcse:epochs=2", 1, 3, 1, 4), ("simcse", 3, 2, 1, 0), ("simcse", 2, 3, 2, 2)],
)
def test_the_first_line_counts_trials_to_make_and_each_is_announced(
    methods: str, first: int, second: int, studies: int, to_make: int, tmp_path: Path, trained: Trained
) -> None:
    for trials in (first, second):
        budget, log = Budget(trials, studies=studies), io.StringIO()
        trained.recipes.clear()
        tune(options(tmp_path, methods=methods), budget, space=SPACE, progress=Progress(log))
    lines = [line for line in log.getvalue().splitlines() if "trial" in line]
    assert re.match(rf"{to_make} trials on cpu" + (r"; all of them take about \d+:\d\d" if to_make else "$"), lines[0])
    assert len(trained.recipes) == to_make and len(lines) == 1 + 2 * to_make
    assert all(after.startswith(f"{before}: ") for before, after in zip(lines[1::2], lines[2::2], strict=True))


def test_a_study_goes_on_and_its_recipe_has_the_best_settings(tmp_path: Path, trained: Trained) -> None:
    (first,) = tuned(tmp_path, 2)
    settings = all_recipes()["simcse"].resolve()[1]
    assert (trained.recipes[0].learning_rate, trained.recipes[0].batch_size) == (
        settings.learning_rate,
        settings.batch_size,
    )
    assert trained.seeds == [1000, 1000], "no seed of a run's rows"
    (again,) = tuned(tmp_path, 3)
    assert len(trained.recipes) == 3, "two were kept"
    assert (first.trials, again.trials) == (2, 3)
    assert tuned(tmp_path, 2) == [first] and len(trained.recipes) == 3, "the budget, and no trial more"
    assert again.before == pytest.approx(0.3) and again.best == max(1e4 * one.learning_rate for one in trained.recipes)
    spec = tuned_recipes(tmp_path)["simcse-tuned"]
    assert spec.tuned is not None and (spec.tuned.trials, spec.tuned.spread) == (2, None)
    assert spec.parameters["looks"] == 4
    page = first.file.with_suffix(".md").read_text(encoding="utf-8")
    assert "| 1 | 64 | 3e-05 | 0.30 |" in page
    assert "| | | | 0.12 | the start of the best trial, untrained |" in page and first.untrained == 0.12


def test_another_text_or_space_is_another_study(tmp_path: Path, trained: Trained) -> None:
    tuned(tmp_path, 2)
    tuned(tmp_path, 2, train_sentences=48)
    assert trained.sentences == [32, 32, 48, 48]
    tuned(tmp_path, 2, space=["learning_rate=1x..30x:log"])
    assert len(trained.recipes) == 6
    assert len(list((tmp_path / "tuned" / "simcse").iterdir())) == 3


def test_studies_have_draws_of_their_own_and_a_spread(tmp_path: Path, trained: Trained) -> None:
    first, second, third = tuned(tmp_path, 3, studies=3)
    assert [one.name for one in (first, second, third)] == [
        "simcse-tuned",
        "simcse-tuned-study2",
        "simcse-tuned-study3",
    ]
    assert len({one.best for one in (first, second, third)}) == 3 and first.before == second.before
    mean = (first.best + second.best + third.best) / 3
    spread = (sum((one.best - mean) ** 2 for one in (first, second, third)) / 2) ** 0.5
    assert first.spread == third.spread == pytest.approx(spread)
    recipes = tuned_recipes(tmp_path)
    assert recipes["simcse-tuned-study2"].tuned.spread == pytest.approx(spread)  # type: ignore[union-attr]
    assert len(trained.recipes) == 9
    assert tuned(tmp_path, 3)[0].best == first.best and len(trained.recipes) == 9, "the first of them is kept"


def test_a_damaged_trial_ends_the_command_before_anything_is_trained(tmp_path: Path, trained: Trained) -> None:
    tuned(tmp_path, 2)
    (path,) = (tmp_path / "tuned" / "simcse").glob("*/002.json")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CorruptError, match=r"002\.json"):
        tuned(tmp_path, 3)
    assert len(trained.recipes) == 2


def test_a_study_goes_on_by_other_code_and_its_trials_state_theirs(
    tmp_path: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions decide: those of method, task and protocol are in the study's key."""
    tuned(tmp_path, 2)
    monkeypatch.setattr(module, "code_digest", lambda: "0" * 64)
    tuned(tmp_path, 3)
    codes = [read_signed(path)["code"] for path in sorted((tmp_path / "tuned" / "simcse").glob("*/*.json"))]
    assert codes == [code_digest()] * 2 + ["0" * 64] and len(trained.recipes) == 3


def test_what_a_study_is_made_of_is_in_its_identity() -> None:
    def plan(name: str = "a", row_key: str = "1", text: str = "2") -> Any:
        inputs = SimpleNamespace(row_key=row_key, corpus_identity={"sha256": text})
        return SimpleNamespace(row=SimpleNamespace(name=name), inputs=inputs)

    dev: Any = SimpleNamespace(identity=lambda: {"name": "dev"})
    other: Any = SimpleNamespace(identity=lambda: {"name": "another"})
    identities = [
        identity_of_study(plan(), dev, {}, 1),
        identity_of_study(plan(), other, {}, 1),
        identity_of_study(plan(), dev, {}, 2),
        identity_of_study(plan(name="b"), dev, {}, 1),
        identity_of_study(plan(row_key="3"), dev, {}, 1),
        identity_of_study(plan(text="4"), dev, {}, 1),
    ]
    assert all(one != two for i, one in enumerate(identities) for two in identities[:i])


def test_the_default_task_is_the_disjoint_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def watched(request: Request, **_: object) -> None:
        asked.append(request.options.dev)
        raise UsageError("enough")

    monkeypatch.setattr(module, "planned", watched)
    with pytest.raises(UsageError):
        tune(options(tmp_path, dev=None), Budget(1))
    CliRunner().invoke(command, ["simcse", "--results", str(tmp_path)])
    assert asked == ["stsb-dev-disjoint", "stsb-dev-disjoint"]


@pytest.mark.slow
def test_a_recipe_that_was_tuned_runs_with_four_looks(tmp_path: Path) -> None:
    (tuning,) = tuned(tmp_path, 2, train_sentences=128)
    spec = yaml.safe_load(tuning.file.read_text(encoding="utf-8"))
    (plan,) = prepare(Request(options(tmp_path, "simcse-tuned", tasks="pocket-pairs", seeds=1))).encoders
    row = plan.row
    (task,) = load_tasks(["pocket-pairs"], DataSource(None, hub=False), None)
    untrained = zoo.create("cls:backbone=zoo-mini")
    assert tuning.untrained == task.data.score_dev(VectorStore(untrained, "cls"))
    assert row.tuned is not None and row.tuned.study == spec["tuned"]["study"]
    assert (row.recipe.batch_size, row.recipe.looks) == (tuning.values["batch_size"], 4)
    (paper,) = prepare(Request(options(tmp_path, tasks="pocket-pairs", seeds=1))).encoders
    assert paper.row.recipe.looks is None


def test_a_run_picks_checkpoints_on_the_pairs_of_its_tuned_recipes(tmp_path: Path, trained: Trained) -> None:
    tuned(tmp_path, 2)
    wanted = options(tmp_path, "simcse-tuned,simcse", tasks="STS-B", seeds=1, dev=None)
    assert chosen_task(wanted) == "pocket-pairs"
    with pytest.raises(MissingError, match="--dev STS-B"):  # what is typed wins; its data is not here
        chosen_task(dataclasses.replace(wanted, dev="STS-B"))
    assert chosen_task(dataclasses.replace(wanted, methods="simcse")) == "STS-B"
    other = (tmp_path / "tuned" / "simcse-tuned.yaml").read_text(encoding="utf-8").replace("pocket-pairs", "SICK-R")
    (tmp_path / "tuned" / "simcse-tuned-study2.yaml").write_text(other, encoding="utf-8")
    with pytest.raises(UsageError, match=r"tuned on SICK-R and pocket-pairs.*name it with --dev"):
        chosen_task(dataclasses.replace(wanted, methods="simcse-tuned,simcse-tuned-study2"))


def chosen_task(wanted: RunOptions) -> str:
    dev = prepare(Request(dataclasses.replace(wanted, allow_missing=True))).dev
    assert dev is not None
    return dev.name


def test_a_study_whose_trials_all_fail_has_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*_: object, **__: object) -> FitReport:
        raise TrainingError("the loss is nan at step 3.")

    monkeypatch.setattr(SimCSE, "fit", fit)
    with pytest.raises(TrainingError, match="simcse: no trial of 2 has a score: the loss is nan at step 3"):
        tuned(tmp_path, 2)


def test_a_value_that_the_recipe_refuses_is_a_failed_trial(tmp_path: Path, trained: Trained) -> None:
    (tuning,) = tuned(tmp_path, 2, space=["temperature=[-1.0, -2.0]"])
    assert tuning.before == tuning.best == pytest.approx(0.3)
    assert "| 2 | -1 |  | failed |" in tuning.file.with_suffix(".md").read_text(encoding="utf-8").replace("-2", "-1")


def test_a_budget_or_a_recipe_without_trials_is_refused(tmp_path: Path) -> None:
    for budget, named in ((Budget(0), "--trials 0"), (Budget(1, studies=0), "--studies 0")):
        with pytest.raises(UsageError, match=named):
            tune(options(tmp_path), budget)
    with pytest.raises(UsageError, match="avg-last has nothing to tune by itself"):
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
    dev = prepare(Request(replace(wanted, dev=TUNED_ON)), write=False).dev.data  # type: ignore[union-attr]
    assert dev is not None and dev.dev_overlap().in_test == 0  # type: ignore[union-attr]


def test_six_pairs_of_the_task_are_in_a_test(data_dir: Path) -> None:
    """They are SICK-R's; docs/tune.md says so. Compared are lower-case letters and digits, in either order."""

    def pairs(some: Pairs) -> set[frozenset[str]]:
        return {frozenset(map(normalised, pair)) for pair in zip(some.first, some.second, strict=True)}

    tests = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
    (dev, *others) = [one.data for one in load_tasks([TUNED_ON, *tests], DataSource(data_dir, hub=False), None)]
    shared = [len(pairs(dev.dev) & {p for part in one.subsets.values() for p in pairs(part)}) for one in others]  # type: ignore[union-attr]
    assert dict(zip(tests, shared, strict=True)) == {**dict.fromkeys(tests, 0), "SICK-R": 6}


@pytest.mark.parametrize(
    ("more", "longer"),
    [
        ({"space": ["learning_rate=0.1x..0.5x:log"]}, True),
        ({"train_sentences": 48}, True),
        ({"backbone": "zoo-small"}, True),
        ({"trials": 4}, False),
        ({"trials": 1}, False),
    ],
)
def test_another_study_keeps_the_recipe_that_is_there(
    more: dict[str, Any], longer: bool, tmp_path: Path, trained: Trained
) -> None:
    (first,) = tuned(tmp_path, 2)
    content = first.file.read_bytes()
    (second,) = tuned(tmp_path, **{"trials": 2, **more})
    assert (second.name != "simcse-tuned") is longer and (first.file.read_bytes() == content) is longer
    assert {*tuned_recipes(tmp_path)} == {"simcse-tuned", second.name}, "both of them run"
    (again,) = tuned(tmp_path, **{"trials": 2, **more, **({} if longer else {"trials": 4})})
    assert again.name == second.name, "the name is that of the study"
    assert tuned(tmp_path, 2)[0].name == "simcse-tuned"
