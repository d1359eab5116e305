"""Tunes recipes: the same budget of trials for each, scored on development pairs outside every test.

The trials' seed is none of a run's seeds. An interrupted study continues, and processes may share it: see
`choose.trials`.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from benchmark.keys import code_digest
from benchmark.run.estimate import in_all, timed
from benchmark.run.options import TUNED_ON, RunOptions
from benchmark.run.plan import Request
from benchmark.run.prepare import planned
from benchmark.run.stop import Stop
from benchmark.run.vectors import VectorStore
from choose.space import Dimension, default_space, own_values, settings_of, space_of, typed_space
from choose.trials import Look, Study, Trial, Trials, best_of
from zoo.encoder import Encoder, Run, Runtime
from zoo.errors import MissingError, TrainingError, UsageError
from zoo.extras import optional
from zoo.files import sha256_json, slug, write_text
from zoo.plugins import METHODS
from zoo.progress import Progress, counted
from zoo.recipes import OVERRIDE, RecipeSpec, Tuned, read_recipe
from zoo.selection import parse_methods

if TYPE_CHECKING:
    from benchmark.run.plan import EncoderPlan
    from benchmark.tasks.loaded import LoadedTask

# Of every trial: trials of one study differ by their settings alone.
SEED = 1000
# Dev scores of every training, at equal parts; after each but the last a trial may be pruned.
LOOKS = 4


@dataclass(frozen=True)
class Budget:
    """A number of trials, and minutes; afterwards this process begins no other."""

    trials: int
    minutes: float | None = None
    # Of each recipe, each with draws of its own: they give the spread of tuning.
    studies: int = 1


@dataclass(frozen=True)
class Tuning:
    """The recipe, and the dev scores x100 of the paper's settings and of the best."""

    recipe: str
    name: str
    file: Path
    # None: the trial with the recipe's own settings failed.
    before: float | None
    best: float
    trials: int
    values: Mapping[str, object]
    # Standard deviation of `best` over the studies of the recipe; None: there is one.
    spread: float | None = None
    # Dev score x100 of the best settings before their training; None: the method has no start.
    untrained: float | None = None


def tune(
    options: RunOptions, budget: Budget, *, space: Sequence[str] = (), progress: Progress | None = None
) -> list[Tuning]:
    """Tune each of `options.methods` on the task `options.dev` (default: TUNED_ON); write its recipes and pages.

    Raises:
        UsageError: The budget has no trial, or a space does not fit.
        MissingError: optuna, data or weights are not here.
        CorruptError: A trial is damaged.
        TrainingError: Every trial failed.
        Interrupted: After a signal.
    """
    optuna = optional("optuna", "tune", "tune")
    if min(budget.trials, budget.studies) < 1:
        raise UsageError(f"--trials {budget.trials} --studies {budget.studies}: give at least 1 of each.")
    options = dataclasses.replace(options, dev=options.dev or TUNED_ON)
    specs = {spec.name: spec for spec in parse_methods(options.methods, options.recipes())}
    asked = dataclasses.replace(options, tasks=options.dev, seeds=1)
    prepared = planned(Request(asked, progress=progress))
    assert prepared.dev is not None
    if prepared.dev.data is None:
        raise MissingError(f"--dev {prepared.dev.name}: {prepared.dev.reason}")
    typed, tuners = typed_space(space), []
    for plan in prepared.encoders:
        spec = specs[plan.row.name]
        if plan.inputs.missing is not None:
            raise MissingError(f"{plan.label}: {plan.inputs.missing}")
        dimensions = space_of(plan.row.recipe, typed or default_space(plan.row.recipe, spec), f"recipe {spec.name}")
        tuners.append(_Tuner(spec, plan, dimensions, prepared.dev, prepared.runtime))
    folder, say = options.results / "tuned", prepared.runtime.progress.say
    trials = [tuner.plan for tuner in tuners for _ in range(tuner.open_trials(folder, budget))]
    if prepared.runtime.progress.enabled:
        say(f"{counted(len(trials), 'trial')} on {prepared.runtime.device}{in_all(timed(prepared, 1), trials, 1)}")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with Stop().listening() as stop:
        return [tuning for tuner in tuners for tuning in tuner.tuned(folder, budget, stop)]


