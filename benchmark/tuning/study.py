"""A study: which settings its trials have, when one is pruned, and which one is the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmark.tuning.space import Dimension
from benchmark.tuning.trials import Trial, Trials
from zoo.errors import Interrupted, ZooError
from zoo.files import sha256_json

if TYPE_CHECKING:
    from optuna import Study as Drawn
    from optuna import Trial as DrawnTrial

# Trials that are never pruned, and whose settings but the recipe's own are random.
BEFORE_PRUNING = 4
# Of settings that no earlier trial has; a space of few settings may have none left.
DRAWS = 20

Look = Callable[[float], None]
"""Called with each dev score of a training; raises PrunedError where the trial is to end."""


class PrunedError(Exception):
    """A trial ends here: it is below the median of the others."""


@dataclass(frozen=True)
class Study:
    """The trials of one recipe in one space; equal studies draw equal settings, and others their own."""

    trials: Trials
    space: Mapping[str, Dimension]
    # The recipe's settings, which the first trial has.
    start: Mapping[str, Any]

    def run(self, number: int, score: Callable[[Mapping[str, Any], Look], float]) -> Trial:
        """Make and write a trial that was begun: `score` trains with its settings and returns its dev score x100."""
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
        """Return a trial of optuna and its settings, drawn again while they are those of an earlier trial."""
        from optuna.samplers import TPESampler

        known = {sha256_json(dict(trial.values)) for trial in self.trials.read()}
        for attempt in range(DRAWS):
            study = self._replayed()
            seed = int(sha256_json([self.trials.study, number, *([attempt] if attempt else [])])[:8], 16)
            study.sampler = TPESampler(n_startup_trials=BEFORE_PRUNING, seed=seed)
            asked = study.ask({key: one.distribution() for key, one in self.space.items()})
            values: Mapping[str, Any] = {key: one.decoded(asked.params[key]) for key, one in self.space.items()}
            if number == 1:
                return asked, self.start
            if sha256_json(dict(values)) not in known:
                break
        return asked, values

    def _replayed(self) -> Drawn:
        """Return the trials that have ended as a study of optuna in memory."""
        from optuna import create_study, create_trial
        from optuna.pruners import MedianPruner
        from optuna.trial import TrialState

        states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
        study = create_study(direction="maximize", pruner=MedianPruner(n_startup_trials=BEFORE_PRUNING))
        for trial in self.trials.read():
            # The recipe's own may be outside.
            if all(trial.values[key] in one for key, one in self.space.items()):
                study.add_trial(
                    create_trial(
                        state=states[trial.state],
                        value=trial.score if trial.state == "complete" else None,
                        params={key: one.encoded(trial.values[key]) for key, one in self.space.items()},
                        distributions={key: one.distribution() for key, one in self.space.items()},
                        intermediate_values=dict(enumerate(trial.looks)),
                    )
                )
        return study


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the complete trial with the highest score, of equal ones the first; None where no trial is complete."""
    complete = [trial for trial in trials if trial.state == "complete"]
    return max(complete, key=lambda trial: trial.score or 0.0, default=None)
