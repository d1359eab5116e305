"""Makes a plan from options: resolves methods and reads tasks and training texts; trains nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from benchmark.data.corpora import CORPUS, PAIRS, TARGET, check_texts, load_corpus, load_pairs, target_corpus
from benchmark.data.sources import DataSource
from benchmark.run.options import RunOptions
from benchmark.run.plan import Plan, ResolvedMethod, Setting, TrainingTexts, make_plan, resolve_methods, text_kind
from benchmark.tasks import TASKS
from benchmark.tasks.loaded import LoadedTask, load_tasks
from benchmark.tasks.suites import Suite, choose_tasks, merged, suites_for, tasks_named
from zoo.encoder import Corpus, Runtime, Start
from zoo.engine.backbone import check_backbone
from zoo.errors import MissingError, UsageError
from zoo.files import check_writable, parse_yaml
from zoo.machine import make_runtime, precision_reason
from zoo.progress import Progress
from zoo.recipes import OVERRIDE, RecipeSpec, all_recipes, tuned_recipes
from zoo.selection import parse_methods


def controls_for(
    methods: Sequence[ResolvedMethod],
    tasks: Sequence[LoadedTask],
    recipes: Mapping[str, RecipeSpec],
    defaults: Mapping[str, object],
) -> list[ResolvedMethod]:
    """Return what a run of `methods` lacks: the start of each method that learns, and every recipe marked `control`.

    Left out is what one of the tasks cannot score: a method without trainable weights where the encoder itself is
    trained, and one that needs several words where all texts are single words.
    """
    wanted = [nearest_recipe(method.start, recipes, defaults) for method in methods if method.start is not None]
    wanted += [spec for spec in recipes.values() if spec.control]
    found: list[ResolvedMethod] = []
    for control in resolve_methods(wanted, defaults):
        there = any(one.cls is control.cls and one.recipe == control.recipe for one in (*methods, *found))
        if not there and all(_scores(task, control) for task in tasks):
            found.append(dataclasses.replace(control, control=True))
    return found


def _scores(task: LoadedTask, control: ResolvedMethod) -> bool:
    """Return whether a task can score a control; one without data cannot be asked and rules nothing out."""
    if task.data is None:
        return True
    if task.data.trains_encoder and not control.traits.fine_tunes:
        return False
    return not control.traits.needs_several_words or any(len(text.split()) > 1 for text in task.data.texts())


def nearest_recipe(start: Start, recipes: Mapping[str, RecipeSpec], defaults: Mapping[str, object]) -> RecipeSpec:
    """Return the recipe of a start's method that needs the fewest changed settings, with these settings.

    The changed settings stand in the name, as they would be typed. Raises UsageError where the method has no recipe.
    """
    of_method = [spec for spec in recipes.values() if spec.method == start.method]
    if not of_method:
        raise UsageError(f"the method {start.method!r}, from which another one starts, has no recipe.")
    changes = [(spec, _changed(start, spec.resolve(defaults)[1])) for spec in of_method]
    spec, changed = min(changes, key=lambda one: len(one[1]))
    return dataclasses.replace(
        spec,
        name=":".join([spec.name, *(f"{key}={_typed(value)}" for key, value in changed.items())]),
        parameters={**spec.parameters, **changed},
        stated_by={**spec.stated_by, **dict.fromkeys(changed, OVERRIDE)},
    )


def _changed(start: Start, recipe: object) -> dict[str, object]:
    names = [field.name for field in dataclasses.fields(start.recipe)]
    return {name: getattr(start.recipe, name) for name in names if getattr(start.recipe, name) != getattr(recipe, name)}


def _typed(value: object) -> str:
    """Return a setting as --methods takes it; a text that YAML would read otherwise is quoted."""
    if isinstance(value, str):
        try:
            return value if parse_yaml(value, "") == value else json.dumps(value)
        except UsageError:
            pass
    return json.dumps(value)


@dataclass
class Inputs:
    """What a process reads once for all plans of one run: tasks with their data, and training texts."""

    tasks: list[LoadedTask] = field(default_factory=list)
    dev: LoadedTask | None = None
    texts: dict[str, TrainingTexts] = field(default_factory=dict)  # by `text_kind`
    hashed: dict[tuple[str, str], tuple[Corpus, dict[str, object]]] = field(default_factory=dict)  # of a `Setting`


@dataclass(frozen=True)
class Prepared:
    """A plan, the development task that picks checkpoints, and the runtime (device, precision ...)."""

    plan: Plan
    dev: LoadedTask
    runtime: Runtime
    suites: tuple[str, ...]  # the suites whose tables it fills: names or files
    inputs: Inputs


def prepare(
    options: RunOptions,
    *,
    write: bool = True,
    given: Sequence[tuple[str | None, object]] | None = None,
    version: str | None = None,
    progress: Progress | None = None,
    inputs: Inputs | None = None,
) -> Prepared:
    """Read everything that a run needs; raises UsageError for a wrong recipe or name before any data is read.

    With `write`, the results folder is also created and tested for writing, before anything slow begins. `given` has
    encoders that replace the methods, each with a name or None for its own. An object is measured anew in every call,
    unless `version` says that it is the same as before. `inputs` has what this process has read before, and is filled
    with what it reads now.
    """
    inputs = inputs or Inputs()
    part, parts = options.part()
    options.trackers()  # raises before any work if one is not installed
    suites = suites_for(options.suites, options.tasks)
    suite = merged(suites)
    recipes, methods = all_recipes() | tuned_recipes(options.results), []
    if given is None:
        if options.backbone in recipes:
            raise UsageError(f"--backbone {options.backbone}: that is a method: --methods {options.backbone}.")
        specs = parse_methods(options.methods, recipes)
        rows = dict(zip(labels_of(options.label, [spec.name for spec in specs]), specs, strict=True))
        methods = resolve_methods(list(rows.values()), options.recipe_defaults())
        if options.label is not None:
            pairs = zip(rows, methods, strict=True)
            methods = [replace(method, name=name, recipe_name=method.name) for name, method in pairs]
    names = choose_tasks(suite, options.tasks)
    if options.dev is not None:
        options = replace(options, dev=TASKS.canonical(options.dev))
        tasks_named(options.dev or "")  # raises UsageError for an unknown task
    data = DataSource.from_options(options.data)
    if write:
        check_writable(options.results)
    runtime = make_runtime(options.device, options.precision, allow_pickle=options.allow_pickle)
    if not options.allow_missing:  # a misspelt text would pass in silence where nothing is trained
        for text, allowed in ((options.corpus, CORPUS), (options.pairs, PAIRS)):
            check_texts(text, allowed)
    if progress is not None:
        runtime = replace(runtime, progress=progress)
    if not inputs.tasks:
        inputs.tasks = load_tasks(names, data, options.limit)
        for report in filter(None, (task.data.report for task in inputs.tasks if task.data is not None)):
            runtime.progress.say(report)
    loaded = inputs.tasks
    if given is not None:
        from benchmark.run.objects import methods_of  # imports torch

        asked_precision = None if options.precision == "auto" else runtime.precision
        texts = [text for task in loaded for text in (*task.sample, *task.longest)]
        defaults = options.recipe_defaults()
        methods = methods_of(given, defaults, runtime, texts, version=version, precision=asked_precision)
    used = [getattr(method.recipe, "backbone", None) for method in methods]
    if options.backbone and options.backbone in used and not options.allow_missing:
        check_backbone(options.backbone, options.revision, runtime)  # else every cell would report it
    if options.controls:
        methods += controls_for(methods, loaded, recipes, options.recipe_defaults())
    if options.pairs and not options.allow_missing and not any(m.traits.needs_pairs for m in methods):
        raise UsageError(
            f"--pairs {options.pairs}: none of these methods learns from labelled pairs, as simcse-sup and sbert do;"
            " leave it out."
        )
    dev = inputs.dev = inputs.dev or _dev_task(options.dev or suite.dev, loaded, data, options.limit)
    if options.dev is not None:
        _check_dev(dev)
    kinds = {text_kind(method.traits) for method in methods}
    inputs.texts |= _texts(kinds - inputs.texts.keys(), options, suite, data, loaded, runtime)
    setting = Setting(
        tasks=loaded,
        runtime=runtime,
        texts=inputs.texts,
        dev=dev,
        limit=options.limit,
        _hashed=inputs.hashed,
    )
    plan = make_plan(methods, range(options.seeds or suite.seeds), setting)
    plan.encoders = plan.encoders[part::parts]
    count = f"{len(plan.encoders)} encoders x {len(loaded)} tasks"
    chosen = options.precision == "auto" and not runtime.device.startswith("cuda")
    why = f" ({precision_reason()})" if chosen else ""
    runtime.progress.say(f"{count} on {runtime.device} in {runtime.precision}{why}")
    named = [one.name for one in suites] if options.suites is None else options.suites.split(",")
    return Prepared(plan, dev, runtime, tuple(named), inputs)


def labels_of(labels: str | None, methods: list[str]) -> list[str]:
    """Return the names of the methods' rows: the given labels, one for each of them; raises UsageError for others."""
    if labels is None:
        return methods
    if not labels.isascii() and any("\ud800" <= letter <= "\udfff" for letter in labels):
        raise UsageError(f"--label {labels!r} is not UTF-8, which records and tables are; write it in UTF-8.")
    names = [name.strip() for name in labels.split(",")]
    if len(names) != len(methods) or not all(names):
        called = ", ".join(methods)
        raise UsageError(f"--label {labels}: give a name for each method, separated by commas: {called}.")
    if len(set(names)) < len(names):
        raise UsageError(f"--label {labels}: two rows would have one name.")
    return names


