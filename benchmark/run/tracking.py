"""Reports training curves to the trackers that accelerate supports: TensorBoard, W&B, MLflow and others."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.encoder import AnyRecipe, Runtime
from zoo.errors import MissingError, UsageError, did_you_mean, error_text

ALL = "all"
# MLflow's releases below 3 go with the other packages' pins too, and cannot be imported beside them.
_PACKAGES = {"comet_ml": "comet-ml", "tensorboard": "'zoo-bench[tensorboard]'", "mlflow": "'mlflow>=3'"}
# No release of it installs beside the versions that are tested.
_LEFT_OUT = {"aim"}

LogValues = Callable[[int, Mapping[str, float]], None]


@dataclass(frozen=True)
class Trackers:
    """The trackers to which trainings report, and the folder for those that write files.

    A folder that is `asked` for is also that of W&B and MLflow, which then report to no server.
    """

    names: tuple[str, ...]
    folder: Path
    asked: bool = False

    @contextmanager
    def following(self, run: str, settings: AnyRecipe, runtime: Runtime) -> Iterator[LogValues]:
        """Yield a function that logs a training's values under the name `run`; `settings` are stored."""
        from accelerate import PartialState
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        # accelerate's trackers need its process state.
        PartialState(cpu=runtime.device == "cpu")
        classes: dict[str, Any] = LOGGER_TYPE_TO_CLASS
        trackers: list[Any] = []
        for name in self.names:
            try:
                tracker = self._tracker(name, classes[name], run)
                # Releases of accelerate before 1.11 start when they are made.
                if hasattr(tracker, "start"):
                    tracker.start()
                tracker.store_init_configuration(plain_settings(settings))
            except Exception as error:
                # The boundary to trackers: a server that cannot be reached is no fault of the method.
                raise MissingError(_unusable(name, error)) from error
            trackers.append(tracker)

        def log(step: int, values: Mapping[str, float]) -> None:
            for tracker in trackers:
                tracker.log({f"training/{name}": float(value) for name, value in values.items()}, step=step)

        try:
            yield log
        finally:
            for tracker in trackers:
                tracker.finish()

    def _tracker(self, name: str, tracker_class: Any, run: str) -> Any:
        if tracker_class.requires_logging_directory:
            self.folder.mkdir(parents=True, exist_ok=True)
            return tracker_class(run, str(self.folder))
        place = _place(name, self.folder) if self.asked else {}
        named = {_RUN_NAMES[name]: run} if name in _RUN_NAMES else {}
        return tracker_class("zoo-bench", **named, **place)


_RUN_NAMES = {"wandb": "name", "mlflow": "run_name", "trackio": "name", "swanlab": "experiment_name"}
"""The keyword by which each tracker takes the name of a run."""


_IN_A_FOLDER = ("wandb", "mlflow")
"""Trackers that report to a server unless they are given a folder."""


def _place(tracker: str, folder: Path) -> dict[str, str]:
    """Return the keywords by which a tracker writes into a folder; MLflow is told of its database there."""
    if tracker not in _IN_A_FOLDER:
        return {}
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if tracker == "wandb":
        return {"dir": str(folder), "mode": os.environ.get("WANDB_MODE", "offline")}
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    return {"logging_dir": (folder / "mlflow-artifacts").as_uri()}


def plain_settings(settings: AnyRecipe) -> dict[str, bool | int | float | str]:
    """Return the fields of a recipe as types that every tracker can store; other types become texts."""
    fields = dataclasses.asdict(settings)
    return {key: value if isinstance(value, bool | int | float | str) else str(value) for key, value in fields.items()}


def _unusable(name: str, error: Exception) -> str:
    remedy = f"pip install -U {_PACKAGES.get(name, name)}"
    return f"--tracker {name} cannot start ({error_text(error)}); {remedy} may help, or leave it out."


def known_trackers() -> list[str]:
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    return [name for name in map(str, LOGGER_TYPE_TO_CLASS) if name not in _LEFT_OUT]


def find_trackers(names: str, default: Path, asked: Path | None = None) -> Trackers:
    """Return the trackers of a comma-separated list; `all` stands for those that are installed.

    Raises UsageError if accelerate does not know a tracker, or it writes no files into the folder that is `asked` for,
    MissingError if a package is not installed.
    """
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

    known = known_trackers()
    available = {str(getattr(tracker, "value", tracker)) for tracker in get_available_trackers()}
    installed = [name for name in known if name in available]
    chosen: dict[str, None] = {}
    for name in (part.strip().lower() for part in names.split(",")):
        if name == ALL:
            chosen |= dict.fromkeys(installed)
            if not installed:
                raise MissingError(
                    "--tracker all: no tracker is installed; pip install 'zoo-bench[tensorboard]' adds one."
                )
        elif name not in known:
            hint = did_you_mean(name, [*known, ALL])
            raise UsageError(f"--tracker: unknown tracker {name!r}.{hint} Known: {', '.join([*known, ALL])}.")
        elif name not in installed:
            package = _PACKAGES.get(name, name)
            raise MissingError(f"--tracker {name}: the package is not installed; pip install {package}.")
        elif asked is not None and not (LOGGER_TYPE_TO_CLASS[name].requires_logging_directory or name in _IN_A_FOLDER):
            raise UsageError(
                f"--tracker-folder: {name} writes no files of its own into a folder; leave the folder out."
            )
        else:
            chosen[name] = None
    for name in chosen:
        try:
            # tensorboardX may stand in for TensorBoard.
            if name != "tensorboard":
                importlib.import_module(name)
        except Exception as error:
            # The boundary to trackers: what one of them raises while it is imported is said before the first cell.
            raise MissingError(_unusable(name, error)) from error
    return Trackers(tuple(chosen), default if asked is None else asked, asked is not None)
