"""The choice among encoders on a user's own texts."""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmark.checking.sizes import SEARCHES, variants
from benchmark.records.record import plain
from benchmark.report.terminal import folded
from choose.candidates import CARD, Candidate, Wording, candidates, encode, prepared, read_wordings, vectors_of
from choose.data import MEASURES, Kind, Texts, Values, arranged, read_texts
from choose.demands import CONTROL, Budget, Floor, bm25, device_name, query_times, read_floors
from choose.measures import measure, search
from choose.ranking import Ranking, noise_of, ranked, reached, verdict
from choose.shown import note, table_lines
from zoo import __version__
from zoo.encoder import Runtime
from zoo.errors import UsageError, ZooError, error_text
from zoo.formats.finished import Backend
from zoo.machine import forget_peak_memory, make_runtime, peak_memory_mb
from zoo.progress import Progress
from zoo.roles import Role, Roles

if TYPE_CHECKING:
    import pandas

# Texts encoded once before costs are measured.
_REHEARSED = 64
_ROLES: tuple[Role, ...] = ("query", "document")


@dataclass(frozen=True)
class Choice:
    """The ranked encoders, the best first; the winner; failures with reasons; and the verdict in words.

    `frame` has scores x100 with 95 % intervals (low, high), distances to the winner with intervals, `may_be_best`
    (familywise), further measures of the kind, and costs.
    """

    data: Texts
    ranking: Ranking
    device: str
    failed: dict[str, str]
    floors: list[Floor] = field(default_factory=list)

    @property
    def frame(self) -> pandas.DataFrame:
        """The rows, best first; those over the budget come last."""
        return self.ranking.frame

    @property
    def winner(self) -> str | None:
        return self.ranking.winner

    @property
    def verdict(self) -> str:
        return " ".join([verdict(self.data, self.ranking, self.floors, [*self.failed]), *self.data.notes])

    @property
    def met(self) -> bool:
        """True for a winner with each floor, better than the baseline beyond noise."""
        demands = [reached(self.ranking, floor) for floor in self.floors]
        return self.winner is not None and all(demands) and self.ranking.beaten is not False

    @property
    def noise(self) -> str:
        """Which noise the intervals and marks contain."""
        return noise_of(self.data, self.ranking)

    def as_dict(self) -> dict[str, Any]:
        floors = [
            {"metric": floor.metric, "floor": floor.least, "met": reached(self.ranking, floor)} for floor in self.floors
        ]
        return {
            "version": __version__,
            "device": self.device,
            "table": self.data.report,
            "kind": self.data.kind,
            "measure": MEASURES[self.data.kind],
            "units": self.data.units,
            "winner": self.winner,
            "tied": self.ranking.tied,
            "baseline": self.ranking.baseline,
            "baseline_beaten": self.ranking.beaten,
            "floors": floors,
            "met": self.met,
            "rows": plain(self.frame.reset_index().to_dict("records")),
            "failed": self.failed,
            "verdict": self.verdict,
            "noise": self.noise,
        }

    def shown(self, width: int | None = None, *, wide: bool = False) -> str:
        notes = [f"{name}: {text}" for name, row in self.frame.iterrows() if (text := note(row, len(self.data.texts)))]
        notes += filter(None, dict.fromkeys(self.frame["search"]))
        failed = [f"{name} failed: {reason}" for name, reason in self.failed.items()]
        about = [self.data.report, f"{self.device}; ms: one query at a time, the median"]
        texts = [*notes, self.verdict, *failed]
        table = table_lines(self.data, self.frame, None if wide else width)
        return "\n".join([*folded(about, width), "", *table, "", *folded("\n".join(texts).splitlines(), width)])

    def __str__(self) -> str:
        return self.shown()


