"""Executes a plan, encoder by encoder, each under a lock, and writes a record per cell."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from benchmark.data.sources import cause_of, each_cause_once, in_one
from benchmark.reasons import in_a_line, reason
from benchmark.records.folder import Records
from benchmark.run.cache import EmbeddingCache
from benchmark.run.fit import Fitter
from benchmark.run.measure import EncoderMeasurement, Measured, Overlap, not_measured, record_of
from benchmark.run.plan import Cell, EncoderPlan, Run
from benchmark.run.stop import Stop, listening
from zoo.errors import CorruptError, error_text
from zoo.progress import clock

# The tables of a large folder take at most a tenth of a run's time.
_TABLES_SHARE = 10
# Below so many seconds of a thread, nothing is told by them.
_LEAST_BUSY = 0.5
# Seconds between two looks at signals, and for which a lock is waited for when idle.
WAIT = 0.5


@dataclass
class Outcome:
    """Counts the cells that a run measured or kept, and lists those that failed or are n/a."""

    measured: int = 0
    kept: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)  # (what, reason)
    missing: list[tuple[str, str]] = field(default_factory=list)
    set_aside: list[tuple[Path, str]] = field(default_factory=list)
    # Reasons that another machine may not have: a full disk, little memory, a damaged file, errors that no sentence
    # foresaw, and what was not here.
    doubtful: list[str] = field(default_factory=list)
    # Reasons of tasks without data, which were printed once for all tasks.
    announced: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        for count in fields(self):
            setattr(self, count.name, getattr(self, count.name) + getattr(other, count.name))

    def lines(self) -> list[str]:
        """Return each reason of several cells once, with their number, but those of tasks without data."""
        lines = []
        for status, cells in (("failed", self.failed), ("n/a", self.missing)):
            about = defaultdict[str, list[str]](list)
            for what, why in cells:
                if why not in self.announced:
                    about[why].append(what.rpartition(" on ")[0] or what)
            lines += [in_a_line(status, why, names) for why, names in about.items() if len(names) > 1]
        return lines

    def verdict(self, cells: int) -> str:
        """Return what became of an encoder's cells; "finished" where each has a score."""
        parts = [(len(self.failed), "failed"), (len(self.missing), "n/a")]
        words = [word if count == cells else f"{count} of {cells} tasks {word}" for count, word in parts if count]
        return ", ".join(words) or "finished"


class Remaining:
    """The rest of a plan: the time left, and what is to be done after each round.

    An encoder takes what the others of its row took, else its estimate by the ratio of rows of its kind (trained or
    not). All of it is stretched as the last encoder was, which waited for other work on the machine.
    """

    def __init__(
        self,
        plans: Sequence[EncoderPlan],
        seconds: Mapping[str, float],
        at_once: int = 1,
        after_round: Callable[[], None] | None = None,
        stretch: float = 1.0,
    ) -> None:
        self.at_once = at_once
        self._after_round = after_round
        self._waiting = Counter((plan.row.trained, plan.row.name) for plan in plans)
        # Without an estimate all encoders of a kind count alike.
        estimates = {(plan.row.trained, plan.row.name): seconds.get(plan.inputs.row_key, 1.0) for plan in plans}
        self._estimates, self._estimated = estimates, bool(seconds)
        # Without what they waited.
        self._seconds: dict[tuple[bool, str], list[float]] = defaultdict(list)
        self._stretch = stretch
        self._rounds = Counter(plan.round for plan in plans)
        self._news = False
        self._ready = 0.0

    def done(self, plan: EncoderPlan, seconds: float | None, stretch: float = 1.0) -> None:
        """Count an encoder that took `seconds`, `stretch` times those on an idle machine; None: nothing was pending."""
        row = plan.row.trained, plan.row.name
        self._waiting[row] -= 1
        self._rounds[plan.round] -= 1
        if seconds is not None:
            self._seconds[row].append(seconds / stretch)
            self._stretch, self._news = stretch, True
        ended = not self._rounds[plan.round] and self._waiting.total()
        if self._after_round is not None and ended and self._news and time.monotonic() >= self._ready:
            started = time.monotonic()
            self._after_round()
            self._news, now = False, time.monotonic()
            self._ready = now + _TABLES_SHARE * (now - started)

    def text(self) -> str:
        """Return ", about 1:02:03 left in all", or "" while a kind of row that is left has no finished encoder."""
        seconds = 0.0
        for row, count in self._waiting.items():
            if count and (ratio := self._ratio(row)) is None:
                return ""
            seconds += count * self._estimates[row] * (ratio or 0.0) if count else 0.0
        count = self._waiting.total()
        seconds *= self._stretch
        return f", about {clock(seconds / min(self.at_once, count))} left in all" if count else ""

    def _ratio(self, row: tuple[bool, str]) -> float | None:
        """Return how many times its estimate an encoder of a row takes; None where nothing tells."""
        rows = [row] if row in self._seconds else [other for other in self._seconds if other[0] == row[0]]
        estimates = sum(self._estimates[other] * len(self._seconds[other]) for other in rows)
        if estimates:
            return sum(sum(self._seconds[other]) for other in rows) / estimates
        return 1.0 if self._estimated else None


