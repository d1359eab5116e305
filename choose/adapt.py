"""Trains methods of the zoo on a user's own texts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmark.data.readers.roles import Question
from benchmark.data.sources import DataSource
from benchmark.interop.export import base_card, export_encoder
from benchmark.records.folder import Records
from benchmark.records.record import Record, scores_of
from benchmark.report.comparison import compare_rows
from benchmark.run.fit import Fitter
from benchmark.run.options import RunOptions
from benchmark.run.plan import Planner, Request, Run, TrainingTexts
from benchmark.run.rows import Row, resolve_methods
from benchmark.run.runner import Outcome, Runner
from benchmark.tasks.loaded import LoadedTask, load_tasks
from benchmark.tasks.suites import suite
from choose.adaptation import HOME, NONE, Adaptation, HomeData, HomeTask, frame_of
from choose.candidates import installed
from choose.choice import choose
from choose.data import Kind, Texts, arranged, divided, read_texts, training_pairs
from choose.own_texts import OwnTexts, document_items, language_notes, read_own_texts
from zoo.encoder import Corpus
from zoo.encoder import Run as TrainingRun
from zoo.engine.backbone import find_backbone
from zoo.engine.hub_models import DEFAULT_BACKBONE
from zoo.errors import MissingError, UsageError, ZooError
from zoo.files import read_signed, sha256_json, write_signed
from zoo.machine import make_runtime
from zoo.methods.pretrained import Pretrained
from zoo.methods.simcse import triplets
from zoo.progress import Progress
from zoo.recipes import RecipeSpec, all_recipes
from zoo.selection import parse_methods

METHODS = ("whitening", "sentence-crops", "simcse", "tsdae", "static-contrastive", "cosent", "simcse-sup")
# Shares of the rows: the smaller the test, the less it shows. From so many labels on, a part of them is trained on.
_PARTS = {"development": 1, "test": 2, "training": 1}
_FOR_TRAINING = 200
# Looks at the development score; updates that are timed, and the least of a training; the trainings' share of time.
_LOOKS = 4
_PROBE = 4
_LEAST = 10
_SHARE = 0.7
_BUDGET = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h|updates?)\s*")
_MEAN = {"pooler": "avg", "layers": "last"}
# A backbone's own states, pooled; the best on development is what a training must beat.
_POOLINGS = ("avg-last", "avg-first-last", "cls")
_POOLERS = {"mean": "avg", "cls": "cls_before_pooler"}


@dataclass(frozen=True)
class Beginning:
    name: str
    untrained: RecipeSpec
    settings: dict[str, Any]
    base: str | None = None
    # Why its weights cannot be trained.
    fixed: str = ""


def beginning(name: str, runtime: Any) -> Beginning:
    """Load a finished encoder or a backbone; raises MissingError or UsageError for anything else."""
    recipes, source = all_recipes(), find_backbone(name)
    if not (source.folder / "modules.json").is_file():
        return Beginning(name, recipes["avg-last"].changed("avg-last", {"backbone": name}), _MEAN)
    untrained = recipes["pretrained"].changed("pretrained", {"model": name})
    encoder = Pretrained(Pretrained.Recipe(model=name), runtime)
    fixed = ""
    if encoder.library is not None or encoder.own_pooling not in _POOLERS:
        fixed = "its modules are not a transformer with a mean or [CLS]"
    elif any(type(module).__name__ != "Normalize" for module in encoder.after):
        fixed = "it has a layer behind its pooling"
    settings = {} if fixed else {"pooler": _POOLERS[encoder.own_pooling]}
    return Beginning(name, untrained, settings, "pretrained", fixed)


def best_pooled(start: Beginning, parts: HomeData, runtime: Any) -> tuple[Beginning, str]:
    """Return a backbone with the untrained pooling that is best on development, and each one's score there."""
    if start.settings is not _MEAN:
        return start, ""
    recipes, scores, specs = all_recipes(), dict[str, float](), dict[str, RecipeSpec]()
    for pooling in _POOLINGS:
        specs[pooling] = recipes[pooling].changed(pooling, {"backbone": start.name})
        scores[pooling] = parts.score_dev(_resolved(specs[pooling], {}, pooling).encoder(runtime).encode)
    best = max(scores, key=lambda pooling: scores[pooling])
    listed = ", ".join(f"{pooling} {value:.1f}" for pooling, value in scores.items())
    return replace(start, untrained=specs[best]), f"untrained, on development: {listed}; {best} is the start line"