def choose(
    table: object,
    encoders: object = None,
    *,
    columns: str | None = None,
    kind: Kind | None = None,
    dims: Sequence[int] = (),
    formats: Sequence[str] = ("float32",),
    prompts: Sequence[str | Path] = (),
    corpus: str | None = None,
    backend: Backend = "torch",
    max_mb: float | None = None,
    max_ms: float | None = None,
    at_precision: float | None = None,
    floors: Sequence[str] = (),
    baseline: str | None = None,
    device: str = "auto",
    precision: str = "auto",
    quiet: bool = False,
) -> Choice:
    """Rank encoders on a table of your own: the best, its lead, and its equals within noise.

    In retrieval BM25 takes part as a control.

    Args:
        table: A file (csv, tsv, jsonl, parquet, Excel), a folder of BEIR or of `Dataset.save_to_disk`, a DataFrame or a
            Dataset. A row has two texts and a score or label, a query and a document (and a grade), or a text and a
            label.
        encoders: Encoders as for `evaluate`; by default those in the hub's cache and a few without training.
        columns: Names of the columns, comma-separated: the texts in order, then a score or label.
        kind: The kind of table: score, binary, retrieval or label.
        dims: Widths of cut vectors, beside the full width.
        formats: The formats of vectors: float32, int8, binary.
        prompts: Roles to compare: none, card (default), or files of wordings.
        corpus: The training text of recipes: a file, or "own" for the table's texts; by default the bundled text.
        backend: The backend of finished encoders: torch, or onnx (onnxruntime, on an ONNX file of the folder).
        max_mb: The most megabytes of weights for the winner.
        max_ms: The most milliseconds of a query (95th percentile) for the winner.
        at_precision: A precision from 0 to 1; its lowest threshold is returned.
        floors: METRIC=VALUE texts, least values of the winner for `met`.
        baseline: The encoder to beat beyond noise for `met`.
        device: A device of torch, or auto.
        precision: fp32, bf16, fp16, or auto.
        quiet: Print no progress to standard error.

    Returns:
        The ranking with scores x100 and 95% intervals, the costs, and the verdict in words.

    Raises:
        UsageError: The table has other columns, or an option does not suit its kind.
        CorruptError: The table cannot be read.
        ZooError: Every encoder fails.
    """
    data = arranged(table if isinstance(table, Texts) else read_texts(table, columns, kind))
    wordings = read_wordings(prompts)
    demanded, budget = read_floors(floors, data.kind), Budget(max_mb, max_ms)
    if at_precision is not None and data.kind not in ("binary", "retrieval"):
        raise UsageError("--at-precision needs pairs with two labels, or queries with documents.")
    runtime = replace(make_runtime(device, precision), progress=Progress.silent() if quiet else Progress())
    rows: list[dict[str, Any]] = []
    values: list[Values] = []
    failed: dict[str, str] = {}

    def take(row: dict[str, Any], of_units: Values) -> None:
        rows.append({**row, "over_budget": budget.exceeded(row)})
        values.append(of_units)

    for name, given in candidates(encoders, baseline):
        runtime.progress.say(f"{name} ...")
        try:
            load = functools.partial(prepared, name, given, runtime, data.texts, corpus, backend)
            candidate, loaded = _loaded(load, data, runtime)
            measured = [*_measured(candidate, data, wordings, runtime, dims, formats, at_precision, loaded)]
        except Exception as error:
            # Any encoder's code may fail: the others are ranked without it.
            failed[name] = str(error) if isinstance(error, ZooError) else error_text(error)
        else:
            for suffix, row, of_units in measured:
                take({"name": name + suffix, "encoder": name, **row}, of_units)
    if not rows or (baseline in failed):
        reasons = "; ".join(f"{name}: {why}" for name, why in failed.items())
        raise ZooError(f"{'the baseline could not' if rows else 'no encoder could'} be measured: {reasons}")
    if data.kind == "retrieval":
        runtime.progress.say(f"{CONTROL} ...")
        row, of_units = _control(data, at_precision)
        if of_units.any():
            take({"name": CONTROL, "encoder": CONTROL, **row}, of_units)
        else:
            failed[CONTROL] = "no query shares a word with its document, so that words cannot be a control."
    return Choice(data, ranked(data, values, rows, baseline), device_name(runtime), failed, demanded)


def _loaded(load: Callable[[], Candidate], data: Texts, runtime: Runtime) -> tuple[Candidate, dict[str, float | None]]:
    """Return a candidate and the costs of loading it; without those of libraries, which a process imports once.

    A load with imports is repeated after a few texts, and the second one counts; a recipe is trained only once.
    """
    modules = len(sys.modules)
    candidate, cost = _timed(load, runtime)
    if candidate.trained_on:
        return candidate, cost
    encode(candidate.encoder, data.texts[:_REHEARSED], CARD, "query" if data.queries else None)
    if len(sys.modules) == modules:
        return candidate, cost
    del candidate
    gc.collect()
    return _timed(load, runtime)


