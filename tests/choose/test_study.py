"""Studies: the order of trials, pruning, the best, draws, and files that are damaged, foreign or held."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from choose.space import Dimension
from choose.trials import Look, Study, Trial, Trials, best_of
from zoo.errors import CorruptError, Interrupted, TrainingError

SPACE = {"rate": Dimension(low=1e-6, high=5e-4, log=True), "how": Dimension(("cls", "avg"))}
OWN = {"rate": 3e-5, "how": "cls"}
Score = Callable[[Mapping[str, Any], Look], float]


def study(folder: Path, name: str = "a" * 64, **start: Any) -> Study:
    return Study(Trials(folder / name[:12], name), SPACE, {**OWN, **start})


def run(trials_study: Study, trials: int, score: Score = lambda values, look: 1.0) -> list[Trial]:
    while (number := trials_study.trials.begin(trials)) is not None:
        try:
            trials_study.run(number, score)
        finally:
            trials_study.trials.leave()
    return trials_study.trials.read()


def looking(*scores: float) -> Score:
    def score(values: Mapping[str, Any], look: Look) -> float:
        for value in scores:
            look(value)
        return max(scores)

    return score


def test_the_first_trial_has_the_recipe_s_own_settings(tmp_path: Path) -> None:
    trials = run(study(tmp_path), 3)
    assert trials[0].values == OWN
    assert all(trial.values != OWN for trial in trials[1:])
    outside = run(study(tmp_path, "b" * 64, rate=1.0), 6)
    assert outside[0].values == {"rate": 1.0, "how": "cls"}, "outside of the space too"


def test_a_study_has_its_budget_of_trials_and_goes_on(tmp_path: Path) -> None:
    first = run(study(tmp_path), 2)
    assert [trial.number for trial in first] == [1, 2]
    again = run(study(tmp_path), 4)
    assert again[:2] == first and [trial.number for trial in again] == [1, 2, 3, 4]
    assert run(study(tmp_path), 3) == again, "and no trial more"


def test_each_study_has_draws_of_its_own_and_draws_them_again(tmp_path: Path) -> None:
    drawn = [[one.values["rate"] for one in run(study(tmp_path, name), 6)][1:] for name in ("a" * 64, "b" * 64)]
    assert not set(drawn[0]) & set(drawn[1])
    assert [one.values["rate"] for one in run(study(tmp_path / "again"), 6)][1:] == drawn[0]
    assert len(set(drawn[0])) == 5


@pytest.mark.parametrize("settings", [1, 2, 5, 9])
def test_no_setting_is_measured_twice(tmp_path: Path, settings: int) -> None:
    """A space of few settings is used up; the trials that are left have the score of the equal one."""
    trained: list[object] = []

    def score(values: Mapping[str, Any], look: Look) -> float:
        trained.append(values["how"])
        return float(values["how"])

    few = {"how": Dimension(tuple(range(settings)))}
    trials = run(Study(Trials(tmp_path, "c" * 64), few, {"how": 0}), 9, score)
    assert len(trials) == 9 and len(set(trained)) == len(trained) >= min(settings, 8)
    assert [trial.score for trial in trials] == [float(trial.values["how"]) for trial in trials]
    assert sum(trial.reason.startswith("as trial ") for trial in trials) == 9 - len(trained)


def test_trials_below_the_median_are_pruned_from_the_fifth_on(tmp_path: Path) -> None:
    run(study(tmp_path), 3, looking(50.0, 60.0))
    run(study(tmp_path), 4, looking(10.0, 20.0))
    *before, pruned = run(study(tmp_path), 5, looking(40.0, 99.0))
    assert {trial.state for trial in before} == {"complete"}, "the fourth is below, and not yet pruned"
    assert (pruned.state, pruned.score, pruned.looks) == ("pruned", 40.0, [40.0])
    assert run(study(tmp_path), 6, looking(55.0, 61.0))[-1].state == "complete"


def test_a_pruned_or_failed_trial_is_never_the_best() -> None:
    trials = [Trial(1, OWN, "complete", 40.0), Trial(2, OWN, "pruned", 70.0), Trial(3, OWN, "failed", reason="nan")]
    assert best_of(trials) == trials[0]
    assert best_of(trials[1:]) is None
    assert best_of([Trial(1, OWN, "complete", -3.0), Trial(2, OWN, "complete", -1.0)]) == Trial(
        2, OWN, "complete", -1.0
    )


def test_a_trial_that_fails_has_its_reason_and_counts(tmp_path: Path) -> None:
    def fails(values: Mapping[str, Any], look: Look) -> float:
        look(5.0)
        look(float("nan"))
        raise TrainingError("the encoder has collapsed.")

    (trial,) = run(study(tmp_path), 1, fails)
    assert (trial.state, trial.score, trial.looks, trial.reason) == (
        "failed",
        None,
        [5.0],
        "the encoder has collapsed.",
    )


def test_a_trial_that_is_stopped_is_made_again(tmp_path: Path) -> None:
    def stopped(values: Mapping[str, Any], look: Look) -> float:
        raise Interrupted("stopped by signal 15.", 15)

    with pytest.raises(Interrupted):
        run(study(tmp_path), 2, stopped)
    assert not list(tmp_path.rglob("*.*")), "nothing is left of it"
    assert [trial.number for trial in run(study(tmp_path), 2)] == [1, 2]


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-30]),
        lambda path: path.write_text(path.read_text().replace('"score": 44.18', '"score": 94.18')),
        lambda path: path.write_text(""),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text(
            json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "sha256"})
        ),
        lambda path: path.rename(path.with_name("009.json")),
    ],
    ids=["cut", "changed", "empty", "list", "unsigned", "another number"],
)
def test_a_trial_file_that_is_not_what_was_written_is_named(tmp_path: Path, change: Callable[[Path], object]) -> None:
    first = study(tmp_path)
    run(first, 2, lambda values, look: 44.18)
    change(first.trials.folder / "002.json")
    with pytest.raises(CorruptError, match=r"00[29]\.json.*Delete it: the same command makes this trial again\.$"):
        run(first, 3)
    for path in (*first.trials.folder.glob("002.json"), *first.trials.folder.glob("009.json")):
        path.unlink()
    assert [(trial.number, trial.score) for trial in run(first, 2)] == [(1, 44.18), (2, 1.0)]


def test_a_trial_of_another_study_is_named(tmp_path: Path) -> None:
    first, second = study(tmp_path), study(tmp_path, "b" * 64)
    run(first, 2)
    run(second, 1)
    (first.trials.folder / "002.json").rename(second.trials.folder / "002.json")
    with pytest.raises(CorruptError, match=r"002\.json is a trial of another study"):
        run(second, 2)


def test_a_trial_of_a_living_process_is_skipped_until_it_ends(tmp_path: Path) -> None:
    first = study(tmp_path)
    lock = first.trials.folder / "001.lock"
    hold = f"import filelock; lock = filelock.FileLock({str(lock)!r}); lock.acquire(); print(flush=True); input()"
    living = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert living.stdout is not None and living.stdout.readline()
        assert [trial.number for trial in run(first, 2)] == [2]
    finally:
        living.kill()
        living.communicate()
    assert [trial.number for trial in run(first, 2)] == [1, 2], "killed: another process makes it"
    assert first.trials.read()[0].values == OWN
    assert not list(first.trials.folder.glob("*.lock"))


def test_of_two_files_of_one_trial_the_first_stays(tmp_path: Path) -> None:
    first = study(tmp_path)
    first.trials.write(Trial(1, OWN, "complete", 1.0))
    first.trials.write(Trial(1, OWN, "complete", 2.0))
    assert first.trials.read() == [Trial(1, OWN, "complete", 1.0)]