class Watch:
    """Times work of this thread, and how much of it other work on the machine stretched: a busy thread waits for it."""

    def __init__(self) -> None:
        self._started, self._busy = time.monotonic(), time.thread_time()

    def read(self) -> tuple[float, float]:
        """Return the seconds, and how many times as long they are as those in which the thread ran."""
        seconds, busy = time.monotonic() - self._started, time.thread_time() - self._busy
        return seconds, max(seconds / busy, 1.0) if busy > _LEAST_BUSY else 1.0


class Runner:
    """Measures the encoders of a run into its results folder, or into `folder`."""

    def __init__(self, run: Run, folder: Path | None = None) -> None:
        self.run, self.say, self.now = run, run.runtime.progress.say, run.runtime.progress.now
        self.records = Records(folder or run.options.results, set_aside=True)
        self.outcome = Outcome(set_aside=self.records.corrupt)
        # Called when the rows without training are done, and those of each seed.
        self.after_round: Callable[[], None] | None = None
        gigabytes = run.options.embedding_cache
        self._cache = EmbeddingCache(gigabytes, self.say) if gigabytes else None
        self._overlap = Overlap()
        self._held: set[str] = set()
        self._causes: set[str] = set()

    def ended(self) -> bool:
        return self.run.options.fail_fast and bool(self.outcome.failed)

    def measure_all(self) -> Outcome:
        """Measure every unfinished cell, recording failed ones; raises Interrupted after a signal, with all saved."""
        plans = self.run.encoders
        remaining = Remaining(plans, self.run.seconds, after_round=self.after_round, stretch=self.run.stretch)
        waiting = deque(enumerate(plans, 1))
        # Consecutive encoders on which other processes work.
        held = 0
        with Stop().listening() as stop:
            while waiting and not self.ended():
                stop.check()
                number, plan = waiting.popleft()
                watch = Watch()
                # Wait for another process only if there is nothing else to do; otherwise take the next encoder first.
                patience = WAIT if held >= len(waiting) else 0.0
                done = self.measure(plan, stop, f"[{number}/{len(plans)}] ", remaining.text(), patience)
                if done is None:
                    held += 1
                    waiting.append((number, plan))
                    continue
                held = 0
                remaining.done(plan, *watch.read() if done.measured else (None,))
        return self.outcome

    def measure(
        self, plan: EncoderPlan, stop: Stop, before: str = "", after: str = "", patience: float = 0.0
    ) -> Outcome | None:
        """Measure the pending cells of an encoder, in every executor; returns None while another process works on it.

        `before` and `after` stand around its name.
        """
        done = Outcome()
        folder = self.records.encoder_folder(plan.row.name, plan.key)
        if not self.pending(plan, done):
            self.now(f"{before}{plan.title}: already measured")
            self.outcome.add(done)
            return done
        with self._lock(folder, patience) as locked:
            if not locked:
                if plan.key not in self._held:
                    self.say(f"{before}{plan.title}: another process works on it")
                self._held.add(plan.key)
                return None
            done = Outcome()
            try:
                ready = []
                for cell in self.pending(plan, done):
                    if (reason := not_measured(plan, cell)) is None:
                        ready.append(cell)
                    else:
                        self.print_absent(plan, reason)
                        self._keep(plan, reason, done)
                if ready:
                    part = f": {len(ready)} of {len(plan.cells)} tasks" if len(ready) < len(plan.cells) else ""
                    self.now(f"{before}{plan.title}{part}{after}")
                    self._measure(plan, ready, folder, stop, done)
            finally:
                self.outcome.add(done)
        return done

    def _measure(self, plan: EncoderPlan, cells: Sequence[Cell], folder: Path, stop: Stop, done: Outcome) -> None:
        fitter = Fitter(replace(self.run, runtime=replace(self.run.runtime, stop_signal=stop)))
        with listening(plan.row.given.encoder if plan.row.given else None, stop):
            for measured in EncoderMeasurement(plan, folder, fitter, self._cache, stop, self._overlap).measure(cells):
                self.print_absent(plan, measured)
                self._keep(plan, measured, done)
                if measured.doubtful:
                    done.doubtful.append(measured.reason or "?")

    def print_absent(self, plan: EncoderPlan, measured: Measured) -> None:
        """Print why data, weights or a training text is not there, each cause once."""
        # A worker's parent prints it.
        if not measured.absent or self.run.runtime.progress.speaker:
            return
        cause, of_task = measured.reason or "?", measured.cell.task.data is None
        if not of_task and cause not in self._causes:
            self.say(f"{measured.status}: {plan.label}: {cause}")
        elif of_task and cause_of(cause) not in self._causes:
            absent = each_cause_once(task.reason or "?" for task in self.run.tasks if task.data is None)
            self.say(f"{measured.status}: {in_one(absent.get(cause_of(cause), [cause]))}")
        self.outcome.announced += [cause] if of_task else []
        self._causes |= {cause, cause_of(cause)}

    def print_once(self, what: str, status: str, cause: str) -> None:
        """Print a reason the first time; its other cells are counted at the end."""
        if cause not in self._causes and cause_of(cause) not in self._causes:
            self._causes.add(cause)
            self.say(f"{what}: {status}: {cause}")

    def pending(self, plan: EncoderPlan, done: Outcome) -> list[Cell]:
        """Return the cells of an encoder that have no score yet, and count the others as kept."""
        pending = self.run.open_cells(plan, self.records)
        done.kept += len(plan.cells) - len(pending)
        return pending

    @contextmanager
    def _lock(self, folder: Path, patience: float) -> Iterator[bool]:
        """Hold the encoder's lock, or yield False after `patience` seconds; then remove its folder if it is empty."""
        from filelock import FileLock, Timeout

        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(_lock_of(folder))
        try:
            lock.acquire(timeout=patience)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()
            # It is not empty, or another process removed it or works in it.
            with suppress(OSError):
                folder.rmdir()

    def _keep(self, plan: EncoderPlan, measured: Measured, done: Outcome) -> None:
        what, cause = f"{plan.label} on {measured.cell.task.name}", measured.reason or "?"
        if not measured.absent:
            try:
                self.records.write(record_of(plan, measured, self.run), measured.pairs)
            except CorruptError as error:
                # A plugin's recipe, sources or facts are no plain values.
                cause = reason("unrecordable", error=error_text(error))
                measured = Measured(measured.cell, "failed", cause)
            # A worker's parent prints it; of a control it knows nothing.
            if measured.status != "ok" and (plan.row.control or not self.run.runtime.progress.speaker):
                self.print_once(what, measured.status, cause)
        if measured.status == "ok":
            done.measured += 1
        elif not plan.row.control:
            # Nobody asked for a control by name: the run is complete without it.
            (done.failed if measured.status == "failed" else done.missing).append((what, cause))


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + ".lock")