def read_budget(text: str) -> tuple[float, int | None]:
    """Return the seconds of all trainings, or the updates of each; raises UsageError for another text."""
    if not (read := _BUDGET.fullmatch(str(text))) or not float(read[1]):
        raise UsageError(f"--budget {text}: give a time for all, as 90s, 10m or 1h, or updates of each: '200 updates'.")
    value = float(read[1])
    return (0.0, int(value)) if read[2].startswith("u") else (value * {"s": 1, "m": 60, "h": 3600}[read[2]], None)


def adapt(
    texts: Any,
    pairs: Any = None,
    *,
    encoder: str | Path | None = None,
    budget: str = "10m",
    seeds: int = 3,
    methods: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    elsewhere: str = "pocket",
    columns: str | None = None,
    pair_columns: str | None = None,
    kind: Kind | None = None,
    data: str | None = None,
    device: str = "auto",
    precision: str = "auto",
    quiet: bool = False,
) -> Adaptation:
    """Train methods on your texts with equal budgets; compare their gains and their changes elsewhere.

    A part of the pairs picks (development), another judges (test). Without pairs documents are held out, and their
    neighbouring sentences are the test.

    Args:
        texts: A file of lines, a table, a folder of .txt files, or lists of texts or of documents.
        pairs: A table as for `choose`.
        encoder: A finished encoder or a backbone; by default the best finished encoder of the hub's cache.
        budget: The time of all trainings (10m), or the updates of each ("200 updates").
        seeds: The number of trainings of a method, at least 2.
        methods: Names of recipes, also of plugins; by default whitening, SimCSE and others suitable for the texts.
        out: A folder for records, to continue an interrupted call, and for the advised encoder.
        elsewhere: A suite of `zoo-bench tasks` for the change elsewhere.
        columns: The columns of a table of texts, comma-separated.
        pair_columns: The columns of the pairs.
        kind: The kind of the pairs: score, binary, retrieval or label.
        data: The folder of the data of `elsewhere`.
        device: A device of torch, or auto.
        precision: fp32, bf16, fp16, or auto.
        quiet: Print no progress to standard error.

    Returns:
        The table, the advice and its reasons; print it.

    Raises:
        UsageError: Texts, pairs or an encoder cannot be used.
        MissingError: A file or the data of `elsewhere` is not here.
    """
    if seeds < 2:
        raise UsageError(f"--seeds {seeds}: with one seed the noise of training is not known; give 2 or more.")
    seconds, updates = read_budget(budget)
    others = load_tasks(suite(elsewhere).tasks, DataSource.from_options(data), None)
    if lacking := [task.reason for task in others if task.data is None]:
        raise MissingError(f"--elsewhere {elsewhere}: {lacking[0]}")
    progress = Progress.silent() if quiet else Progress()
    runtime = replace(make_runtime(device, precision), progress=progress)
    recipes = all_recipes()
    specs = parse_methods(methods if isinstance(methods, str) else ",".join(methods or METHODS), recipes)
    given = read_own_texts(texts, columns)
    development, test, training, held_out, notes = _test_of(given, pairs, pair_columns, kind)
    kept, in_test = given.without(test.texts, held_out)
    notes += [f"{in_test:,} texts that are in the test are left out of training."] if in_test else []
    corpus = kept.corpus()
    documents = f" in {len(kept.documents):,} documents" if kept.ordered else ""
    notes.insert(0, f"{given.name}: {len(corpus.sentences):,} texts{documents}")
    name, why = _encoder(encoder, development, device, precision)
    start = beginning(name, runtime)
    notes.append(f"starts from {name}{why}")
    stated: Any = "en" if name == DEFAULT_BACKBONE else base_card(name, None).get("language")
    languages = [stated] if isinstance(stated, str) else list(stated or ())
    notes += language_notes(corpus.sentences, test.texts, name, languages)
    pairs_corpus = None if training is None else training_pairs(training)
    parts = HomeData(development, test)
    start, poolings = best_pooled(start, parts, runtime)
    notes += [poolings] if poolings else []
    plans, left_out = _plans(specs, start, kept.ordered, pairs_corpus)
    notes += left_out
    temporary = TemporaryDirectory(prefix="zoo-bench-") if out is None else None
    home = LoadedTask(HOME, HomeTask(parts), parts)
    # A folder for each question: a row then has one budget, one text and one test, and a stopped call goes on.
    asked = sha256_json([parts.located.sha256, corpus.sha256(), start.settings, name, [seconds, updates], seeds,
                         [plan.typed for plan, _ in plans]])  # fmt: skip
    results = Path(temporary.name if temporary else out or "") / "results" / asked[:12]
    kinds = ("corpus", "neighbours", "target")
    options = RunOptions(methods="", results=results, device=device, precision=precision, controls=False, seeds=seeds)
    request = Request(options, command=("benchmark.adapt",))
    kept_texts = {kind: TrainingTexts(corpus) for kind in kinds} | {"pairs": TrainingTexts(pairs_corpus)}
    tasks = (home, *others)
    run = Run(request, runtime, (elsewhere,), tasks, home, kept_texts, ())
    plans = _budgeted(plans, start, run, seconds, updates, seeds)
    planner = Planner(runtime, tasks, home, kept_texts)
    run = replace(run, encoders=planner.encoders([row for row, _ in plans], range(seeds)))
    outcome = Runner(run).measure_all()
    records, failed = _records(run, outcome)
    changes = _changes([*records], elsewhere, results)
    frame = frame_of(records, test, changes)
    adaptation = Adaptation(frame, development, test, name, notes, failed, None, _vectors(run), temporary)
    if out is None or not adaptation.advice:
        return adaptation
    return _written(adaptation, records, Path(out) / "model", results, given.name)


