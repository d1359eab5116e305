"""Makes a run from a request: resolves methods, reads tasks and training texts, and plans; trains nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmark.data.corpora import TARGET, load_corpus, load_pairs, target_corpus
from benchmark.data.sources import DataSource
from benchmark.run.estimate import announced
from benchmark.run.options import RunOptions
from benchmark.run.plan import Planner, Request, Run, TrainingTexts
from benchmark.run.rows import Row, asked_rows
from benchmark.tasks.loaded import LoadedTask, load_tasks
from benchmark.tasks.suites import Suite, suite_of_run
from zoo.check import doubts_of
from zoo.encoder import Corpus, Runtime
from zoo.engine.backbone import check_backbone, finding_once
from zoo.errors import MissingError, UsageError
from zoo.files import check_writable
from zoo.machine import make_runtime


def prepare(request: Request, *, write: bool = True) -> Run:
    """Plan a run, and print how much there is to measure and how long that takes."""
    return announced(planned(request, write=write))


@finding_once()
def planned(request: Request, *, write: bool = True) -> Run:
    """Read everything that a run needs; trains nothing.

    Raises UsageError for a wrong recipe or name before any data is read. With `write`, the results folder is also
    created and tested for writing, before anything slow begins.
    """
    options = request.options
    options.check(objects=bool(request.objects))
    asked = asked_rows(options, request.objects)
    suite = suite_of_run(options.suites, options.tasks, asked.dev, options.seeds)
    source = DataSource.from_options(options.data)
    if write:
        check_writable(options.results)
    runtime = make_runtime(
        options.device, options.precision, allow_pickle=options.allow_pickle, cuda_graphs=options.cuda_graphs
    )
    runtime = replace(runtime, progress=request.progress or runtime.progress)
    # Otherwise every cell would report it.
    used = options.backbone in [getattr(row.recipe, "backbone", None) for row in asked.recipes]
    if options.backbone and used and not options.allow_missing:
        check_backbone(options.backbone, options.revision, runtime)

    names = dict.fromkeys((*suite.tasks, suite.dev))
    loaded = dict(zip(names, load_tasks(list(names), source, options.limit), strict=True))
    tasks, dev = tuple(loaded[name] for name in suite.tasks), loaded[suite.dev]
    if options.dev is not None:
        _check_dev(dev)
    for report in filter(None, (task.data.report for task in tasks if task.data is not None)):
        runtime.progress.say(report)
    rows = list(asked.recipes)
    if len(rows) < len(asked.rows):
        from benchmark.run.objects import rows_of

        sample = [text for task in tasks for text in (*task.sample, *task.longest)]
        precision = None if options.precision == "auto" else runtime.precision
        rows = rows_of(asked.rows, runtime, sample, version=request.version, precision=precision)
    rows += [row for row in asked.controls if all(task.can_score(row.traits) for task in tasks)]
    texts = {**request.texts, **_texts(rows, request, suite, source, tasks, runtime)}
    encoders = Planner(runtime, tasks, dev, texts, options.limit).encoders(rows, range(suite.seeds), options.part)
    return Run(request, runtime, tuple(suite.name.split(",")), tasks, dev, texts, encoders)


def _texts(
    rows: Sequence[Row],
    request: Request,
    suite: Suite,
    source: DataSource,
    tasks: Sequence[LoadedTask],
    runtime: Runtime,
) -> dict[str, TrainingTexts]:
    """Return the texts of each kind that rows are trained on; raises MissingError only for a text that was named."""
    options, say, texts = request.options, runtime.progress.say, dict[str, TrainingTexts]()
    for kind in sorted({row.text_kind for row in rows} - {"", *request.texts}):
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
