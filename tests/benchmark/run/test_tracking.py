"""`--tracker-folder`: W&B and MLflow write there, and ask no server; a tracker without files of its own is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmark.run.tracking import Trackers, find_trackers
from zoo.encoder import Runtime
from zoo.errors import UsageError
from zoo.methods.randomvectors import RandomVectors

Calls = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What modules in the place of wandb and mlflow were called with."""
    seen: Calls = []
    monkeypatch.setattr("accelerate.tracking.get_available_trackers", lambda: ["wandb", "mlflow", "comet_ml"])

    def noting(name: str, result: Any = None) -> Any:
        return lambda *args, **named: (seen.append((name, {**dict(enumerate(args)), **named})), result)[1]  # type: ignore[misc]

    run = SimpleNamespace(log=noting("wandb.log"), finish=noting("wandb.finish"))
    config = SimpleNamespace(update=noting("wandb.config"))
    names = ("set_tracking_uri", "create_experiment", "start_run", "log_metrics", "log_params", "end_run")
    module = {name: noting(f"mlflow.{name}") for name in names}
    module["search_experiments"] = noting("mlflow.search_experiments", [])
    validation = SimpleNamespace(MAX_PARAM_VAL_LENGTH=500, MAX_PARAMS_TAGS_PER_BATCH=100)
    module["utils"] = SimpleNamespace(validation=validation)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=noting("wandb.init", run), config=config))
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(**module))
    monkeypatch.setitem(sys.modules, "comet_ml", SimpleNamespace())
    return seen


def report(trackers: Trackers) -> None:
    with trackers.following("simcse, seed 0", RandomVectors.Recipe(), Runtime(device="cpu")) as log:
        log(1, {"loss": 0.5})


@pytest.mark.parametrize("mode", [None, "disabled"])
def test_a_folder_is_that_of_wandb_and_mlflow(
    mode: str | None, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    if mode is not None:
        monkeypatch.setenv("WANDB_MODE", mode)
    folder = tmp_path / "a new folder"
    report(find_trackers("wandb,mlflow", tmp_path / "trackers", folder))
    named = dict(calls)
    assert folder.is_dir() and not (tmp_path / "trackers").exists()
    wanted = {"project": "zoo-bench", "name": "simcse, seed 0", "dir": str(folder), "mode": mode or "offline"}
    assert named["wandb.init"] == wanted
    assert named["mlflow.set_tracking_uri"] == {0: f"sqlite:///{folder / 'mlflow.db'}"}
    assert named["mlflow.create_experiment"]["artifact_location"] == (folder / "mlflow-artifacts").as_uri()
    assert named["mlflow.start_run"]["run_name"] == "simcse, seed 0"
    order = [name for name, _ in calls]
    assert order.index("mlflow.set_tracking_uri") < order.index("mlflow.search_experiments")
    assert named["wandb.log"][0] == named["mlflow.log_metrics"][0] == {"training/loss": 0.5}


def test_without_a_folder_they_use_their_own_settings(calls: Calls, tmp_path: Path) -> None:
    report(find_trackers("wandb,mlflow", tmp_path / "trackers"))
    named = dict(calls)
    assert named["wandb.init"] == {"project": "zoo-bench", "name": "simcse, seed 0"}
    assert "mlflow.set_tracking_uri" not in named and named["mlflow.create_experiment"]["artifact_location"] is None


def test_a_tracker_without_files_takes_no_folder(calls: Calls, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--tracker-folder: comet_ml writes no files"):
        find_trackers("wandb,comet_ml", tmp_path, tmp_path / "board")
    assert find_trackers("comet_ml", tmp_path).names == ("comet_ml",)


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_the_library_itself_writes_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = pytest.importorskip(name)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.chdir(tmp_path)
    report(find_trackers(name, tmp_path / "trackers", tmp_path / "board"))
    assert {path.name for path in tmp_path.iterdir()} == {"board"}, "nothing beside the folder"
    if name == "wandb":
        assert list((tmp_path / "board").glob("wandb/offline-run-*"))
    else:
        (run,) = library.search_runs(experiment_names=["zoo-bench"], output_format="list")
        assert run.data.metrics == {"training/loss": 0.5} and (tmp_path / "board" / "mlflow.db").is_file()
