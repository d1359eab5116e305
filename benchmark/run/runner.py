"""Executes a plan, one encoder after the other, each under a lock, and writes one record per cell."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from benchmark.identity import SAME, SKETCHED, cell_key, libraries, sketch, sketch_difference, without_times
from benchmark.records.folder import Records
from benchmark.records.record import Environment, Record, plain, scores_of
from benchmark.records.remote import remote_of
from benchmark.run.cache import EmbeddingCache
from benchmark.run.estimate import Remaining
from benchmark.run.executors.claims import Claims
from benchmark.run.fit import Fitter
from benchmark.run.marks import begun, mark_of, marked
from benchmark.run.measure import EncoderMeasurement, Measured, Overlap, not_measured, record_of
from benchmark.run.options import NamedRunFile
from benchmark.run.plan import Cell, EncoderPlan, Plan
from benchmark.run.stop import Stop, contained
from benchmark.run.tracking import Trackers
from benchmark.run.vectors import VectorStore
from benchmark.tasks.loaded import LoadedTask
from zoo.encoder import Runtime, Traits
from zoo.errors import CorruptError, Interrupted, said
from zoo.hardware import environment
from zoo.paths import address_of

_NAMED = 5  # kept cells that a notice names


@dataclass(frozen=True)
class _UnwritableRecipe:
    """Replaces a recipe that cannot be written to a record."""


@dataclass
class Outcome:
    """Counts the cells that a run measured or kept, and lists those that failed or are n/a."""

    measured: int = 0
    kept: int = 0
    same_vectors: int = 0  # kept cells of other code or libraries, whose vectors are the same
    unchecked: int = 0  # kept cells of other code or libraries, whose vectors cannot be compared
    unknown_scorer: int = 0  # kept cells whose records do not state a scorer
    differing: list[tuple[str, str]] = field(default_factory=list)  # (what, reason): kept cells of other vectors
    other_scorer: list[tuple[str, str]] = field(default_factory=list)  # (what, reason): kept cells of another scorer
    failed: list[tuple[str, str]] = field(default_factory=list)  # (what, reason)
    missing: list[tuple[str, str]] = field(default_factory=list)
    set_aside: list[tuple[Path, str]] = field(default_factory=list)  # damaged records, with the reason

    def add(self, other: Outcome) -> None:
        """Add the cells of a further run."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def as_values(self) -> dict[str, object]:
        """Return everything as plain values, which `Outcome(**values)` reads again."""
        return {**asdict(self), "set_aside": [(str(path), reason) for path, reason in self.set_aside]}

    def notices(self) -> list[str]:
        """Return sentences on the kept cells that something else made than what is installed now."""
        told = [f"{what}: {why}; --remeasure measures it again" for what, why in self.differing]
        if self.same_vectors:
            told.append(
                f"{self.same_vectors} kept cells were made by other code or libraries: {SKETCHED} texts of each were"
                " encoded again, and have the same vectors"
            )
        if self.unchecked:
            told.append(
                f"{self.unchecked} kept cells were made by other code or libraries, and nothing is kept to compare"
                " their vectors with; --remeasure measures them again"
            )
        if self.other_scorer:
            named = ", ".join(what for what, _ in self.other_scorer[:_NAMED])
            more = len(self.other_scorer) - _NAMED
            told.append(
                f"{len(self.other_scorer)} kept cells were scored by other code of task, metric or probe, and are not"
                f" ranked with new ones: {named}{f' and {more} more' if more > 0 else ''};"
                " --remeasure scores them again, from the embedding cache where it has their vectors"
            )
        if self.unknown_scorer:
            told.append(
                f"{self.unknown_scorer} kept cells are of an unknown scorer: their records are older than the digest of"
                " its code; they are ranked as before"
            )
        return told


