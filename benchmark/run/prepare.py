"""Makes a plan from options: resolves methods and reads tasks and training texts; trains nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmark.data.corpora import CORPUS, PAIRS, TARGET, check_texts, load_corpus, load_pairs, target_corpus
from benchmark.data.sources import DataSource
from benchmark.run.estimate import estimated, in_all
from benchmark.run.plan import EncoderPlan, Run, TrainingTexts, make_plan, resolve_methods, text_kind
from benchmark.tasks import TASKS
from benchmark.tasks.loaded import LoadedTask, load_tasks
from benchmark.tasks.suites import Suite, choose_tasks, merged, suites_for, tasks_named
from zoo.doubts import doubts_of
from zoo.encoder import Corpus, Start
from zoo.engine.backbone import check_backbone, find_backbone
from zoo.errors import MissingError, UsageError
from zoo.files import check_writable, parse_yaml
from zoo.limits import memory_here, threads_here
from zoo.machine import make_runtime
from zoo.recipes import RecipeSpec
from zoo.selection import items_of, parse_methods, saved_named

# Below so many sentences of all trainings, processes start longer than they save.
_WORTH_A_START = 2_000
_MEMORY_OF_PROCESS = 2**30
# Weights, gradients and two moments in float32, and about as much again for kept states.
_MEMORY_PER_WEIGHTS = 10


def controls_for(
    methods: Sequence[EncoderPlan],
    tasks: Sequence[LoadedTask],
    recipes: Mapping[str, RecipeSpec],
    defaults: Mapping[str, object],
) -> list[EncoderPlan]:
    """Return what a run of `methods` lacks: the start of each method that learns, and every recipe marked `control`.

    Left out is what one of the tasks cannot score: a method without trainable weights where the encoder itself is
    trained, and one that needs several words where all texts are single words.
    """
    wanted = [nearest_recipe(method.start, recipes, defaults) for method in methods if method.start is not None]
    wanted += [spec for spec in recipes.values() if spec.control]
    plans: list[EncoderPlan] = []
    for control in resolve_methods(wanted, defaults):
        there = any(one.cls is control.cls and one.recipe == control.recipe for one in (*methods, *plans))
        if not there and all(_scores(task, control) for task in tasks):
            plans.append(dataclasses.replace(control, control=True))
    return plans


def _scores(task: LoadedTask, control: EncoderPlan) -> bool:
    """Return whether a task can score a control; one without data cannot be asked and rules nothing out."""
    if task.data is None:
        return True
    if task.data.trains_encoder and not control.traits.fine_tunes:
        return False
    return not control.traits.needs_several_words or any(len(text.split()) > 1 for text in task.data.texts())


def nearest_recipe(start: Start, recipes: Mapping[str, RecipeSpec], defaults: Mapping[str, object]) -> RecipeSpec:
    """Return the recipe of a start that needs the fewest changed settings, which stand in its name."""
    of_method = [spec for spec in recipes.values() if spec.method == start.method]
    if not of_method:
        raise UsageError(f"the method {start.method!r}, from which another one starts, has no recipe.")
    changes = [(spec, _changed(start, spec.resolve(defaults)[1])) for spec in of_method]
    spec, changed = min(changes, key=lambda change: len(change[1]))
    return spec.changed(":".join([spec.name, *(f"{key}={_typed(value)}" for key, value in changed.items())]), changed)


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


def prepare(run: Run, *, write: bool = True) -> Run:
    """Read everything that a run needs; raises UsageError for a wrong recipe or name before any data is read.

    With `write`, the results folder is also created and tested for writing, before anything slow begins. An object is
    measured anew in every run, unless its `version` says that it is the same as before. Training texts that the run
    has already are not read again.
    """
    ready, suite, source = _validated(run, write=write)
    loaded = _loaded(ready, suite, source)
    return _announced(loaded)


def _validated(run: Run, *, write: bool) -> tuple[Run, Suite, DataSource]:
    """Return the run with its methods and runtime, its tasks as one suite, and where data comes from."""
    options = run.options
    options.part()
    # It raises before any work if one is not installed.
    options.trackers()
    suites = suites_for(options.suites, options.tasks)
    suite = merged(suites)
    run = _resolved(run)
    suite = replace(suite, tasks=tuple(choose_tasks(suite, options.tasks)), seeds=options.seeds or suite.seeds)
    if dev := options.dev or _tuned_on(run.methods):
        suite = replace(suite, dev=TASKS.canonical(dev))
        tasks_named(suite.dev)
    source = DataSource.from_options(options.data)
    if write:
        check_writable(options.results)
    runtime = make_runtime(
        options.device, options.precision, allow_pickle=options.allow_pickle, cuda_graphs=options.cuda_graphs
    )
    # A misspelt text would pass in silence where nothing is trained.
    if not options.allow_missing:
        for text, allowed in ((options.corpus, CORPUS), (options.pairs, PAIRS)):
            check_texts(text, allowed)
    if run.progress is not None:
        runtime = replace(runtime, progress=run.progress)
    names = [one.name for one in suites] if options.suites is None else options.suites.split(",")
    return replace(run, runtime=runtime, suites=tuple(names)), suite, source


def _resolved(run: Run) -> Run:
    """Return the run with its methods; saved encoders that it names are given, as objects are, and load later."""
    options, items = run.options, items_of(run.options.methods)
    if run.given is None and any(map(saved_named, items)):
        names = zip(labels_of(options.label, items), items, strict=True)
        run = replace(run, given=tuple((None if name == item else name, item) for name, item in names))
    if run.given is not None:
        return replace(run, methods=())
    recipes = options.recipes()
    if options.backbone in recipes:
        raise UsageError(f"--backbone {options.backbone}: that is a method: --methods {options.backbone}.")
    specs = parse_methods(options.methods, recipes)
    rows = dict(zip(labels_of(options.label, [spec.name for spec in specs]), specs, strict=True))
    methods = resolve_methods(list(rows.values()), options.recipe_defaults())
    if options.label is not None:
        methods = [replace(row, name=name, typed=row.name) for name, row in zip(rows, methods, strict=True)]
    return replace(run, methods=tuple(methods))


def _tuned_on(methods: Sequence[EncoderPlan]) -> str | None:
    """Return the task that tuned methods were tuned on, None if none is tuned; raises UsageError for several."""
    names = sorted({method.tuned.dev for method in methods if method.tuned is not None})
    if len(names) > 1:
        raise UsageError(
            f"these recipes were tuned on {' and '.join(names)}, and one task picks the checkpoints of all rows:"
            " name it with --dev, or run them apart."
        )
    return names[0] if names else None


def _loaded(run: Run, suite: Suite, source: DataSource) -> Run:
    """Return the run with its tasks, training texts and encoders; trains nothing."""
    options, methods = run.options, list(run.methods)
    tasks = tuple(load_tasks(suite.tasks, source, options.limit))
    for report in filter(None, (task.data.report for task in tasks if task.data is not None)):
        run.runtime.progress.say(report)
    if run.given is not None:
        from benchmark.run.objects import methods_of

        texts = [text for task in tasks for text in (*task.sample, *task.longest)]
        precision = None if options.precision == "auto" else run.runtime.precision
        defaults, version = options.recipe_defaults(), run.version
        methods = methods_of(run.given, defaults, run.runtime, texts, version=version, precision=precision)
    used = [getattr(method.recipe, "backbone", None) for method in methods]
    if options.backbone and options.backbone in used and not options.allow_missing:
        # Otherwise every cell would report it.
        check_backbone(options.backbone, options.revision, run.runtime)
    if options.controls:
        methods += controls_for(methods, tasks, options.recipes(), options.recipe_defaults())
    if options.pairs and not options.allow_missing and not any(m.traits.needs_pairs for m in methods):
        raise UsageError(
            f"--pairs {options.pairs}: none of these methods learns from labelled pairs, as simcse-sup and sbert do;"
            " leave it out."
        )
    dev = next((task for task in tasks if task.name == suite.dev), None)
    dev = dev or load_tasks([suite.dev], source, options.limit)[0]
    if options.dev is not None:
        _check_dev(dev)
    run = replace(run, methods=tuple(methods), tasks=tasks, dev=dev)
    run = replace(run, texts=_texts(run, suite, source))
    return replace(run, encoders=shard(make_plan(methods, range(suite.seeds), run), *options.part()))


def shard(encoders: Sequence[EncoderPlan], index: int, parts: int) -> tuple[EncoderPlan, ...]:
    """Return one part of a plan, by an equal division in every job: the dearest first, to the part with the least."""
    costs = [_cost(plan) for plan in encoders]
    loads, part_of = [0.0] * parts, {}
    for place in sorted(range(len(encoders)), key=lambda place: (-costs[place], place)):
        part_of[place] = loads.index(min(loads))
        loads[part_of[place]] += costs[place]
    return tuple(plan for place, plan in enumerate(encoders) if part_of[place] == index)


def _cost(plan: EncoderPlan) -> float:
    trained = plan.trained and plan.corpus is not None and plan.missing is None
    epochs = getattr(plan.recipe, "epochs", 1)
    # What is not trained takes about as long as a training on a hundred sentences.
    return 100.0 + (len(plan.corpus.sentences) * float(epochs) if trained and plan.corpus is not None else 0.0)


def _announced(run: Run) -> Run:
    """Print how much there is to measure, on what, and how long that takes; return the run with these times."""
    progress, device = run.runtime.progress, run.runtime.device
    # Another process has measured the product.
    if not progress.enabled:
        return run
    at_once = run.options.workers or automatic_workers(run)
    cores = max(threads_here() // at_once, 1) if device == "cpu" else 1
    run = estimated(run, cores)
    count = f"{len(run.encoders)} encoders x {len(run.tasks)} tasks"
    graphs = ", by CUDA graphs where a training can be captured" if run.runtime.cuda_graphs else ""
    progress.say(f"{count} on {device} in {run.runtime.precision}{graphs}{in_all(run.encoders, at_once)}")
    return run


def automatic_workers(run: Run) -> int:
    """Return how many processes share a run for `--workers auto`.

    On a CPU, a process of one thread for each core trains faster than one process of all threads. One process remains
    where there are no two trainings, where these are shorter than the start of a process, or where memory is short.
    """
    trained = [plan for plan in run.encoders if plan.trained and plan.corpus is not None and plan.missing is None]
    sentences = sum(len(plan.corpus.sentences) for plan in trained if plan.corpus is not None)
    if run.runtime.device != "cpu" or sentences < _WORTH_A_START:
        return 1
    used = max(memory_of(plan, run.runtime.allow_pickle) for plan in trained)
    return max(min(threads_here(), len(trained), memory_here() // used), 1)


def memory_of(plan: EncoderPlan, allow_pickle: bool) -> int:
    """Return about how many bytes the process of a training needs: Python, weights, gradients, moments, states."""
    if "backbone" not in plan.sources:
        return _MEMORY_OF_PROCESS
    source = find_backbone(plan.recipe.backbone, getattr(plan.recipe, "revision", None), allow_pickle=allow_pickle)
    weights = max((path.stat().st_size for path in source.folder.iterdir() if path.is_file()), default=0)
    return _MEMORY_OF_PROCESS + _MEMORY_PER_WEIGHTS * weights


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


def _texts(run: Run, suite: Suite, source: DataSource) -> dict[str, TrainingTexts]:
    """Return the texts of each kind that a method is trained on; one that is not there, and not named, is missing."""
    texts = dict(run.texts)
    kinds = {text_kind(method.traits) for method in run.methods} - {"", *texts}
    for kind in sorted(kinds):
        option = "pairs" if kind == "pairs" else "corpus"
        try:
            text, report = _text(kind, run, suite, source)
        except MissingError as error:
            if getattr(run.options, option) and not run.options.allow_missing:
                # The user asked for this text by name.
                raise
            what = "text with --corpus" if option == "corpus" else "file with --pairs"
            # Other methods do without this text.
            texts[kind] = TrainingTexts(missing=f"{error} Or name a {what}.")
            continue
        for sentence in (report, *(f"warning: {doubt}." for doubt in doubts_of(text))):
            run.runtime.progress.say(sentence)
        texts[kind] = TrainingTexts(text)
    return texts


def _text(kind: str, run: Run, suite: Suite, source: DataSource) -> tuple[Corpus, str]:
    """Return a training text, and a sentence on its size."""
    options, say = run.options, run.runtime.progress.say
    if kind == "pairs":
        columns = options.columns if options.pairs else None
        bound = suite.train_sentences if options.pairs is None and options.train_pairs is None else None
        text = load_pairs(options.pairs or suite.pairs, source, bound or options.train_pairs, columns=columns, say=say)
        return text, f"training pairs: {len(text.sentences) // 2:,} of {text.name}{_more(text, bound, 'pairs')}"
    if kind == "target" or options.corpus == TARGET:
        if kind == "neighbours":
            raise MissingError(f"the texts of the tasks (--corpus {TARGET}) have no order.")
        of_tasks = [text for task in run.tasks if task.data is not None for text in task.data.unlabelled()]
        text = target_corpus(of_tasks, options.train_sentences)
        return text, f"training text: {len(text.sentences):,} texts of the tasks themselves"
    documents, columns = kind == "neighbours", options.columns if options.corpus and not options.pairs else None
    name, count = options.corpus or suite.corpus, options.train_sentences
    bound = suite.train_sentences if count is None and options.corpus is None else None
    text = load_corpus(name, source, bound or count, documents=documents, columns=columns, say=say)
    kept = f", with their neighbours, in {len(text.documents):,} stretches" if text.documents else ""
    more = _more(text, bound, "sentences")
    return text, f"training text: {len(text.sentences):,} sentences of {text.name}{kept}{more}"


def _more(text: Corpus, bound: int | None, unit: str) -> str:
    """Return how to train on more, where a suite's bound, not the user's, may have left out a part of a text."""
    rows = len(text.sentences) // (1 if text.labels is None else 2)
    return f" (--train-{unit} N takes more of them)" if bound is not None and rows >= bound else ""


def _check_dev(dev: LoadedTask) -> None:
    """Raise an error unless the chosen task has development pairs; there is no fallback."""
    if dev.data is None:
        raise MissingError(f"--dev {dev.name}: {dev.reason}")
    if dev.data.dev_overlap() is None:
        raise UsageError(f"--dev {dev.name} has no development pairs; use STS-B, stsb-dev-disjoint or SICK-R.")