def is_locked(folder: Path) -> bool:
    """Return whether a process works on the encoder of this folder now."""
    from filelock import FileLock, Timeout

    if not _lock_of(folder).exists():
        return False
    with suppress(Timeout), FileLock(_lock_of(folder), timeout=0):
        return False
    return True


@dataclass(frozen=True)
class Workers:
    """The workers that measure encoders: `submit` begins an encoder, `ended` waits for some."""

    at_once: int
    # The seconds are those for which it waits for the encoder's lock.
    submit: Callable[[EncoderPlan, float], Any]
    ended: Callable[[Sequence[Any]], Iterable[Any]]
    result: Callable[[EncoderPlan, Any], tuple[Outcome | None, float]]

    def measure(
        self,
        runner: Runner,
        plans: Sequence[EncoderPlan],
        stop: Stop,
        running: dict[Any, EncoderPlan],
        here: Sequence[EncoderPlan] = (),
    ) -> None:
        """Measure every encoder, those of `here` in this process; `running` has those that are being measured."""
        run = runner.run
        remaining = Remaining(plans, run.seconds, self.at_once, runner.after_round, run.stretch)
        keys, number = {plan.key for plan in here}, 0
        running |= {self.submit(plan, 0.0): plan for plan in plans if plan.key not in keys}
        for plan in here:
            stop.check()
            if runner.ended():
                return
            watch = Watch()
            done = runner.measure(plan, stop, f"[{number + 1}/{len(plans)}] ")
            # A process of another command works on it.
            if done is None:
                running[self.submit(plan, WAIT)] = plan
            else:
                number += 1
                remaining.done(plan, *watch.read() if done.measured else (None,))
        while running and not runner.ended():
            stop.check()
            for job in self.ended(list(running)):
                plan = running.pop(job)
                done, seconds = self.result(plan, job)
                if done is None:
                    running[self.submit(plan, WAIT)] = plan
                    continue
                runner.outcome.add(done)
                for status, cells in (("failed", done.failed), ("n/a", done.missing)):
                    for what, cause in cells:
                        runner.print_once(what, status, cause)
                number += 1
                remaining.done(plan, seconds if done.measured else None)
                verdict = done.verdict(len(plan.cells))
                runner.now(f"[{number}/{len(plans)}] {plan.title}: {verdict}{remaining.text()}")


def exit_code(outcome: Outcome, *, allow_missing: bool) -> int:
    """Return 0 when every requested cell has a score (or is merely missing, where that is allowed), else 1."""
    return 1 if outcome.failed or (outcome.missing and not allow_missing) else 0