def identity_of_study(
    plan: EncoderPlan, dev: LoadedTask, space: Mapping[str, Dimension], number: int
) -> dict[str, object]:
    """Return a study's identity: another text, task or backbone is another study."""
    return {
        "recipe": [plan.row.name, plan.inputs.row_key],
        "text": plan.inputs.corpus_identity,
        "dev": dev.identity(),
        "space": {key: repr(dimension).replace("integer=", "whole=") for key, dimension in space.items()},
        "looks": LOOKS,
        "study": number,
    }


class _Tuner:
    def __init__(
        self, spec: RecipeSpec, plan: EncoderPlan, space: Mapping[str, Dimension], dev: LoadedTask, runtime: Runtime
    ) -> None:
        self.spec, self.plan, self.space, self.dev, self.runtime = spec, plan, space, dev, runtime
        self.label, self.start = slug(spec.name), own_values(plan.row.recipe, space)

    def open_trials(self, folder: Path, budget: Budget) -> int:
        """How many trials are to be made."""
        # A damaged file is named before anything is trained.
        ended = [len(trials.read()) for trials in self._studies(folder, budget).values()]
        return sum(max(budget.trials - count, 0) for count in ended)

    def _studies(self, folder: Path, budget: Budget) -> dict[int, Trials]:
        numbers = range(1, budget.studies + 1)
        keys = [sha256_json(identity_of_study(self.plan, self.dev, self.space, number)) for number in numbers]
        places = [Trials(folder / self.label / key[:12], key, code_digest()) for key in keys]
        return dict(zip(numbers, places, strict=True))

    def tuned(self, folder: Path, budget: Budget, stop: Stop) -> list[Tuning]:
        studies = self._studies(folder, budget)
        for number, trials in studies.items():
            name = self.spec.name if budget.studies == 1 else f"{self.spec.name}, study {number}"
            self._make_trials(name, Study(trials, self.space, self.start), budget, stop)
        read = {number: trials.read()[: budget.trials] for number, trials in studies.items()}
        bests = {number: self._best(trials) for number, trials in read.items()}
        scores = [best.score or 0.0 for best in bests.values()]
        spread = statistics.stdev(scores) if len(scores) > 1 else None
        return [self._write(folder, number, studies[number], read[number], bests[number], spread) for number in bests]

    def _make_trials(self, name: str, study: Study, budget: Budget, stop: Stop) -> None:
        began = time.monotonic()
        while (number := study.trials.begin(budget.trials)) is not None:
            try:
                stop.check()
                if number > 1 and budget.minutes is not None and time.monotonic() - began > 60 * budget.minutes:
                    return
                title = f"{name}: trial {number} of {budget.trials}"
                trial = study.run(number, partial(self._score_of_training, title, stop))
            finally:
                study.trials.leave()
            result = f"{trial.score:.2f}" if trial.state == "complete" else f"{trial.state} {trial.reason}"
            self.runtime.progress.now("")
            self.runtime.progress.say(f"{title}: {in_words(trial.values)}: {result}")

    def _score_of_training(self, title: str, stop: Stop, values: Mapping[str, Any], look: Look) -> float:
        recipe = dataclasses.replace(self.plan.row.recipe, **self._settings(values))
        self.runtime.progress.now(f"{title}: {in_words(values)}")
        encoder = self.plan.row.cls(recipe, self.runtime)

        def dev_score(trained: Encoder) -> float:
            score = self._score(trained)
            look(score)
            return score

        picks = dev_score if self.plan.row.cls.traits(recipe).picks_checkpoint else None
        encoder.fit(self.plan.inputs.corpus, dev_score=picks, run=Run(None, SEED, stop_signal=stop))
        score = self._score(encoder)
        if not math.isfinite(score):
            raise TrainingError(f"the dev score is {score}: the encoder has collapsed.")
        return score

    def _settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Every method gets the same number of evaluations."""
        recipe = self.plan.row.recipe
        return {**settings_of(recipe, values), **({"looks": LOOKS} if hasattr(recipe, "looks") else {})}

    def _score(self, encoder: Encoder) -> float:
        assert self.dev.data is not None
        return self.dev.data.score_dev(VectorStore(encoder, self.label))

    def _best(self, trials: Sequence[Trial]) -> Trial:
        best = best_of(trials)
        if best is None:
            reason = next((trial.reason for trial in reversed(trials) if trial.reason), "other processes are at them")
            raise TrainingError(f"{self.spec.name}: no trial of {len(trials)} has a score: {reason}")
        return best

    def _file(self, folder: Path, number: int, study: Trials) -> Path:
        """Return the place of a study's recipe; the recipe of another study is kept, and this one has a longer name."""
        name = f"{self.label}-tuned" + (f"-study{number}" if number > 1 else "")
        file, trials = folder / f"{name}.yaml", study.read()
        if not file.exists() or _is_of(file, trials):
            return file
        longer = folder / f"{name}-{study.folder.name[:8]}.yaml"
        self.runtime.progress.say(
            f"{file} is of another space, text or backbone and stays; this recipe is {longer.stem}."
        )
        return longer

    def _write(
        self, folder: Path, number: int, study: Trials, trials: Sequence[Trial], best: Trial, spread: float | None
    ) -> Tuning:
        corpus, plan, first_trial = self.plan.inputs.corpus, self.plan, trials[0]
        tuned = Tuned(
            trials=len(trials),
            dev=self.dev.name,
            backbone=str(getattr(plan.row.recipe, "backbone", "")),
            corpus="" if corpus is None else corpus.name,
            sentences=0 if corpus is None else len(corpus.sentences),
            study=_digest(trials),
            spread=spread,
        )
        typed = {key: self.spec.parameters[key] for key, by in self.spec.stated_by.items() if by == OVERRIDE}
        settings = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in self._settings(best.values).items()
        }
        content = {
            "extends": self.spec.name.partition(":")[0],
            "summary": f"{self.spec.name} with the best settings of {counted(len(trials), 'trial')} on {self.dev.name}",
            "paper": self.spec.paper,
            "parameters": {**typed, **settings},
            "tuned": dataclasses.asdict(tuned),
        }
        file, untrained = self._file(folder, number, study), self._untrained(best)
        write_text(file, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        write_text(file.with_suffix(".md"), self._page(trials, best, tuned, untrained))
        before = first_trial.score if first_trial.number == 1 and first_trial.state == "complete" else None
        score = best.score or 0.0
        return Tuning(self.spec.name, file.stem, file, before, score, len(trials), settings, spread, untrained)

    def _untrained(self, best: Trial) -> float | None:
        recipe = dataclasses.replace(self.plan.row.recipe, **self._settings(best.values))
        start = self.plan.row.cls.start(recipe)
        return None if start is None else self._score(METHODS.get(start.method)(start.recipe, self.runtime))

    def _page(self, trials: Sequence[Trial], best: Trial, tuned: Tuned, untrained: float | None) -> str:
        learned = f"{tuned.sentences:,} sentences of {tuned.corpus}" if tuned.corpus else "no training text"
        lines = [
            f"# {self.spec.name}: {counted(tuned.trials, 'trial')} on {tuned.dev}",
            "",
            f"{tuned.backbone or 'no backbone'}, {learned}, seed {SEED}; Spearman x100, best of {LOOKS}"
            f" checkpoints; study {tuned.study[:12]}. Trial 1 has the recipe's own settings.",
            "",
            f"| trial | {' | '.join(self.space)} | score | |",
            "|--:" * (len(self.space) + 2) + "|:--|",
        ]
        if untrained is not None:
            empty = " |" * len(self.space)
            lines.append(f"| |{empty} {untrained:.2f} | the start of the best trial, untrained |")
        for trial in trials:
            name = "best" if trial is best else trial.state.replace("complete", "") or trial.reason
            score = f"{trial.score:.2f}" if trial.score is not None else ""
            cells = [str(trial.number), *(shown(trial.values[key]) for key in self.space), score, name]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"


def _digest(trials: Sequence[Trial]) -> str:
    return sha256_json([dataclasses.asdict(trial) for trial in trials])


def _is_of(file: Path, trials: Sequence[Trial]) -> bool:
    """Whether a recipe is of the first of these trials."""
    try:
        tuned = read_recipe(file).tuned
    except UsageError:
        return False
    return tuned is not None and tuned.study == _digest(trials[: tuned.trials])


def in_words(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {shown(value)}" for key, value in values.items())


def shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
