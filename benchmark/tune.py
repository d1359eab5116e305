"""Tunes recipes: the same budget of trials for each, scored on development pairs that no test contains.

A study is a file of optuna's journal in RESULTS/tuned, so that it can be stopped, resumed, and shared by processes. Its
first trial has the recipe's own settings. The trials' seed is none of the seeds that a run gives to its rows.
"""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from benchmark.run.options import TUNED_ON, RunOptions
from benchmark.run.plan import Run as BenchmarkRun
from benchmark.run.prepare import prepare
from benchmark.run.stop import Stop
from benchmark.run.vectors import VectorStore
from zoo.encoder import Encoder, Run, Runtime
from zoo.errors import Interrupted, MissingError, TrainingError, UsageError, ZooError, did_you_mean
from zoo.files import parse_yaml, sha256_json, slug, write_text
from zoo.progress import Progress
from zoo.recipes import OVERRIDE, Tuned, all_recipes, tuned_recipes
from zoo.selection import parse_methods

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

    from benchmark.run.plan import EncoderPlan
    from benchmark.tasks.loaded import LoadedTask
    from zoo.recipes import RecipeSpec

SEED = 1000  # of every trial: trials of one study differ by their settings alone
PARTS = 4  # evaluations of a trial's training; after each it may be pruned
BEFORE_PRUNING = 4  # trials that are never pruned
DEFAULT_SPACE: Mapping[str, object] = {  # of a recipe that states none; the passes over the text stay the recipe's own
    "learning_rate": "0.25x..16x:log",
    "temperature": "0.02..0.5:log",
    "batch_size": [64, 128, 256],
}
_RANGE = re.compile(r"([\d.e+-]+?)(x?)\.\.([\d.e+-]+?)(x?)(:log)?")


@dataclass(frozen=True)
class Budget:
    """What each recipe of a command may use: trials in all, and minutes, after which this process begins no other."""

    trials: int
    minutes: float | None = None


@dataclass(frozen=True)
class Tuning:
    """The result of a study: the written recipe, and the dev scores x100 of the paper's settings and of the best."""

    name: str
    file: Path
    before: float | None  # None: the recipe's own settings are outside of the space
    best: float
    trials: int
    values: Mapping[str, object]


