"""The trials of a study, a folder with a signed file for each finished trial; and the choice of the next settings.

`001.json` is the first. The process at work on it holds `001.lock`, so that another process takes the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock, Timeout

from choose.space import Dimension
from zoo.errors import CorruptError, Interrupted, ZooError
from zoo.files import read_signed, sha256_json, well_formed, write_signed

if TYPE_CHECKING:
    from optuna import Study as Drawn
    from optuna import Trial as DrawnTrial


State = Literal["complete", "pruned", "failed"]


@dataclass(frozen=True)
class Trial:
    number: int
    values: Mapping[str, Any]
    state: State
    # Of a pruned trial its last look's, x100; the looks are at equal parts of the training.
    score: float | None = None
    looks: list[float] = field(default_factory=list)
    reason: str = ""
    # Digest of the code that trained and scored it.
    code: str | None = None


class Trials:
    """Files of a study: `study` is the sha256 of the common part, `code` that of the code of new trials."""

    def __init__(self, folder: Path, study: str, code: str | None = None) -> None:
        self.folder, self.study, self.code = folder, study, code
        folder.mkdir(parents=True, exist_ok=True)

    def read(self) -> list[Trial]:
        """Return finished trials in order; raises CorruptError for a damaged file."""
        return sorted(map(self._read, self.folder.glob("*.json")), key=lambda trial: trial.number)

    def _read(self, path: Path) -> Trial:
        remedy = "Delete it: the same command makes this trial again."
        try:
            content = read_signed(path)
            study = content.pop("study", None)
            with well_formed(path):
                trial = Trial(**content)
        except CorruptError as error:
            raise CorruptError(f"{error} {remedy}") from error
        if study != self.study or path.name != self._name(trial.number):
            raise CorruptError(f"{path} is a trial of another study or number. {remedy}")
        return trial

    def write(self, trial: Trial) -> None:
        path = self.folder / self._name(trial.number)
        if not path.exists():
            write_signed(path, {"study": self.study, **asdict(trial)})

    def begin(self, budget: int) -> int | None:
        """Take the first trial up to `budget` neither finished nor held by a process; None if there is none."""
        for number in range(1, budget + 1):
            lock, ended = FileLock(self.folder / self._name(number, "lock")), self.folder / self._name(number)
            if ended.exists():
                continue
            with suppress(Timeout):
                lock.acquire(timeout=0)
                if not ended.exists():
                    self._lock = lock
                    return number
                # In this instant.
                lock.release()
        return None

    def leave(self) -> None:
        Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()

    @staticmethod
    def _name(number: int, ending: str = "json") -> str:
        return f"{number:03d}.{ending}"


# Trials that are never pruned, and whose settings but the recipe's own are random.
BEFORE_PRUNING = 4
# Of settings that no earlier trial has; a space of few settings may have none left.
DRAWS = 20

Look = Callable[[float], None]
"""Called with each dev score of a training; raises PrunedError where the trial is to end."""


class PrunedError(Exception):
    """The trial is below the median of the others, and ends."""


@dataclass(frozen=True)
class Study:
    """Equal studies sample equal settings."""

    trials: Trials
    space: Mapping[str, Dimension]
    # The recipe's settings, which the first trial has.
    start: Mapping[str, Any]

    def run(self, number: int, score: Callable[[Mapping[str, Any], Look], float]) -> Trial:
        """`score` trains with the settings of a begun trial and returns its dev score x100."""
        asked, values = self._drawn(number)
        done = {sha256_json(dict(trial.values)): trial for trial in self.trials.read() if trial.state != "failed"}
        if (same := done.get(sha256_json(dict(values)))) is not None:
            # The space has few settings, and the same training has the same score.
            again = replace(same, number=number, reason=f"as trial {same.number}")
            self.trials.write(again)
            return again
        looks: list[float] = []

        def look(value: float) -> None:
            if not math.isfinite(value):
                # The training ends with this reason.
                return
            asked.report(value, len(looks))
            looks.append(value)
            if asked.should_prune():
                raise PrunedError

        try:
            trial = Trial(number, values, "complete", score(values, look), looks)
        except PrunedError:
            trial = Trial(number, values, "pruned", looks[-1], looks)
        except Interrupted:
            raise
        except (ZooError, ValueError) as error:
            trial = Trial(number, values, "failed", looks=looks, reason=str(error))
        trial = replace(trial, code=self.trials.code)
        self.trials.write(trial)
        return trial

    def _drawn(self, number: int) -> tuple[DrawnTrial, Mapping[str, Any]]:
        """Sample again while the settings are those of an earlier trial."""
        from optuna.samplers import TPESampler

        known = {sha256_json(dict(trial.values)) for trial in self.trials.read()}
        for attempt in range(DRAWS):
            study = self._replayed()
            seed = int(sha256_json([self.trials.study, number, *([attempt] if attempt else [])])[:8], 16)
            study.sampler = TPESampler(n_startup_trials=BEFORE_PRUNING, seed=seed)
            asked = study.ask({key: dimension.distribution() for key, dimension in self.space.items()})
            values: Mapping[str, Any] = {key: self.space[key].decoded(asked.params[key]) for key in self.space}
            if number == 1:
                return asked, self.start
            if sha256_json(dict(values)) not in known:
                break
        return asked, values

    def _replayed(self) -> Drawn:
        from optuna import create_study, create_trial
        from optuna.pruners import MedianPruner
        from optuna.trial import TrialState

        states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
        study = create_study(direction="maximize", pruner=MedianPruner(n_startup_trials=BEFORE_PRUNING))
        for trial in self.trials.read():
            # The recipe's own may be outside.
            if all(trial.values[key] in dimension for key, dimension in self.space.items()):
                study.add_trial(
                    create_trial(
                        state=states[trial.state],
                        value=trial.score if trial.state == "complete" else None,
                        params={key: dimension.encoded(trial.values[key]) for key, dimension in self.space.items()},
                        distributions={key: dimension.distribution() for key, dimension in self.space.items()},
                        intermediate_values=dict(enumerate(trial.looks)),
                    )
                )
        return study


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The first of equal scores."""
    complete = [trial for trial in trials if trial.state == "complete"]
    return max(complete, key=lambda trial: trial.score or 0.0, default=None)
