"""Executes a plan: obtains each encoder once, measures its cells, writes a record each; survives anything."""

from __future__ import annotations

import dataclasses
import math
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.data.corpora import normalised
from benchmark.records.store import PROTOCOL_VERSION, SCHEMA_VERSION, Record, Records, plain
from benchmark.run.cache import EmbeddingCache, Entry
from benchmark.run.plan import Cell, EncoderPlan, LoadedTask, Plan
from benchmark.run.vectors import VectorStore, facts_of
from benchmark.tasks.base import PairScores, TaskData
from zoo import __version__
from zoo.conformance import probe
from zoo.encoder import Encoder, FitReport, Run, Runtime
from zoo.errors import CorruptError, Interrupted, MissingError, ZooError
from zoo.files import read_json, sha256_file, slug, write_json
from zoo.hardware import environment, forget_peak_memory, peak_memory_mb, utc_now
from zoo.recipe import portable_recipe
from zoo.saved import save


@dataclass
class Outcome:
    """What a run did, cell by cell."""

    measured: int = 0
    kept: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)  # (what, reason)
    missing: list[tuple[str, str]] = field(default_factory=list)


class Stop:
    """Turns the first SIGINT or SIGTERM into a wish that training and the runner ask about; the second one kills."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self) -> int | None:
        return self.number

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Handle the signals inside the block."""

        def handle(number: int, _: Any) -> None:
            self.number = number
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

        before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """Raise Interrupted when a signal came."""
        if self.number is not None:
            raise Interrupted(f"stopped by signal {self.number}; the same command goes on from here.", self.number)