@dataclass(frozen=True)
class Dimension:
    """The values that a trial may give to one setting: a list of them, or all between two bounds."""

    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    def __contains__(self, value: object) -> bool:
        if self.values:
            return value in self.values
        return isinstance(value, int | float) and self.low <= value <= self.high

    def suggest(self, trial: Trial, key: str) -> Any:
        """Return the trial's value."""
        if self.values:
            return trial.suggest_categorical(key, self.values)
        if self.whole:
            return trial.suggest_int(key, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(key, self.low, self.high, log=self.log)


def space_of(recipe: Any, stated: Mapping[str, object], where: str) -> dict[str, Dimension]:
    """Return the dimension of each key of a space; a bound such as 4x is a multiple of the recipe's own value.

    `stated` has for each key a list, or a text such as "1e-5..3e-4:log". Raises UsageError for a key that the recipe
    lacks, for another form, and for an empty space.
    """
    fields = {field.name for field in dataclasses.fields(recipe)}
    space = {}
    for key, given in stated.items():
        if key not in fields:
            raise UsageError(f"{where}: the space has {key!r}, which is no setting of it.{did_you_mean(key, fields)}")
        if isinstance(given, list) and given:
            space[key] = Dimension(tuple(given))
            continue
        found = _RANGE.fullmatch(given.replace(" ", "")) if isinstance(given, str) else None
        own = getattr(recipe, key)
        try:
            low, times, high, also_times, log = found.groups() if found else ("", "", "", "", "")
            factors = [own if sign else 1 for sign in (times, also_times)]
            bounds = [float(bound) * factor for bound, factor in zip((low, high), factors, strict=True)]
        except (TypeError, ValueError):
            bounds = []
        if not bounds or not bounds[0] < bounds[1] or (log and bounds[0] <= 0):
            raise UsageError(f"{where}: {key} has the space {given!r:.100}; give LOW..HIGH, LOW..HIGH:log or a list.")
        space[key] = Dimension(low=bounds[0], high=bounds[1], log=bool(log), whole=type(own) is int)
    if not space:
        raise UsageError(f"{where} has nothing to tune; state a space, as in --space learning_rate=1e-5..3e-4:log.")
    return space


def default_space(recipe: Any) -> dict[str, object]:
    """Return the part of DEFAULT_SPACE whose keys the recipe has and does not leave open, its own values included."""
    own = {key: value for key in DEFAULT_SPACE if (value := getattr(recipe, key, None)) is not None}
    return {
        key: sorted({*given, own[key]}) if isinstance(given, list) else given
        for key, given in DEFAULT_SPACE.items()
        if key in own
    }


def typed_space(items: Sequence[str]) -> dict[str, object]:
    """Return the space of `--space KEY=LOW..HIGH:log` or `KEY=[a, b]`; raises UsageError for another form."""
    space: dict[str, object] = {}
    for item in items:
        key, equals, given = (part.strip() for part in item.partition("="))
        if not equals or not given:
            raise UsageError(f"--space {item}: give KEY=LOW..HIGH, KEY=LOW..HIGH:log or KEY=[a, b].")
        space[key] = parse_yaml(given, f"--space {key}") if given.startswith("[") else given
    return space


def tune(
    options: RunOptions, budget: Budget, *, space: Sequence[str] = (), progress: Progress | None = None
) -> list[Tuning]:
    """Tune each of `options.methods` on the task `options.dev` (default: TUNED_ON); write its recipe and page.

    Raises UsageError for a budget without a trial and for a space that does not fit, MissingError without optuna, data
    or weights, TrainingError where every trial of a method failed, Interrupted after a signal.
    """
    try:
        import optuna
    except ImportError as error:
        raise MissingError("optuna is not installed: `pip install 'zoo-bench[tune]'`.") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if budget.trials < 1:
        raise UsageError(f"--trials {budget.trials}: give at least 1.")
    options = dataclasses.replace(options, dev=options.dev or TUNED_ON)
    known = all_recipes() | tuned_recipes(options.results)
    specs = {spec.name: spec for spec in parse_methods(options.methods, known)}
    asked = dataclasses.replace(options, tasks=options.dev, seeds=1)
    prepared = prepare(BenchmarkRun(asked, progress=progress))
    assert prepared.dev is not None
    if prepared.dev.data is None:
        raise MissingError(f"--dev {prepared.dev.name}: {prepared.dev.reason}")
    typed, studies = typed_space(space), []
    for plan in prepared.encoders:
        spec = specs[plan.name]
        if plan.missing is not None:
            raise MissingError(f"{plan.label}: {plan.missing}")
        stated = typed or spec.space or default_space(plan.recipe)
        studies.append((spec, plan, space_of(plan.recipe, stated, f"recipe {spec.name}")))
    with Stop().listening() as stop:
        folder = options.results / "tuned"
        return [
            _Study(spec, plan, dimensions, prepared.dev, prepared.runtime, folder, stop).tune(budget)
            for spec, plan, dimensions in studies
        ]


class _Study:
    """The trials of one recipe."""

    def __init__(
        self,
        spec: RecipeSpec,
        plan: EncoderPlan,
        space: Mapping[str, Dimension],
        dev: LoadedTask,
        runtime: Runtime,
        folder: Path,
        stop: Stop,
    ) -> None:
        from optuna import create_study
        from optuna.pruners import MedianPruner
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        self.spec, self.plan, self.space, self.dev, self.stop = spec, plan, space, dev, stop
        self.runtime, self.folder, self.label = runtime, folder, slug(spec.name)
        self.own = {key: getattr(plan.recipe, key) for key in space}
        self.own_is_inside = all(self.own[key] in dimension for key, dimension in space.items())
        folder.mkdir(parents=True, exist_ok=True)
        # Trials on another text or backbone, or of another space, belong to another study.
        made_by = [plan.row_key, plan.corpus_identity, dev.identity(), {key: repr(one) for key, one in space.items()}]
        self.study: Study = create_study(
            storage=JournalStorage(JournalFileBackend(str(folder / f"{self.label}.journal"))),
            study_name=f"{spec.name} {sha256_json(made_by)[:12]}",
            direction="maximize",
            load_if_exists=True,
            pruner=MedianPruner(n_startup_trials=BEFORE_PRUNING),
        )

    def finished(self) -> list[FrozenTrial]:
        """Return the trials that have ended, by a score, by pruning or by an error, in order."""
        return [trial for trial in self.study.trials if trial.state.is_finished()]

    def tune(self, budget: Budget) -> Tuning:
        """Run trials until the budget is used; then write the recipe and its page."""
        from optuna.samplers import TPESampler

        began, progress = time.monotonic(), self.runtime.progress
        while (done := len(trials := self.finished())) < budget.trials:
            if done and budget.minutes is not None and time.monotonic() - began > 60 * budget.minutes:
                break
            self.stop.check()
            # The recipe's own settings are tried first, and last if a process was killed at them.
            last = done == budget.trials - 1 and self.own not in [one.params for one in trials]
            if self.own_is_inside and (last or not self.study.trials):
                self.study.enqueue_trial(self.own)
            seed = len(self.study.trials)  # two processes at one study would draw the same settings from one seed
            self.study.sampler = TPESampler(n_startup_trials=BEFORE_PRUNING, constant_liar=True, seed=seed)
            progress.say(f"{self.spec.name}: trial {done + 1} of {budget.trials}: {self._trial()}")
        return self._written(trials[: budget.trials])  # two processes may have begun one too many

    def _trial(self) -> str:
        """Run one trial; return its settings and its result."""
        from optuna import TrialPruned
        from optuna.trial import TrialState

        trial, value = self.study.ask(), None
        values = {key: dimension.suggest(trial, key) for key, dimension in self.space.items()}
        try:
            value = self._score_of_training(trial, values)
            state, result = TrialState.COMPLETE, f"{value:.2f}"
        except TrialPruned:
            state, result = TrialState.PRUNED, "pruned"
        except Interrupted:
            self.study.enqueue_trial(values)  # for the process that goes on
            raise
        except (ZooError, ValueError) as error:  # ValueError: a value that the recipe refuses
            state, result = TrialState.FAIL, f"failed: {error}"
            trial.set_user_attr("reason", str(error))
        self.study.tell(trial, value, state)
        return f"{', '.join(f'{key} {_shown(one)}' for key, one in values.items())}: {result}"

    def _score_of_training(self, trial: Trial, values: Mapping[str, Any]) -> float:
        from optuna import TrialPruned

        recipe = dataclasses.replace(self.plan.recipe, **values)
        recipe = dataclasses.replace(recipe, **self._evaluations(recipe))
        encoder = self.plan.cls(recipe, dataclasses.replace(self.runtime, progress=Progress.silent()))
        evaluations = 0

        def dev_score(trained: Encoder) -> float:
            nonlocal evaluations
            score = self._score(trained)
            trial.report(score, evaluations)
            evaluations += 1
            if trial.should_prune():
                raise TrialPruned
            return score

        picks = dev_score if self.plan.traits.picks_checkpoint else None
        encoder.fit(self.plan.corpus, dev_score=picks, run=Run(None, SEED, stop_signal=self.stop))
        score = self._score(encoder)
        if not math.isfinite(score):
            raise TrainingError(f"the dev score is {score}: the encoder has collapsed.")
        return score

    def _score(self, encoder: Encoder) -> float:
        assert self.dev.data is not None
        return self.dev.data.score_dev(VectorStore(encoder, self.label))

    def _evaluations(self, recipe: Any) -> dict[str, int]:
        """Return the `eval_every` that divides a training into PARTS; the recipe's own may be longer than a trial."""
        corpus = self.plan.corpus
        if corpus is None or not hasattr(recipe, "eval_every") or not hasattr(recipe, "batch_size"):
            return {}
        rows = len(corpus.sentences) // (1 if corpus.labels is None and corpus.scores is None else 2)
        steps = getattr(recipe, "steps", None) or math.ceil(rows / recipe.batch_size) * getattr(recipe, "epochs", 1)
        return {"eval_every": max(1, steps // PARTS)}

    def _written(self, trials: Sequence[FrozenTrial]) -> Tuning:
        scored = [trial for trial in trials if trial.value is not None and trial.state.name == "COMPLETE"]
        if not scored:
            reason = trials[-1].user_attrs.get("reason", "each was pruned")
            raise TrainingError(f"{self.spec.name}: all {len(trials)} trials failed, the last one so: {reason}")
        best = max(scored, key=lambda trial: trial.value or -math.inf)
        corpus, plan = self.plan.corpus, self.plan
        tuned = Tuned(
            trials=len(trials),
            dev=self.dev.name,
            backbone=str(getattr(plan.recipe, "backbone", "")),
            corpus="" if corpus is None else corpus.name,
            sentences=0 if corpus is None else len(corpus.sentences),
            study=sha256_json([[trial.params, trial.value, trial.state.name] for trial in trials]),
        )
        typed = {key: self.spec.parameters[key] for key, by in self.spec.stated_by.items() if by == OVERRIDE}
        content = {
            "extends": self.spec.name.partition(":")[0],
            "summary": f"{self.spec.name} with the best settings of {len(trials)} trials on {self.dev.name}",
            "paper": self.spec.paper,
            "parameters": {**typed, **best.params},
            "tuned": dataclasses.asdict(tuned),
        }
        name = f"{self.label}-tuned"
        file = self.folder / f"{name}.yaml"
        write_text(file, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        write_text(file.with_suffix(".md"), self._page(trials, best, tuned))
        before = next((trial.value for trial in scored if trial.params == self.own), None)
        return Tuning(name, file, before, best.value or math.nan, len(trials), best.params)

    def _page(self, trials: Sequence[FrozenTrial], best: FrozenTrial, tuned: Tuned) -> str:
        """Return Markdown: what was tuned on what, each trial, and each setting's share in the scores' variance."""
        learned = f"{tuned.sentences:,} sentences of {tuned.corpus}" if tuned.corpus else "no training text"
        lines = [
            f"# {self.spec.name}: {tuned.trials} trials on {tuned.dev}",
            "",
            f"{tuned.backbone or 'no backbone'}, {learned}, seed {SEED}; Spearman x100, best of {PARTS}"
            f" checkpoints; study {tuned.study[:12]}.",
            "",
            f"| trial | {' | '.join(self.space)} | score | |",
            "|--:" * (len(self.space) + 2) + "|:--|",
        ]
        for trial in trials:
            name = "best" if trial is best else trial.state.name.lower().replace("complete", "")
            score = f"{trial.value:.2f}" if trial.value is not None else ""
            cells = [str(trial.number), *(_shown(trial.params.get(key, "")) for key in self.space), score, name]
            lines.append(f"| {' | '.join(cells)} |")
        if len({trial.value for trial in trials if trial.state.name == "COMPLETE"}) >= BEFORE_PRUNING:
            from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

            shares = get_param_importances(self.study, evaluator=PedAnovaImportanceEvaluator())
            lines += [
                "",
                "Importance (PED-ANOVA): " + ", ".join(f"{k} {share:.0%}" for k, share in shares.items()) + ".",
            ]
        return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
