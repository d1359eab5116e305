"""A run as one value, what measures its encoders, and what is common to measuring them elsewhere."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.run.cache import EmbeddingCache
from benchmark.run.options import RunOptions
from benchmark.run.plan import EncoderPlan
from benchmark.run.prepare import Inputs, Prepared, prepare
from benchmark.run.runner import Outcome, Remaining, Runner
from benchmark.run.stop import Stop
from benchmark.tasks import TASKS
from zoo.errors import ZooError
from zoo.plugins import METHODS, load_plugin_file
from zoo.progress import Progress

WAIT = 0.5  # seconds between two looks at signals, and for which a lock is waited for


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run: its options, the command that records state, plugin files, and encoders that were given."""

    options: RunOptions
    command: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    progress: Progress | None = None  # None: standard error
    given: tuple[tuple[str | None, object], ...] | None = None  # encoders that replace the methods, with their names
    version: str | None = None  # of the encoders that are objects

    def prepare(self, *, write: bool = True, inputs: Inputs | None = None) -> Prepared:
        """Return the plan of the job, as `prepare` does."""
        return prepare(
            self.options, write=write, given=self.given, version=self.version, progress=self.progress, inputs=inputs
        )


def runner_of(prepared: Prepared, job: Job, out: Path | None = None) -> Runner:
    """Return what measures the encoders of a prepared job; `out` replaces its results folder."""
    options, say = job.options, prepared.runtime.progress.say
    return Runner(
        out or options.results,
        prepared.runtime,
        dev=prepared.dev,
        limit=options.limit,
        fail_fast=options.fail_fast,
        remeasure=options.remeasure,
        command=job.command,
        trackers=options.trackers(),
        run_file=options.file,
        cache=EmbeddingCache(options.embedding_cache, say) if options.embedding_cache else None,
    )


def planned(plans: Mapping[str, EncoderPlan], key: str) -> EncoderPlan:
    """Return the plan that the command gave a worker; raises ZooError where the worker plans another run."""
    if key not in plans:
        place = f"{socket.gethostname()}-{os.getpid()}"
        raise ZooError(f"{place} plans another run: its data, weights or code differ from those of the command.")
    return plans[key]


def load_plugins(paths: Iterable[Path]) -> dict[Path, str]:
    """Run plugin files, which register methods and tasks; returns the broken ones with the reason."""
    found = {path: load_plugin_file(path, [METHODS, TASKS]) for path in paths}
    return {path: reason for path, reason in found.items() if reason is not None}


@dataclass(frozen=True)
class Work:
    """The encoders that are measured elsewhere, and how: `submit` begins one, `ended` waits for some of those."""

    runner: Runner
    plans: Sequence[EncoderPlan]
    at_once: int
    submit: Callable[[EncoderPlan, float], Any]  # with the seconds for which it waits for the encoder's lock
    ended: Callable[[Sequence[Any]], Iterable[Any]]
    result: Callable[[EncoderPlan, Any], tuple[Outcome | None, float]]  # of one that has ended, with its seconds
    here: Sequence[EncoderPlan] = ()  # those of them that this process measures meanwhile

    def carry_out(self, stop: Stop, running: dict[Any, EncoderPlan]) -> None:
        """Measure every encoder, and say what is finished; `running` has those that are being measured."""
        outcome, say = self.runner.outcome, self.runner.runtime.progress.say
        remaining = Remaining(self.plans, self.at_once, self.runner.after_round)
        keys = {plan.key for plan in self.here}
        running |= {self.submit(plan, 0.0): plan for plan in self.plans if plan.key not in keys}
        number = 0
        for plan in self.here:
            stop.check()
            if self.runner.fail_fast and outcome.failed:
                return
            number, started = number + 1, time.monotonic()
            done = self.runner.measure(plan, stop, f"[{number}/{len(self.plans)}] ")
            if done is None:  # a process of another command works on it
                running[self.submit(plan, WAIT)] = plan
                number -= 1
            else:
                remaining.done(plan, time.monotonic() - started if done.measured else None)
        while running and not (self.runner.fail_fast and outcome.failed):
            stop.check()
            for one in self.ended(list(running)):
                plan = running.pop(one)
                done, seconds = self.result(plan, one)
                if done is None:
                    running[self.submit(plan, WAIT)] = plan
                    continue
                outcome.add(done)
                number += 1
                remaining.done(plan, seconds if done.measured else None)
                say(f"[{number}/{len(self.plans)}] {plan.title}: finished{remaining.text()}")
