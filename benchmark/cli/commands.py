"""What the commands do, once their options are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmark.data.catalog import catalog, dataset
from benchmark.data.corpora import load_corpus, load_pairs
from benchmark.data.sources import DataSource
from benchmark.leaderboard.report import make_leaderboard
from benchmark.records.store import Records
from benchmark.run.cache import EmbeddingCache
from benchmark.run.estimate import estimate_seconds
from benchmark.run.plan import LoadedTask, Plan, load_tasks, make_plan, texts_needed
from benchmark.run.runner import Runner, exit_code, quote_command
from benchmark.tasks import TASKS
from benchmark.tasks.suites import Suite, merged, suites_named
from zoo.conformance import check as conformance_check
from zoo.encoder import Runtime
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.files import check_writable
from zoo.hardware import choose_device, choose_precision, matrix_speed
from zoo.progress import Progress, clock
from zoo.recipe import all_recipes, match_names, parse_methods


def choose_tasks(chosen: Suite, patterns: str | None) -> list[str]:
    """Return the suite's tasks, or those named by `--tasks` (any registered task); raises UsageError."""
    if patterns is None:
        return list(chosen.tasks)
    known = {name: name for name in TASKS.names()}
    names: list[str] = []
    for pattern in (part.strip() for part in patterns.split(",")):
        if not pattern:
            continue
        # A glob means the suite's tasks first: `--suite sts --tasks 'sts*'` is not the raw tasks too.
        in_suite = {name: name for name in chosen.tasks}
        try:
            hits = match_names(pattern, in_suite, "task")
        except UsageError:
            hits = match_names(pattern, known, "task")
        twice = [hit for hit in hits if hit in names]
        if twice:
            raise UsageError(f"--tasks: {twice[0]!r} is named twice.")
        names += hits
    if not names:
        raise UsageError("--tasks names no task; see `zoo-bench tasks`.")
    return names


def make_runtime(options: dict[str, Any]) -> Runtime:
    """Choose device and precision and silence the libraries' own messages."""
    import logging
    import os

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    device = choose_device(options["device"])
    precision = choose_precision(options["precision"], device)
    return Runtime(device, precision, allow_pickle=options.get("allow_pickle", False), progress=Progress())


def run_command(options: dict[str, Any], command: list[str]) -> int:
    """`zoo-bench run`: plan, execute, tabulate; returns the exit code."""
    chosen = merged(suites_named(options["suite_names"]))
    specs = parse_methods(options["methods"], all_recipes())
    names = choose_tasks(chosen, options["tasks"])
    defaults = {k: options[k] for k in ("backbone", "revision") if options[k]}
    for spec in specs:
        spec.resolve(defaults)  # a wrong recipe ends here, before data is read or anything runs
    if not options["dry_run"]:
        check_writable(options["out"])
    data = DataSource.from_options(options["data"])
    runtime = make_runtime(options)
    say = runtime.progress.say
    loaded = load_tasks(names, data, options["limit"])
    corpus, no_corpus, pairs, no_pairs = None, None, None, None
    sentences_needed, pairs_needed = texts_needed(specs, defaults)
    if sentences_needed:
        try:
            corpus = load_corpus(options["corpus"] or chosen.corpus, data, options["train_sentences"])
            say(f"training text: {len(corpus.sentences):,} sentences of {corpus.name}")
        except MissingError as error:
            no_corpus = f"{error} Or name a text with --corpus."  # only the methods that need it go without
    if pairs_needed:
        try:
            pairs = load_pairs(options["pairs"] or chosen.pairs, data, options["train_pairs"])
            say(f"training pairs: {len(pairs.sentences) // 2:,} of {pairs.name}")
        except MissingError as error:
            no_pairs = f"{error} Or name a file with --pairs."
    dev = _dev_task(chosen, loaded, data, options["limit"])
    plan = make_plan(
        specs,
        loaded,
        seeds=range(options["seeds"] or chosen.seeds),
        runtime=runtime,
        defaults=defaults,
        corpus=corpus,
        no_corpus=no_corpus,
        pairs=pairs,
        no_pairs=no_pairs,
        dev=dev,
        limit=options["limit"],
    )
    say(f"{len(plan.encoders)} encoders x {len(loaded)} tasks on {runtime.device} in {runtime.precision}")
    if options["dry_run"]:
        _print_plan(plan, Records(options["out"], set_aside=False), runtime)
        return 0
    runner = Runner(
        options["out"],
        runtime,
        dev=dev,
        limit=options["limit"],
        fail_fast=options["fail_fast"],
        command=quote_command(command),
        tensorboard=options["tensorboard"],
        cache=EmbeddingCache(options["embedding_cache"], say) if options["embedding_cache"] else None,
    )
    outcome = runner.run(plan)
    say(
        f"{outcome.measured} cells measured, {outcome.kept} kept from before,"
        f" {len(outcome.failed)} failed, {len(outcome.missing)} n/a"
    )
    corrupt: list[tuple[Path, str]] = []
    try:
        corrupt = make_leaderboard(options["out"], options["out"], options["suite_names"])
    except MissingError:
        say(f"no table: no task of {options['suite_names']} has a record in {options['out']}")
    for path, reason in [*runner.records.corrupt, *corrupt]:
        say(f"a damaged record was set aside: {path} ({reason})")
    return exit_code(outcome, allow_missing=options["allow_missing"])


