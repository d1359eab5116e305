"""Executes a plan: encoder by encoder under a lock, and writes one record per cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from benchmark.records.schema import Environment, Record
from benchmark.records.store import Records
from benchmark.run.cache import EmbeddingCache
from benchmark.run.describe import record_of
from benchmark.run.fit import Fitter
from benchmark.run.measure import EncoderMeasurement, Measured, Overlap, not_measured
from benchmark.run.plan import Cell, EncoderPlan, Plan
from benchmark.run.stop import Stop
from benchmark.tasks.loaded import LoadedTask
from zoo.encoder import Runtime
from zoo.hardware import environment


@dataclass
class Outcome:
    """What a run did, cell by cell."""

    measured: int = 0
    kept: int = 0
    other_code: int = 0  # of the kept ones, those that other code made
    failed: list[tuple[str, str]] = field(default_factory=list)  # (what, reason)
    missing: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Runner:
    """Runs plans into one results folder."""

    out: Path
    runtime: Runtime
    dev: LoadedTask | None = None
    limit: int | None = None
    fail_fast: bool = False
    remeasure: bool = False  # cells that other code made are measured again
    command: Sequence[str] = ()
    run_options: dict[str, Any] = field(default_factory=dict)  # checkpoint_steps, checkpoint_seconds
    tensorboard: Path | None = None  # folder for TensorBoard's event files; None: none are written
    cache: EmbeddingCache | None = None  # None: every text is encoded

    def __post_init__(self) -> None:
        self.records = Records(self.out, set_aside=True)
        self.outcome = Outcome()
        self._overlap = Overlap()

    def run(self, plan: Plan) -> Outcome:
        """Execute every cell that is not finished; failures are recorded and the others go on.

        Raises Interrupted after a signal, once everything is saved.
        """
        self.environment = cast("Environment", environment(self.runtime.device))
        say = self.runtime.progress.say
        with Stop().listening() as stop:
            self.runtime = replace(self.runtime, stop_signal=stop)
            for number, encoder_plan in enumerate(plan.encoders, 1):
                stop.check()
                pending = self._pending(encoder_plan, encoder_plan.cells)
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

    def _pending(self, plan: EncoderPlan, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells that have no score yet, and count the others as kept."""
        pending = []
        for cell in cells:
            record = self.records.finished(plan.name, cell.task.name, cell.key)
            other = record is not None and record.get("code", {}).get("digest") != plan.code
            if record is None or (other and self.remeasure):
                pending.append(cell)
            else:
                self.outcome.kept += 1
                self.outcome.other_code += other
        return pending

    def _run_encoder(self, plan: EncoderPlan, pending: list[Cell], stop: Stop) -> None:
        ready = []
        for cell in pending:
            reason = not_measured(plan, cell)
            if reason is None:
                ready.append(cell)
            else:
                self._keep(plan, reason)
        if not ready:
            return
        folder = self.records.encoder_folder(plan.name, plan.key)
        with self._locked(plan.name, folder, stop):
            left = self._pending(plan, ready)
            if left:
                fitter = Fitter(self.runtime, self.dev, stop, self.run_options, self.tensorboard)
                measurement = EncoderMeasurement(plan, folder, fitter, self.cache, stop, self._overlap)
                for measured in measurement.measure(left):
                    self._keep(plan, measured)

    @contextmanager
    def _locked(self, name: str, folder: Path, stop: Stop) -> Iterator[None]:
        """Hold the encoder's lock inside the block; an encoder folder that stays empty is removed."""
        from filelock import FileLock, Timeout

        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_name(folder.name + ".lock"))
        waited = False
        while not lock.is_locked:
            try:
                lock.acquire(timeout=0.5)
            except Timeout:
                stop.check()
                if not waited:
                    self.runtime.progress.say(f"{name}: another process works on it; waiting")
                waited = True
        try:
            yield
        finally:
            lock.release()
            with suppress(OSError):  # it holds what was learned, or another process removed it or works in it
                folder.rmdir()

    def _keep(self, plan: EncoderPlan, measured: Measured) -> None:
        record: Record = record_of(
            plan,
            measured,
            runtime=self.runtime,
            limit=self.limit,
            environment=self.environment,
            command=self.command,
        )
        what = f"{plan.name} on {measured.cell.task.name}"
        if measured.status == "ok":
            self.outcome.measured += 1
        else:
            kind = self.outcome.failed if measured.status == "failed" else self.outcome.missing
            kind.append((what, measured.reason or "?"))
            self.runtime.progress.say(f"{what}: {measured.status}: {measured.reason}")
        self.records.write(record, measured.pairs)


def exit_code(outcome: Outcome, *, allow_missing: bool) -> int:
    """Return 0 when every requested cell has a score (or is merely missing, where that is allowed), else 1."""
    return 1 if outcome.failed or (outcome.missing and not allow_missing) else 0