def _test_of(
    given: OwnTexts, pairs: Any, columns: str | None, kind: Kind | None
) -> tuple[Texts, Texts, Texts | None, frozenset[int], list[str]]:
    if pairs is None:
        signal = document_items(given.documents) if given.ordered else document_items([])
        note = f"{signal.test.report}. How well it predicts labelled tests: docs/how-to/own-domain.md"
        return signal.development, signal.test, None, signal.held_out, [note]
    try:
        data = arranged(pairs if isinstance(pairs, Texts) else read_texts(pairs, columns, kind))
    except Question as question:
        raise question.of("--pair-columns", "--kind") from None
    training = None
    if data.units >= _FOR_TRAINING:
        development, test, training = divided(data, _PARTS)
    else:
        development, test = divided(data, {name: share for name, share in _PARTS.items() if name != "training"})
    sizes = [f"{part.units:,} {part.report}" for part in (development, test, training) if part is not None]
    return development, test, training, frozenset(), [f"{data.report}; {', '.join(sizes)}"]


def _encoder(given: object, development: Texts, device: str, precision: str) -> tuple[str, str]:
    if given is not None:
        return str(given), ""
    if not (finished := installed()):
        return DEFAULT_BACKBONE, ", because no finished encoder is in the hub's cache (another: --encoder)"
    choice = choose(development, finished, device=device, precision=precision, quiet=True)
    return str(choice.winner), ", on development the best finished encoder of the hub's cache"


Planned = list[tuple[Row, RecipeSpec]]


def _plans(
    specs: Sequence[RecipeSpec], start: Beginning, ordered: bool, pairs: Corpus | None
) -> tuple[Planned, list[str]]:
    plans, notes = [(_resolved(start.untrained, {}, NONE), start.untrained)], []
    for spec in specs:
        row = _resolved(spec, _settings(spec, start), spec.name)
        reason = ""
        if row.traits.needs_neighbours and not ordered:
            reason = "the texts are no documents"
        elif row.traits.needs_pairs and pairs is None:
            reason = f"it needs labels, {_FOR_TRAINING} or more"
        elif getattr(row.recipe, "supervised", False) and pairs is not None and not _has_triplets(pairs):
            reason = "no text has both an equal and an opposite one"
        elif start.fixed and not hasattr(row.recipe, "base"):
            reason = f"{start.name} cannot be trained: {start.fixed}"
        if reason:
            notes.append(f"without {spec.name}: {reason}")
        else:
            plans.append((row, spec))
    if len(plans) == 1:
        raise UsageError(f"no method can be tried: {'; '.join(notes)}. Name others: --methods.")
    return plans, notes


def _has_triplets(pairs: Corpus) -> bool:
    try:
        return bool(triplets(pairs))
    except ZooError:
        return False


def _settings(spec: RecipeSpec, start: Beginning, **more: Any) -> dict[str, Any]:
    row = resolve_methods([spec], {})[0]
    known = {field.name for field in fields(row.recipe)}
    given = {"backbone": start.name, **start.settings, **more}
    if start.base is not None and "base" in known:
        given = {"backbone": start.name, "base": start.base}
    return {
        key: value
        for key, value in given.items()
        if key in known and key not in (spec.overrides if key in more else spec.parameters)
    }