def _dev_task(chosen: Suite, loaded: list[LoadedTask], data: DataSource, limit: int | None) -> LoadedTask:
    for task in loaded:
        if task.name == chosen.dev:
            return task
    return load_tasks([chosen.dev], data, limit)[0]


def _print_plan(plan: Plan, records: Records, runtime: Runtime) -> None:
    speed = matrix_speed(runtime.device, runtime.precision)
    total, unknown = 0.0, False
    for encoder_plan in plan.encoders:
        done = sum(records.finished(encoder_plan.name, c.task.name, c.key) is not None for c in encoder_plan.cells)
        seconds = None
        if encoder_plan.missing is None:
            seconds = estimate_seconds(encoder_plan, records, speed, runtime.allow_pickle)
        total += seconds or 0.0
        unknown |= seconds is None
        seed = "" if encoder_plan.seed is None else f" seed {encoder_plan.seed}"
        time_text = "?" if seconds is None else clock(seconds)
        missing = [c.task.name for c in encoder_plan.cells if c.task.data is None]
        without = f", no data for {', '.join(missing)}" if missing else ""
        if encoder_plan.missing is not None:
            print(f"{encoder_plan.name}{seed}: n/a: {encoder_plan.missing}")
            continue
        print(f"{encoder_plan.name}{seed}: {done}/{len(encoder_plan.cells)} cells done, about {time_text}{without}")
    more = " and more" if unknown else ""
    print(f"about {clock(total)} in all{more} (an estimate from sizes and a measured matrix product)")


def check_command(method: str, backbone: str | None, device: str, precision: str) -> int:
    """`zoo-bench check`: print one line a check; returns 1 when any fails."""
    specs = parse_methods(method, all_recipes())
    runtime = make_runtime({"device": device, "precision": precision})
    failures = 0
    for spec in specs:
        # `pretrained` by itself names no finished encoder; the bundled model with a pooling stands in.
        extra = {"pooling": "mean"} if spec.method == "pretrained" and not spec.parameters else {}
        cls, recipe = spec.resolve({**extra, **({"backbone": backbone} if backbone else {})})
        quiet = Runtime(runtime.device, runtime.precision)
        for what, problem in conformance_check(cls, recipe, quiet, spec.name):
            failures += problem is not None
            print(f"ok    {spec.name}: {what}" if problem is None else f"FAIL  {spec.name}: {what}: {problem}")
    return 1 if failures else 0


def data_rows(folder: str | None) -> list[list[str]]:
    """Return name, form, rows, where found, licence of every data set (checksums are not read; see verify)."""
    source = DataSource.from_options(folder, hub=False)
    rows = []
    for entry in catalog().values():
        for form in entry.forms:
            try:
                found = source.locate(entry.name, form).source
            except MissingError:
                found = "no" if entry.form(form).hub is None else "no (on the hub)"
            except CorruptError:
                found = "damaged"
            counts = ", ".join(f"{k} {v:,}" for k, v in entry.rows.items()) or f"{entry.lines:,} lines"
            rows.append([entry.name, form, counts, found, entry.licence])
    return rows


def _chosen_data(names: tuple[str, ...]) -> list[str]:
    return [dataset(name).name for name in names] or list(catalog())


def data_verify_command(folder: str | None, names: tuple[str, ...]) -> int:
    """Check sha256, and row counts by reading every task's data; returns 1 when anything is missing or wrong."""
    source = DataSource.from_options(folder, hub=False)
    chosen = _chosen_data(names)
    problems = 0
    readers = {(cls.dataset, cls.form): cls for _, cls in TASKS.load_all() if cls is not None}
    for name in chosen:
        for form in dataset(name).forms:
            try:
                located = source.locate(name, form)
                reader = readers.get((name, form))
                read = f", {reader().load(source).rows:,} rows scored" if reader else ""
                print(f"ok       {name} ({form}): {len(located.files)} file(s), {located.source}, sha256 right{read}")
            except ZooError as error:
                problems += 1
                print(f"{'missing' if isinstance(error, MissingError) else 'WRONG  '}  {error}")
    return 1 if problems else 0


def data_fetch_command(names: tuple[str, ...]) -> int:
    """Download into the cache what the hub has; returns 1 when anything could not be had."""
    source = DataSource(None)
    check_writable(source.cache)
    problems = 0
    for name in _chosen_data(names):
        for form, wanted in dataset(name).forms.items():
            if wanted.hub is None:
                if names:
                    print(f"skipped  {name} ({form}): on no hub {wanted.hub_note}".rstrip())
                continue
            try:
                located = source.locate(name, form)
                print(f"ok       {name} ({form}): {located.source}")
            except ZooError as error:
                problems += 1
                print(f"FAILED   {error}")
    return 1 if problems else 0