def tensorboard_log(folder: Path) -> Callable[[int, Mapping[str, float]], None]:
    """Return what writes a training's values to TensorBoard's event files; raises MissingError without the extra."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingError("--tensorboard needs the extra: pip install 'zoo-bench[tensorboard]'.") from error
    writer = SummaryWriter(str(folder))

    def log(step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(f"training/{name}", value, step)
        writer.flush()

    return log


@dataclass
class Runner:
    """Runs plans into one results folder."""

    out: Path
    runtime: Runtime
    dev: LoadedTask | None = None
    limit: int | None = None
    fail_fast: bool = False
    command: Sequence[str] = ()
    run_options: dict[str, Any] = field(default_factory=dict)  # checkpoint_steps, checkpoint_seconds
    tensorboard: Path | None = None  # folder for TensorBoard's event files; None: none are written
    cache: EmbeddingCache | None = None  # None: every text is encoded

    def __post_init__(self) -> None:
        self.records = Records(self.out)
        self.outcome = Outcome()
        self._corpus_texts: tuple[Any, list[str]] = (None, [])  # normalised, of the corpus last asked for

    def run(self, plan: Plan) -> Outcome:
        """Execute every cell that is not finished; failures are recorded and the others go on.

        Raises Interrupted after a signal, once everything is saved.
        """
        self.environment = environment(self.runtime.device)
        self.plan = plan
        say = self.runtime.progress.say
        with Stop().listening() as stop:
            for number, encoder_plan in enumerate(plan.encoders, 1):
                stop.check()
                pending = [c for c in encoder_plan.cells if not self._finished(encoder_plan, c)]
                self.outcome.kept += len(encoder_plan.cells) - len(pending)
                seed = "" if encoder_plan.seed is None else f", seed {encoder_plan.seed}"
                head = f"[{number}/{len(plan.encoders)}] {encoder_plan.name}{seed}"
                if not pending:
                    say(f"{head}: already measured")
                    continue
                say(f"{head}: {len(pending)} task{'s' if len(pending) > 1 else ''}")
                self._run_encoder(encoder_plan, pending, stop)
                if self.fail_fast and self.outcome.failed:
                    break
        return self.outcome

    def _finished(self, encoder_plan: EncoderPlan, cell: Cell) -> bool:
        return self.records.finished(encoder_plan.name, cell.task.name, cell.key) is not None

    def _run_encoder(self, encoder_plan: EncoderPlan, pending: list[Cell], stop: Stop) -> None:
        from filelock import FileLock, Timeout

        ready = [cell for cell in pending if cell.task.data is not None]
        for cell in pending:
            if encoder_plan.missing is not None:
                self._write(encoder_plan, cell, status="n/a", reason=encoder_plan.missing)
            elif cell.task.data is None:
                status = "failed" if cell.task.damaged else "n/a"
                self._write(encoder_plan, cell, status=status, reason=cell.task.reason)
        if not ready or encoder_plan.missing is not None:
            return
        folder = self.records.encoder_folder(encoder_plan.name, encoder_plan.key)
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_name(folder.name + ".lock"))
        waited = False
        while not lock.is_locked:
            try:
                lock.acquire(timeout=0.5)
            except Timeout:
                stop.check()
                if not waited:
                    self.runtime.progress.say(f"{encoder_plan.name}: another process works on it; waiting")
                waited = True
        try:
            left = [cell for cell in ready if not self._finished(encoder_plan, cell)]
            self.outcome.kept += len(ready) - len(left)
            if left:
                self._measure(encoder_plan, left, folder, stop)
        finally:
            lock.release()
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()  # nothing was learned, so nothing is kept

    def _measure(self, encoder_plan: EncoderPlan, cells: list[Cell], folder: Path, stop: Stop) -> None:
        forget_peak_memory(self.runtime.device)  # that of the encoders before
        transductive = encoder_plan.traits.transductive  # fitted on each task's texts: never from the cache
        made: list[tuple[Encoder, dict[str, Any]]] = []  # the encoder once it was needed, and what it had encoded then

        def obtain() -> Encoder:
            if not made:
                encoder = self._obtain(encoder_plan, folder, stop)
                probe(encoder, encoder_plan.name)
                made.append((encoder, encoder.encoding_stats()))
            return made[0][0]

        def entry() -> Entry | None:
            if self.cache is None or transductive:
                return None
            return self.cache.entry(encoder_plan.key, (_read_fit(folder) or {}).get("files"), self.runtime.device)

        store = VectorStore(obtain, encoder_plan.name, entry)
        try:
            if transductive:
                obtain()
            else:
                store.add([text for cell in cells if cell.task.data for text in cell.task.data.texts()])
            if store.cached:
                self.runtime.progress.say(f"{encoder_plan.name}: {store.cached:,} texts from the embedding cache")
        except Interrupted:
            raise
        except Exception as error:  # one method's failure is recorded; the others go on
            for cell in cells:
                self._fail(encoder_plan, cell, error)
            return
        if transductive:  # tasks on the same texts one after the other, for what is fitted on them serves all
            cells = sorted(cells, key=lambda cell: (cell.task.task.dataset, cell.task.task.form))
        fitted_on: list[str] | None = None
        lookup = store
        for cell in cells:
            stop.check()
            started = time.perf_counter()
            data = cell.task.data
            assert data is not None
            try:
                if transductive and (texts := data.unlabelled()) != fitted_on:
                    fitted_on, lookup = None, store  # lets go of the one before
                    lookup = VectorStore(obtain().adapt(texts), encoder_plan.name)
                    fitted_on = texts
                data.device = self.runtime.device
                coverage = lookup.coverage(data.texts())
                # A task that trains the encoder resumes from this folder.
                own = folder / f"{slug(cell.task.name)}-{cell.key[:16]}"
                run = Run(own, encoder_plan.seed or 0, stop_signal=stop, **self.run_options)
                if type(data).score_encoder is TaskData.score_encoder:  # vectors are enough
                    scores = data.score(lookup)
                else:
                    scores = data.score_encoder(lookup.encoder, lookup, run)
                finite = scores["main"] is not None and math.isfinite(scores["main"])
                kept = scores.pop("pairs", None)
                pairs = kept if finite else None
                shutil.rmtree(own, ignore_errors=True)
            except Interrupted:
                raise
            except MissingError as error:  # the task does not fit the encoder
                self._write(encoder_plan, cell, status="n/a", reason=str(error))
                continue
            except Exception as error:  # one cell's failure is recorded; the others go on
                self._fail(encoder_plan, cell, error)
                continue
            training = (_read_fit(folder) or {}).get("training")
            self._write(
                encoder_plan,
                cell,
                pairs=pairs,
                status="ok" if finite else "failed",
                reason=None if finite else scores["reason"] or f"the score is {scores['main']}",
                scores=scores,
                coverage=coverage,
                training=self._with_overlap(training, encoder_plan, cell),
                encoding=self._encoding(made, store.cached),
                facts=facts_of(lookup.encoder) if made or store.cached_facts is None else store.cached_facts,
                seconds=time.perf_counter() - started,
            )

    def _obtain(self, encoder_plan: EncoderPlan, folder: Path, stop: Stop) -> Encoder:
        saved = self._load_saved(encoder_plan, folder)
        if saved is not None:
            return saved
        encoder = encoder_plan.cls(encoder_plan.recipe, self.runtime)
        run = Run(folder / "training", encoder_plan.seed or 0, stop_signal=stop, **self.run_options)
        if self.tensorboard is not None:
            run.log_values = tensorboard_log(self.tensorboard / folder.name)
        dev_score = self._dev_score(encoder_plan) if encoder_plan.traits.picks_checkpoint else None
        report = encoder.fit(encoder_plan.corpus, dev_score=dev_score, run=run)
        if not report.fitted:
            return encoder
        training = self._training_record(report, encoder_plan, dev_score is not None)
        save(encoder, folder / "encoder")
        place = folder / "encoder"  # with sub-folders: a transform's base has one
        hashes = {p.relative_to(place).as_posix(): sha256_file(p) for p in sorted(place.rglob("*")) if p.is_file()}
        write_json(folder / "fit.json", {"files": hashes, "training": training})
        for path in (folder / "training").rglob("*.safetensors"):
            path.unlink()  # the checkpoints served; the log stays
        return encoder

    def _load_saved(self, encoder_plan: EncoderPlan, folder: Path) -> Encoder | None:
        if not (folder / "fit.json").is_file():
            return None
        try:
            saved = _fit_of(read_json(folder / "fit.json"))
            for name, expected in saved["files"].items():
                path = folder / "encoder" / name
                if not path.is_file() or sha256_file(path) != expected:
                    raise CorruptError(f"{path} is damaged (sha256 differs)")
            return encoder_plan.cls.load(folder / "encoder", self.runtime)
        except (CorruptError, KeyError, TypeError, AttributeError) as error:
            self.runtime.progress.say(f"warning: {encoder_plan.name}: {error}; discarded and trained again.")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            return None

    def _dev_score(self, encoder_plan: EncoderPlan) -> Any:
        if self.dev is None or self.dev.data is None:
            return None
        data = self.dev.data
        quiet = dataclasses.replace(self.runtime, progress=type(self.runtime.progress).silent())

        def score(encoder: Encoder) -> dict[str, float]:
            loud, encoder.runtime = encoder.runtime, quiet
            try:
                store = VectorStore(encoder, encoder_plan.name)
                return {"score": data.score_dev(store), **data.geometry_dev(store)}
            finally:
                encoder.runtime = loud

        return score

    def _encoding(self, made: list[tuple[Encoder, dict[str, Any]]], cached: int) -> dict[str, Any]:
        """Return what the measuring itself encoded: without the probe and the dev scores of training.

        `cached` texts were not encoded but came from the embedding cache, which does not know how many were truncated.
        """
        result: dict[str, Any] = {"texts": 0, "tokens": 0, "truncated": 0, "seconds": 0.0}
        if made:
            encoder, before = made[0]
            result = encoder.encoding_stats()
            for name in ("texts", "tokens", "truncated", "seconds"):
                if name in result:
                    result[name] = round(result[name] - before[name], 3)
        if "seconds" in result:
            for name in ("texts", "tokens"):
                rate = round(result[name] / result["seconds"], 1) if result["seconds"] else None
                result[f"{name}_per_second"] = rate
        if cached:
            result |= {"cached": cached, "truncated": None}
        return {**result, "peak_memory_mb": peak_memory_mb(self.runtime.device)}

    def _training_record(self, report: FitReport, encoder_plan: EncoderPlan, used_dev: bool) -> dict[str, Any]:
        result: dict[str, Any] = plain(dataclasses.asdict(report))
        result["corpus"] = encoder_plan.corpus_identity
        result["dev_task"] = self.dev.name if self.dev is not None and used_dev else None
        return result

    def _with_overlap(
        self, training: dict[str, Any] | None, encoder_plan: EncoderPlan, cell: Cell
    ) -> dict[str, Any] | None:
        corpus = encoder_plan.corpus
        if training is None or corpus is None or cell.task.data is None:
            return training
        if self._corpus_texts[0] is not corpus:
            self._corpus_texts = corpus, [normalised(sentence) for sentence in corpus.sentences]
        tested = {normalised(text) for text in cell.task.data.texts()} - {""}
        return {**training, "corpus_sentences_in_test": sum(text in tested for text in self._corpus_texts[1])}

    def _fail(self, encoder_plan: EncoderPlan, cell: Cell, error: Exception) -> None:
        known = isinstance(error, ZooError)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        details: dict[str, Any] = {} if known else {"traceback": "".join(traceback.format_exception(error))}
        self._write(encoder_plan, cell, status="failed", reason=reason, **details)

    def _write(
        self,
        encoder_plan: EncoderPlan,
        cell: Cell,
        *,
        status: str,
        reason: str | None,
        pairs: PairScores | None = None,
        **more: Any,
    ) -> None:
        data = cell.task.data
        record: Record = {
            "schema": SCHEMA_VERSION,
            "protocol": PROTOCOL_VERSION,
            "key": cell.key,
            "encoder_key": encoder_plan.key,
            "row_key": encoder_plan.row_key,
            "status": status,
            "reason": reason,
            "method": {
                "name": encoder_plan.name,
                "class": f"{encoder_plan.cls.__module__}.{encoder_plan.cls.__qualname__}",
                "recipe": portable_recipe(encoder_plan.recipe, encoder_plan.sources),
                "sources": encoder_plan.sources,
                "traits": dataclasses.asdict(encoder_plan.traits),
            },
            "task": {
                **cell.task.identity(),
                "source": None if data is None else data.located.source,
                "rows": None if data is None else data.rows,
            },
            "seed": encoder_plan.seed,
            "precision": self.runtime.precision,
            "limit": self.limit,
            "scores": None,
            "coverage": None,
            "training": None,
            "encoding": None,
            "facts": {},
            "environment": self.environment,
            "started": utc_now(),
            "seconds": 0.0,
            "version": __version__,
            "command": list(self.command),
        }
        record |= more
        what = f"{encoder_plan.name} on {cell.task.name}"
        if status == "ok":
            self.outcome.measured += 1
        else:
            (self.outcome.failed if status == "failed" else self.outcome.missing).append((what, reason or "?"))
            print_to = self.runtime.progress.say
            print_to(f"{what}: {status}: {reason}")
        self.records.write(record, pairs)


def _fit_of(saved: Any) -> dict[str, Any]:
    """Return what fit.json holds; raises CorruptError unless it is what `_obtain` wrote."""
    if not isinstance(saved, dict) or not isinstance(saved.get("files"), dict) or "training" not in saved:
        raise CorruptError("fit.json does not say what was fitted")
    return saved


def _read_fit(folder: Path) -> dict[str, Any] | None:
    """Return what the encoder in the folder was fitted to, or None without one; a damaged one is found by loading."""
    try:
        return _fit_of(read_json(folder / "fit.json"))
    except (MissingError, CorruptError):
        return None


def exit_code(outcome: Outcome, *, allow_missing: bool) -> int:
    """Return 0 when every requested cell has a score (or is merely missing, where that is allowed), else 1."""
    return 1 if outcome.failed or (outcome.missing and not allow_missing) else 0


def quote_command(arguments: Sequence[str]) -> list[str]:
    """Return the command line as it was typed, with the program's plain name."""
    return ["zoo-bench", *arguments] if arguments else ["zoo-bench", *sys.argv[1:]]