def _timed(load: Callable[[], Candidate], runtime: Runtime) -> tuple[Candidate, dict[str, float | None]]:
    used, started = forget_peak_memory(runtime.device), time.perf_counter()
    candidate = load()
    return candidate, {"load_seconds": time.perf_counter() - started, "memory_before": used}


def _measured(
    candidate: Candidate,
    data: Texts,
    wordings: Sequence[Wording],
    runtime: Runtime,
    dims: Sequence[int],
    formats: Sequence[str],
    at_precision: float | None,
    loaded: dict[str, Any],
) -> Iterator[tuple[str, dict[str, Any], Values]]:
    encoder, asked = candidate.encoder, data.texts[: data.queries or None]
    role: Role | None = "query" if data.queries else None
    several = candidate.takes_prompts and len(wordings) + (wordings[0].name != "card") > 1
    for wording in wordings if candidate.takes_prompts else [read_wordings(())[0]]:
        alone = functools.partial(encode, encoder, wording=wording, role=role)
        cost: dict[str, Any] = {**query_times(alone, asked)}
        before, started = encoder.encoding_stats().get("truncated"), time.perf_counter()
        vectors = vectors_of(encoder, data, wording)
        cost["texts_per_second"] = len(data.texts) / max(time.perf_counter() - started, 1e-9)
        cost["texts_cut"] = None if before is None else encoder.encoding_stats()["truncated"] - before
        cost["weights_mb"] = candidate.weights_mb
        peak, used = peak_memory_mb(runtime.device), loaded["memory_before"]
        cost["memory_mb"] = np.nan if peak is None or used is None else max(peak - used, 0.0)
        cost["load_seconds"] = loaded["load_seconds"]
        roles = wording.roles(encoder.roles)
        about = {"roles": _in_words(roles, wording, data), "finished": candidate.finished,
                 "trained_on": candidate.trained_on, "one_training": candidate.one_training,
                 "too_wide": _too_wide(dims, vectors.shape[1]), **cost}  # fmt: skip
        for width, form, size, cut in variants(vectors, dims, formats):
            of_units, more = measure(data, cut, roles.similarity, at_precision)
            searched = SEARCHES[form].format(roles.similarity)
            suffix = f" [prompts: {wording.name}]" if several else ""
            suffix += (f" dims={width}" if dims else "") + ("" if form == "float32" else f" {form}")
            yield suffix, {**more, **about, "dims": width, "bytes": size, "search": searched}, of_units


def _in_words(roles: Roles, wording: Wording, data: Texts) -> str:
    silent = roles.silent(*_ROLES if data.queries else (None,))
    roles = replace(roles, prompts={name: text for name, text in roles.prompts.items() if name not in silent})
    use = f"no text has its prompts {', '.join(silent)}; one is used by --prompts FILE (NAME: {{query: TEXT}})"
    return "; ".join(filter(None, (str(roles), use if silent and not wording.prompts else "")))


def _too_wide(dims: Sequence[int], width: int) -> str:
    wider = [f"{asked}" for asked in dims if asked > width]
    return f"--dims {','.join(wider)}: its vectors have {width} dimensions" if wider else ""


def _control(data: Texts, at_precision: float | None) -> tuple[dict[str, Any], Values]:
    started = time.perf_counter()
    scores = bm25(data.texts[data.queries :])
    loaded = time.perf_counter() - started
    of_units, more = search(data, lambda some: scores([data.texts[place] for place in some]), at_precision)
    cost: dict[str, Any] = {**query_times(scores, data.texts[: data.queries]), "load_seconds": loaded}
    cost |= dict.fromkeys(("texts_per_second", "memory_mb", "dims", "bytes"), np.nan)
    return {
        **more,
        **cost,
        "weights_mb": 0.0,
        "roles": "",
        "search": "",
        "finished": False,
        "trained_on": "",
        "too_wide": "",
        "texts_cut": 0,
    }, of_units