def _texts(
    kinds: Set[str],
    options: RunOptions,
    suite: Suite,
    data: DataSource,
    loaded: Sequence[LoadedTask],
    runtime: Runtime,
) -> dict[str, TrainingTexts]:
    """Return the texts of each kind that a method is trained on; one that is not there, and not named, is missing."""
    texts, say = {}, runtime.progress.say
    for kind in sorted(kinds - {""}):
        option = "pairs" if kind == "pairs" else "corpus"
        named = getattr(options, option)
        try:
            if option == "pairs":
                columns = options.columns if named else None
                text = load_pairs(named or suite.pairs, data, options.train_pairs, columns=columns, say=say)
                told = f"training pairs: {len(text.sentences) // 2:,} of {text.name}"
            elif kind == "target" or named == TARGET:
                if kind == "neighbours":
                    raise MissingError(f"the texts of the tasks (--corpus {TARGET}) have no order.")
                of_tasks = [one for task in loaded if task.data is not None for one in task.data.unlabelled()]
                text = target_corpus(of_tasks, options.train_sentences)
                told = f"training text: {len(text.sentences):,} texts of the tasks themselves"
            else:
                documents = kind == "neighbours"
                columns, count = options.columns if named and not options.pairs else None, options.train_sentences
                name = named or suite.corpus
                text = load_corpus(name, data, count, documents=documents, columns=columns, say=say)
                kept = f", with their neighbours, in {len(text.documents):,} stretches" if text.documents else ""
                told = f"training text: {len(text.sentences):,} sentences of {text.name}{kept}"
        except MissingError as error:
            if named and not options.allow_missing:
                raise  # the user asked for this text by name
            what = "text with --corpus" if option == "corpus" else "file with --pairs"
            texts[kind] = TrainingTexts(missing=f"{error} Or name a {what}.")  # other methods do without it
            continue
        say(told)
        texts[kind] = TrainingTexts(text)
    return texts


def _dev_task(name: str, loaded: list[LoadedTask], data: DataSource, limit: int | None) -> LoadedTask:
    for task in loaded:
        if task.name == name:
            return task
    return load_tasks([name], data, limit)[0]


def _check_dev(dev: LoadedTask) -> None:
    """Raise an error unless the chosen task has development pairs; there is no fallback."""
    if dev.data is None:
        raise MissingError(f"--dev {dev.name}: {dev.reason}")
    if dev.data.dev_overlap() is None:
        raise UsageError(f"--dev {dev.name} has no development pairs; use STS-B, stsb-dev-disjoint or SICK-R.")