def _resolved(spec: RecipeSpec, settings: dict[str, Any], name: str) -> Row:
    typed = ":".join([spec.name, *(f"{key}={value}" for key, value in settings.items())])
    row = resolve_methods([spec.changed(typed, settings)], {})[0]
    return replace(row, name=name, typed=typed)


def _budgeted(plans: Planned, start: Beginning, run: Run, seconds: float, updates: int | None, seeds: int) -> Planned:
    trained = [spec for row, spec in plans if "steps" in {field.name for field in fields(row.recipe)}]
    path = run.options.results / "budget.json"
    try:
        steps: dict[str, int] = read_signed(path)["updates"]
    except MissingError:
        each = _SHARE * seconds / max(len(trained) * seeds, 1)
        steps = {spec.name: updates or _affordable(spec, start, run, each) for spec in trained}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_signed(path, {"updates": steps})
    result: Planned = []
    for row, spec in plans:
        if spec.name in steps:
            more = {"steps": steps[spec.name], "looks": min(_LOOKS, steps[spec.name])}
            row = _resolved(spec, _settings(spec, start, **more), spec.name)
        result.append((row, spec))
    return result


def _affordable(spec: RecipeSpec, start: Beginning, run: Run, seconds: float) -> int:
    row = _resolved(spec, _settings(spec, start, steps=_PROBE), spec.name)
    text = run.texts["pairs" if row.traits.needs_pairs else "corpus"].corpus
    runtime = replace(run.runtime, progress=Progress.silent())
    try:
        report = row.cls(row.recipe, runtime).fit(text, run=TrainingRun())
    except Exception:
        # Any method's code may fail here: the run meets it again, and records the reason.
        return _LEAST
    return max(math.floor(seconds * _PROBE / max(report.seconds, 1e-3)), _LEAST)


def _records(run: Run, outcome: Outcome) -> tuple[dict[str, list[Record]], dict[str, str]]:
    store, records = Records(run.options.results), dict[str, list[Record]]()
    failed = {what.removesuffix(f" on {HOME}"): reason for what, reason in (*outcome.failed, *outcome.missing)
              if what.endswith(f" on {HOME}")}  # fmt: skip
    for plan in run.encoders:
        record = store.finished(plan.row.name, HOME, plan.cells[0].key)
        if record is not None:
            records.setdefault(plan.row.name, []).append(record)
    wanted = {plan.row.name: sum(other.row.name == plan.row.name for other in run.encoders) for plan in run.encoders}
    records = {name: rows for name, rows in records.items() if len(rows) == wanted[name] and name not in failed}
    if NONE not in records:
        raise ZooError(f"the encoder itself could not be measured: {failed.get(NONE, 'see above')}")
    return records, failed


def _changes(names: Sequence[str], elsewhere: str, results: Path) -> dict[str, dict[str, float]]:
    changes = {}
    for name in names:
        if name == NONE:
            continue
        try:
            compared = compare_rows(results, name, NONE, suites=elsewhere).comparisons[0]
        except ZooError:
            # One of its cells failed, as the run has said.
            continue
        line = compared.average or compared.lines[0]
        ends = [math.nan if end is None else end for end in (line.difference, line.low, line.high)]
        changes[name] = dict(zip(("change", "change_low", "change_high"), ends, strict=True))
    return changes


def _vectors(run: Run) -> Any:
    def vectors(name: str, seed: int, texts: Sequence[str]) -> Any:
        plan = next(plan for plan in run.encoders if plan.row.name == name and plan.seed in (None, seed))
        folder = Records(run.options.results).encoder_folder(plan.row.name, plan.key)
        return Fitter(run).obtain(plan, folder).encode(list(texts))

    return vectors


def _written(
    adaptation: Adaptation, records: dict[str, list[Record]], folder: Path, results: Path, texts: str
) -> Adaptation:
    best = max(records[adaptation.advice], key=lambda record: float(scores_of(record)["development"]))  # type: ignore[typeddict-item]
    about = f"Adapted from {adaptation.encoder} to {texts}. {adaptation.verdict}"
    try:
        export_encoder(adaptation.advice, folder, results, seed=best["seed"], about=about)
    except UsageError as error:
        return replace(adaptation, failed={**adaptation.failed, f"export of {adaptation.advice}": str(error)})
    return replace(adaptation, written=folder)