@dataclass
class Runner:
    """Runs plans into one results folder."""

    out: Path
    runtime: Runtime
    dev: LoadedTask | None = None
    limit: int | None = None
    fail_fast: bool = False
    remeasure: bool = False  # measure again the cells of other code, libraries or scorers
    command: Sequence[str] = ()
    run_options: dict[str, Any] = field(default_factory=dict)  # checkpoint_steps, checkpoint_seconds
    trackers: Trackers | None = None  # trackers to which trainings report, beside their logs
    run_file: NamedRunFile | None = None
    cache: EmbeddingCache | None = None  # None: every text is encoded
    claims: Claims | None = None  # None: this process takes every encoder
    compared: bool = False  # whether another process has called `set_aside_changed` for all plans
    number: tuple[int, int] | None = None  # for a part of a run: the first encoder's number, and the whole run's total

    def __post_init__(self) -> None:
        self.records = Records(self.out, set_aside=True)
        self.remote = remote_of(self.out) if address_of(self.out) else None  # its leases divide the encoders
        self.outcome = Outcome(set_aside=self.records.corrupt)
        self._overlap = Overlap()
        self._remaining = Remaining()
        self._mine: set[str] = set()  # encoders that this process has claimed
        self._held: set[str] = set()  # encoders on which another process was found at work
        self._changed: list[tuple[Cell, Record]] = []  # cells that `pending` kept, of other code or libraries
        self._before: dict[str, Record] = {}  # records that are measured again, by the key of their cell
        # By method and encoder: the task, its data and the key of each score that was there.
        self._there: dict[str, dict[str, list[tuple[str, str | None, str]]]] = {}

    def run(self, plan: Plan) -> Outcome:
        """Execute every unfinished cell; a failed cell is recorded, and the run continues.

        Raises Interrupted after a signal, once everything is saved.
        """
        self.environment = cast("Environment", environment(self.runtime.device))
        at_work = nullcontext() if self.remote is None else self.remote.at_work(self.runtime.progress.say)
        with Stop().listening() as stop, at_work:
            self.runtime = replace(self.runtime, stop_signal=stop)
            first, total = self.number or (1, len(plan.encoders))
            waiting = deque(enumerate(self._deadly_last(plan.encoders), first))
            if self.claims is None and self.runtime.progress.enabled and len(waiting) > 1:
                self._remaining = Remaining.of(plan.encoders, self.records, self.runtime)
            held = 0  # consecutive encoders on which other processes work
            while waiting:
                stop.check()
                number, encoder_plan = waiting.popleft()
                if not self._claimed(encoder_plan):
                    continue
                head = f"[{number}/{total}] {encoder_plan.title}"
                started = time.monotonic()
                # Wait for another process only if there is nothing else to do; otherwise take the next encoder first.
                with contained():
                    done = self._run_encoder(encoder_plan, head, stop, patience=0.5 if held >= len(waiting) else 0.0)
                if self.remote is not None:
                    self.remote.give_back(self._lease(encoder_plan), done)
                if done:
                    held = 0
                    self._remaining.done(encoder_plan.key, time.monotonic() - started)
                    if self.claims is not None:
                        self.claims.finish(encoder_plan.key, self.outcome.as_values())
                else:
                    held += 1
                    waiting.append((number, encoder_plan))
                if self.fail_fast and self.outcome.failed:
                    break
        return self.outcome

    def _claimed(self, plan: EncoderPlan) -> bool:
        """Return whether this process has claimed the encoder, now or earlier before it had to wait."""
        if self.claims is None or plan.key in self._mine:
            return True
        if self.claims.take(plan.key):
            self._mine.add(plan.key)
        return plan.key in self._mine

    def pending(self, plan: EncoderPlan, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells that have no score yet, and count the others as kept."""
        pending, self._changed = [], []
        if plan.anew:
            return list(cells)
        for cell in cells:
            record = self.records.finished(plan.name, cell.task.name, cell.key)
            if record is None:
                pending.append(cell)
                continue
            code = record.get("code", {})
            scorer = code.get("scorer")
            changed = code.get("digest") != plan.code or any(
                record["environment"]["packages"].get(name, version) != version for name, version in libraries().items()
            )
            other = scorer not in (None, cell.scorer)
            if self.remeasure and (changed or other):
                pending.append(cell)
                self._before[cell.key] = record
                continue
            self.outcome.kept += 1
            self.outcome.unchecked += changed
            self.outcome.unknown_scorer += scorer is None
            if other:
                self.outcome.other_scorer.append((f"{plan.label} on {cell.task.name}", str(scorer)[:8]))
            if changed:
                self._changed.append((cell, record))
            self._forget_damage(plan, cell)
        return pending

    def set_aside_changed(self, plan: EncoderPlan) -> None:
        """Rename the records of a plugin or object of this name that gave other vectors: a row is of one encoder."""
        if plan.vectors is None:
            return
        if plan.name not in self._there:
            there = self._there[plan.name] = defaultdict(list)
            for record in self.records.of_method(plan.name):
                if record["status"] == "ok":
                    task = record["task"]
                    there[record["encoder_key"]].append((task["name"], task["sha256"], record["key"]))
        mine = self._there[plan.name].pop(plan.key, [])
        keys = {(cell.task.name, cell.task.identity()["sha256"]): cell.key for cell in plan.cells}
        if all(keys.get((task, sha256)) in (None, key) for task, sha256, key in mine):
            return
        fit = self.records.encoder_folder(plan.name, plan.key) / "fit.json"
        for path in (*(self.records.path(plan.name, task, key) for task, _, key in mine), fit):
            with suppress(FileNotFoundError):
                path.replace(path.with_name(path.name + ".before"))
                if self.remote is not None:
                    self.remote.forget(path)
        self.runtime.progress.say(
            f"{plan.label}: its vectors have changed: {len(mine)} records of before were set aside (*.json.before)."
        )

    def _forget_damage(self, plan: EncoderPlan, cell: Cell) -> None:
        """Delete the record that says that this cell's data was damaged, now that it is not."""
        key = cell_key(plan.key, {**cell.task.identity(), "sha256": None})
        if key != cell.key:
            path = self.records.path(plan.name, cell.task.name, key)
            with suppress(OSError):
                path.unlink()
                if self.remote is not None:
                    self.remote.forget(path)

    def _compare_vectors(self, plan: EncoderPlan, fitter: Fitter) -> None:
        """Encode again 16 texts of each kept cell of other code or libraries, and count what is found."""
        cells = [(cell, r["sketch"]) for cell, r in self._changed if r.get("sketch") and cell.task.data is not None]
        if not cells or plan.traits.transductive:
            return
        try:
            encoder = fitter.at_hand(plan, self.records.encoder_folder(plan.name, plan.key))
            if encoder is None:
                return
            vectors = VectorStore(encoder, plan.label)
            for cell, before in cells:
                off = sketch_difference(sketch(vectors(cell.task.sample[:SKETCHED])), before)
                self.outcome.unchecked -= 1
                if off <= SAME[plan.traits.precision or self.runtime.precision]:
                    self.outcome.same_vectors += 1
                else:
                    why = f"its vectors differ by {off:.2g} (relative to their length) from those of the kept score"
                    self.outcome.differing.append((f"{plan.label} on {cell.task.name}", why))
        except Interrupted:
            raise
        except (Exception, SystemExit) as error:  # the cells are kept; that they could not be compared is said
            self.runtime.progress.say(f"{plan.label}: its vectors cannot be compared: {said(error)}")

    def _run_encoder(self, plan: EncoderPlan, head: str, stop: Stop, *, patience: float) -> bool:
        """Measure the pending cells of one encoder; returns False while another process works on it."""
        say = self.runtime.progress.say
        to_lease = self.remote is not None and (plan.anew or self.remeasure or not self._finished(plan))
        if to_lease and self.remote and not self.remote.take(self._lease(plan), last=patience > 0):
            if plan.key not in self._held:
                say(f"{head}: left to another run")
            self._held.add(plan.key)
            return False
        if plan.key in self._held and not self._unlocked(plan, patience):
            return False
        if not self.compared:
            self.set_aside_changed(plan)
        pending = self.pending(plan, plan.cells)
        fitter = Fitter(self.runtime, self.dev, stop, self.run_options, self.trackers)
        self._compare_vectors(plan, fitter)
        if not pending:
            say(f"{head}: already measured")
            return True
        ready = []
        for cell in pending:
            reason = not_measured(plan, cell)
            if reason is None:
                ready.append(cell)
            else:
                self._keep(plan, reason)
        if not ready:
            return True
        folder = self.records.encoder_folder(plan.name, plan.key)
        with self._lock(folder, patience) as mine:
            if not mine:
                self.outcome.kept -= len(plan.cells) - len(pending)  # counted again when the encoder is tried again
                if plan.key not in self._held:
                    say(f"{head}: another process works on it")
                self._held.add(plan.key)
                return False
            say(f"{head}: {len(ready)} task{'s' if len(ready) > 1 else ''}{self._remaining.text()}")
            left = self.pending(plan, ready)
            if left:
                measurement = EncoderMeasurement(plan, folder, fitter, self.cache, stop, self._overlap)
                with marked(mark_of(folder), plan.title):
                    for measured in measurement.measure(left):
                        self._keep(plan, measured)
        return True

    def _deadly_last(self, plans: Sequence[EncoderPlan]) -> list[EncoderPlan]:
        """Move encoders on which a process died to the end, with a warning: they may kill this process as well."""
        deadly = set()
        for plan in plans:
            folder = self.records.encoder_folder(plan.name, plan.key)
            if not mark_of(folder).is_file():
                continue
            with self._lock(folder, 0.0) as mine:
                # A mark counts only if its lock is free: otherwise it belongs to a process at work.
                if not mine or not mark_of(folder).is_file():
                    continue
                if self._finished(plan):
                    mark_of(folder).unlink(missing_ok=True)
                    continue
                deadly.add(plan.key)
                if self.claims is None or self.claims.take(f"death-{plan.key}"):
                    self.runtime.progress.say(
                        f"warning: the process died while it worked on {plan.title}{begun(mark_of(folder))}, without"
                        " a word; this encoder is taken last now."
                    )
        return sorted(plans, key=lambda plan: plan.key in deadly)

    def _finished(self, plan: EncoderPlan) -> bool:
        return all(self.records.finished(plan.name, cell.task.name, cell.key) for cell in plan.cells)

    def _lease(self, plan: EncoderPlan) -> str:
        return self.records.encoder_folder(plan.name, plan.key).name

    def _unlocked(self, plan: EncoderPlan, patience: float) -> bool:
        with self._lock(self.records.encoder_folder(plan.name, plan.key), patience) as mine:
            return mine

    @contextmanager
    def _lock(self, folder: Path, patience: float) -> Iterator[bool]:
        """Hold the encoder's lock inside the block, or yield False after waiting `patience` seconds for it.

        The encoder's folder is removed afterwards if it is empty.
        """
        from filelock import FileLock, Timeout

        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_name(folder.name + ".lock"))
        try:
            lock.acquire(timeout=patience)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()
            with suppress(OSError):  # it is not empty, or another process removed it or works in it
                folder.rmdir()

    def _keep(self, plan: EncoderPlan, measured: Measured, *, bare: bool = False) -> None:
        if measured.status == "n/a" and measured.cell.task.data is None:  # there is nothing to keep, or to say twice
            reason = measured.reason or "?"
            if reason not in [known for _, known in self.outcome.missing]:
                self.runtime.progress.say(f"n/a: {reason}")
            if not plan.control:
                self.outcome.missing.append((f"{plan.label} on {measured.cell.task.name}", reason))
            return
        record: Record = record_of(
            plan,
            measured,
            runtime=self.runtime,
            limit=self.limit,
            environment=self.environment,
            command=self.command,
            run_file=self.run_file,
        )
        before = self._before.get(measured.cell.key)
        if before is not None and (scorer := before.get("code", {}).get("scorer")) not in (None, measured.cell.scorer):
            same = record["scores"] is not None and without_times(plain(record["scores"])) == without_times(
                scores_of(before)
            )
            record["code"]["scorers"] = {**before["code"].get("scorers", {}), scorer: same}
        try:
            self.records.write(record, measured.pairs)
        except CorruptError as error:  # a plugin's recipe, sources or facts are not plain values
            if bare:
                raise
            reason = f"it cannot be recorded: {said(error)}"
            nothing = replace(plan, recipe=_UnwritableRecipe(), sources={}, traits=Traits())
            self._keep(nothing, Measured(measured.cell, "failed", reason), bare=True)
            return
        what = f"{plan.label} on {measured.cell.task.name}"
        if measured.status == "ok":
            self.outcome.measured += 1
            self._forget_damage(plan, measured.cell)
        else:
            self.runtime.progress.say(f"{what}: {measured.status}: {measured.reason}")
            if not plan.control:  # nobody asked for it by name: the run is complete without it
                kind = self.outcome.failed if measured.status == "failed" else self.outcome.missing
                kind.append((what, measured.reason or "?"))


def exit_code(outcome: Outcome, *, allow_missing: bool) -> int:
    """Return 0 when every requested cell has a score (or is merely missing, where that is allowed), else 1."""
    return 1 if outcome.failed or (outcome.missing and not allow_missing) else 0
