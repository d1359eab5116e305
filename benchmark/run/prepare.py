"""Makes a plan from options: resolves methods and reads tasks and training texts; trains nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from benchmark.data.corpora import CORPUS, PAIRS, TARGET, check_texts, load_corpus, load_pairs, target_corpus
from benchmark.data.sources import DataSource
from benchmark.run.estimate import estimated, in_all
from benchmark.run.options import RunOptions
from benchmark.run.plan import EncoderPlan, Planner, Request, Row, Run, TrainingTexts, resolve_methods, text_kind
from benchmark.tasks import TASKS
from benchmark.tasks.loaded import LoadedTask, load_tasks
from benchmark.tasks.suites import Suite, choose_tasks, merged, suites_for, tasks_named
from zoo.check import doubts_of
from zoo.encoder import Corpus, Runtime, Start
from zoo.engine.backbone import check_backbone, find_backbone
from zoo.errors import MissingError, UsageError
from zoo.files import check_writable, parse_yaml
from zoo.limits import memory_here, threads_here
from zoo.machine import make_runtime, stretch_now
from zoo.recipes import RecipeSpec
from zoo.selection import items_of, parse_methods, saved_named

# Below so many sentences of all trainings, processes start longer than they save.
_WORTH_A_START = 2_000
_MEMORY_OF_PROCESS = 2**30
# Weights, gradients and two moments in float32, and about as much again for kept states.
_MEMORY_PER_WEIGHTS = 10


def prepare(request: Request, *, write: bool = True) -> Run:
    """Read everything that a run needs; trains nothing.

    Raises UsageError for a wrong recipe or name before any data is read. With `write`, the results folder is also
    created and tested for writing, before anything slow begins.
    """
    options = request.options
    options.part()
    # It raises before any work if one is not installed.
    options.trackers()
    suites = suites_for(options.suites, options.tasks)
    asked = merged(suites)
    # A saved encoder is loaded as objects are: to compare it with the library, it needs the texts of the tasks.
    objects = request.objects or _saved(options)
    rows = [] if objects else _rows(options)
    chosen, picks = tuple(choose_tasks(asked, options.tasks)), options.dev or _tuned_on(rows)
    dev_name = TASKS.canonical(picks) if picks else asked.dev
    tasks_named(dev_name)
    suite = replace(asked, tasks=chosen, seeds=options.seeds or asked.seeds, dev=dev_name)
    source = DataSource.from_options(options.data)
    if write:
        check_writable(options.results)
    runtime = make_runtime(
        options.device, options.precision, allow_pickle=options.allow_pickle, cuda_graphs=options.cuda_graphs
    )
    runtime = replace(runtime, progress=request.progress or runtime.progress)
    # A misspelt text would pass in silence where nothing is trained.
    if not options.allow_missing:
        for text, allowed in ((options.corpus, CORPUS), (options.pairs, PAIRS)):
            check_texts(text, allowed)

    tasks = tuple(load_tasks(suite.tasks, source, options.limit))
    for report in filter(None, (task.data.report for task in tasks if task.data is not None)):
        runtime.progress.say(report)
    if objects:
        rows = _rows_of_objects(objects, request, runtime, tasks)
    _check_backbone(rows, options, runtime)
    if options.controls:
        rows += controls_for(rows, tasks, options.recipes(), options.recipe_defaults())
    _check_pairs(rows, options)
    loaded = next((task for task in tasks if task.name == suite.dev), None)
    dev = loaded or load_tasks([suite.dev], source, options.limit)[0]
    if options.dev is not None:
        _check_dev(dev)
    texts = {**request.texts, **_texts(rows, request, suite, source, tasks, runtime)}
    encoders = Planner(runtime, tasks, dev, texts, options.limit).encoders(rows, range(suite.seeds))
    names = [one.name for one in suites] if options.suites is None else options.suites.split(",")
    run = Run(request, runtime, tuple(names), tasks, dev, texts, shard(encoders, *options.part()))
    return _announced(run)


def _saved(options: RunOptions) -> tuple[tuple[str | None, str], ...]:
    """Return what --methods names, with labels, if a saved encoder is among it; else ()."""
    items = items_of(options.methods)
    if not any(map(saved_named, items)):
        return ()
    names = zip(labels_of(options.label, items), items, strict=True)
    return tuple((None if name == item else name, item) for name, item in names)


def _rows(options: RunOptions) -> list[Row]:
    """Return the rows of the recipes that --methods names."""
    recipes = options.recipes()
    if options.backbone in recipes:
        raise UsageError(f"--backbone {options.backbone}: that is a method: --methods {options.backbone}.")
    specs = parse_methods(options.methods, recipes)
    names = labels_of(options.label, [spec.name for spec in specs])
    # A recipe that is named twice is a row once.
    labelled = dict(zip(names, specs, strict=True))
    rows = resolve_methods(list(labelled.values()), options.recipe_defaults())
    if options.label is None:
        return rows
    return [replace(row, name=name, typed=row.name) for name, row in zip(labelled, rows, strict=True)]


def _rows_of_objects(
    objects: Sequence[tuple[str | None, object]], request: Request, runtime: Runtime, tasks: Sequence[LoadedTask]
) -> list[Row]:
    from benchmark.run.objects import rows_of

    options, texts = request.options, [text for task in tasks for text in (*task.sample, *task.longest)]
    precision = None if options.precision == "auto" else runtime.precision
    defaults = options.recipe_defaults()
    return rows_of(objects, defaults, runtime, texts, version=request.version, precision=precision)


def _tuned_on(rows: Sequence[Row]) -> str | None:
    """Return the task that tuned methods were tuned on, None if none is tuned; raises UsageError for several."""
    names = sorted({row.tuned.dev for row in rows if row.tuned is not None})
    if len(names) > 1:
        raise UsageError(
            f"these recipes were tuned on {' and '.join(names)}, and one task picks the checkpoints of all rows:"
            " name it with --dev, or run them apart."
        )
    return names[0] if names else None


def _check_backbone(rows: Sequence[Row], options: RunOptions, runtime: Runtime) -> None:
    """Raise an error for a backbone that is not there, which otherwise every cell would report."""
    used = [getattr(row.recipe, "backbone", None) for row in rows]
    if options.backbone and options.backbone in used and not options.allow_missing:
        check_backbone(options.backbone, options.revision, runtime)


def _check_pairs(rows: Sequence[Row], options: RunOptions) -> None:
    if options.pairs and not options.allow_missing and not any(row.traits.needs_pairs for row in rows):
        raise UsageError(
            f"--pairs {options.pairs}: none of these methods learns from labelled pairs, as simcse-sup and sbert do;"
            " leave it out."
        )


def controls_for(
    rows: Sequence[Row],
    tasks: Sequence[LoadedTask],
    recipes: Mapping[str, RecipeSpec],
    defaults: Mapping[str, object],
) -> list[Row]:
    """Return what a run of `rows` lacks: the start of each method that learns, and every recipe marked `control`.

    Left out is what one of the tasks cannot score: a method without trainable weights where the encoder itself is
    trained, and one that needs several words where all texts are single words.
    """
    wanted = [nearest_recipe(row.start, recipes, defaults) for row in rows if row.start is not None]
    wanted += [spec for spec in recipes.values() if spec.control]
    added: list[Row] = []
    for control in resolve_methods(wanted, defaults):
        there = any(other.cls is control.cls and other.recipe == control.recipe for other in (*rows, *added))
        if not there and all(_scores(task, control) for task in tasks):
            added.append(replace(control, control=True))
    return added


def _scores(task: LoadedTask, control: Row) -> bool:
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


def shard(encoders: Sequence[EncoderPlan], index: int, parts: int) -> tuple[EncoderPlan, ...]:
    """Return one part of a plan, by an equal division in every job: the dearest first, to the part with the least."""
    costs = [_cost(plan) for plan in encoders]
    loads, part_of = [0.0] * parts, {}
    for place in sorted(range(len(encoders)), key=lambda place: (-costs[place], place)):
        part_of[place] = loads.index(min(loads))
        loads[part_of[place]] += costs[place]
    return tuple(plan for place, plan in enumerate(encoders) if part_of[place] == index)


def _cost(plan: EncoderPlan) -> float:
    epochs = getattr(plan.row.recipe, "epochs", 1)
    # What is not trained takes about as long as a training on a hundred sentences.
    return 100.0 + _sentences(plan) * float(epochs)


def _sentences(plan: EncoderPlan) -> int:
    """Return how many sentences an encoder is trained on; 0 where it is not trained."""
    corpus = plan.inputs.corpus if plan.row.trained and plan.inputs.missing is None else None
    return 0 if corpus is None else len(corpus.sentences)


def _announced(run: Run) -> Run:
    """Print how much there is to measure, on what, and how long that takes; return the run with these times."""
    progress, device = run.runtime.progress, run.runtime.device
    # Another process has measured the product.
    if not progress.enabled:
        return run
    at_once = run.options.workers or automatic_workers(run)
    cores = max(threads_here() // at_once, 1) if device == "cpu" else 1
    stretch = stretch_now(cores * at_once) if device == "cpu" else 1.0
    run = replace(estimated(run, cores), stretch=stretch)
    count = f"{len(run.encoders)} encoders x {len(run.tasks)} tasks"
    graphs = ", by CUDA graphs where a training can be captured" if run.runtime.cuda_graphs else ""
    progress.say(f"{count} on {device} in {run.runtime.precision}{graphs}{in_all(run, at_once)}")
    return run


def automatic_workers(run: Run) -> int:
    """Return how many processes share a run for `--workers auto`.

    On a CPU, a process of one thread for each core trains faster than one process of all threads. One process remains
    where there are no two trainings, where these are shorter than the start of a process, or where memory is short.
    """
    trained = [plan for plan in run.encoders if _sentences(plan)]
    if run.runtime.device != "cpu" or sum(map(_sentences, trained)) < _WORTH_A_START:
        return 1
    used = max(memory_of(plan, run.runtime.allow_pickle) for plan in trained)
    return max(min(threads_here(), len(trained), memory_here() // used), 1)


def memory_of(plan: EncoderPlan, allow_pickle: bool) -> int:
    """Return about how many bytes the process of a training needs: Python, weights, gradients, moments, states."""
    recipe = plan.row.recipe
    if "backbone" not in plan.inputs.sources:
        return _MEMORY_OF_PROCESS
    source = find_backbone(recipe.backbone, getattr(recipe, "revision", None), allow_pickle=allow_pickle)
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


def _texts(
    rows: Sequence[Row],
    request: Request,
    suite: Suite,
    source: DataSource,
    tasks: Sequence[LoadedTask],
    runtime: Runtime,
) -> dict[str, TrainingTexts]:
    """Return the texts of each kind that a row is trained on; one that is not there, and not named, is missing."""
    options, say, texts = request.options, runtime.progress.say, dict[str, TrainingTexts]()
    for kind in sorted({text_kind(row.traits) for row in rows} - {"", *request.texts}):
        option = "pairs" if kind == "pairs" else "corpus"
        try:
            text, report = _text(kind, options, suite, source, tasks, say)
        except MissingError as error:
            if getattr(options, option) and not options.allow_missing:
                # The user asked for this text by name.
                raise
            what = "text with --corpus" if option == "corpus" else "file with --pairs"
            # Other methods do without this text.
            texts[kind] = TrainingTexts(missing=f"{error} Or name a {what}.")
            continue
        for sentence in (report, *(f"warning: {doubt}." for doubt in doubts_of(text))):
            say(sentence)
        texts[kind] = TrainingTexts(text)
    return texts


def _text(
    kind: str,
    options: RunOptions,
    suite: Suite,
    source: DataSource,
    tasks: Sequence[LoadedTask],
    say: Callable[[str], None],
) -> tuple[Corpus, str]:
    """Return a training text, and a sentence on its size."""
    if kind == "pairs":
        columns = options.columns if options.pairs else None
        bound = suite.train_sentences if options.pairs is None and options.train_pairs is None else None
        text = load_pairs(options.pairs or suite.pairs, source, bound or options.train_pairs, columns=columns, say=say)
        return text, f"training pairs: {len(text.sentences) // 2:,} of {text.name}{_more(text, bound, 'pairs')}"
    if kind == "target" or options.corpus == TARGET:
        if kind == "neighbours":
            raise MissingError(f"the texts of the tasks (--corpus {TARGET}) have no order.")
        of_tasks = [text for task in tasks if task.data is not None for text in task.data.unlabelled()]
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
