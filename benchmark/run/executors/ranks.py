"""Runs in the processes of torchrun or accelerate launch: the first plans, measures and writes; all train together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmark.records.store import Records
from benchmark.run.executors import Executor, Job
from benchmark.run.executors.here import runner_of
from benchmark.run.fit import Fitter
from benchmark.run.options import RunOptions
from benchmark.run.plan import EncoderPlan, Plan
from benchmark.run.prepare import Prepared, prepare
from benchmark.run.runner import Outcome
from benchmark.run.stop import Stop
from zoo.encoder import FitReport
from zoo.errors import Interrupted, UsageError, ZooError
from zoo.progress import Progress
from zoo.training.team import LeftAloneError, Team

_END_SECONDS = 10.0  # seconds to wait until the others know that the run is over
_ANSWER_SECONDS = 20.0  # seconds to wait, after a signal, for the first process's message that it ends


@dataclass
class Leader:
    """The first process, which orders the others to fit encoders."""

    team: Team
    orders: int = 0

    @property
    def size(self) -> int:
        """The number of processes."""
        return self.team.size

    def begin(self, prepared: Prepared) -> None:
        """Order the others to prepare the same plan; raises UsageError for a method that only one process can train."""
        check_shared(prepared.plan, self.size)
        self._order({"precision": prepared.runtime.precision})

    def fit_too(
        self, plan: EncoderPlan, fit: Callable[[], FitReport], device: str, stop: Callable[[], int | None]
    ) -> FitReport:
        """Return the result of `fit` in this process while the others fit the same encoder."""
        return self.team.train(self._order({"fit": plan.key}), device, stop, fit)

    def end(self) -> None:
        """Order the others to end, and wait for their answers if this process holds the store of the messages."""
        with suppress(LeftAloneError):
            self._order({})
            if not self.team.holds_store:
                return
            keys = {rank: f"bye/{rank}" for rank in range(1, self.size)}
            self.team.wait(keys, lambda: None, _END_SECONDS)

    def _order(self, what: dict[str, Any]) -> int:
        self.orders += 1
        self.team.say(f"order/{self.orders}", json.dumps(what))
        return self.orders


class Torchrun(Executor):
    """Trains each encoder in all processes that torchrun started; this one, the first, plans, measures and writes."""

    def run(self, job: Job) -> tuple[Prepared, Outcome]:
        """Carry out the job while the others follow; raises UsageError for --workers and --executor."""
        options, team = job.options, job.team
        if team is None:
            raise UsageError(
                "--executor torchrun: start the processes: torchrun --nproc-per-node 4 -m benchmark run ..."
            )
        with leading(team) as leader:  # whose end ends the others, also after an error
            size = f"{team.size} processes were started; give one of both."
            if options.workers > 1:
                raise UsageError(f"--workers {options.workers}: {size}")
            if options.executor not in (None, "torchrun"):
                raise UsageError(f"--executor {options.executor}: {size}")
            job = replace(job, options=own_options(options, team))
            prepared = job.prepare()
            leader.begin(prepared)
            runner = runner_of(prepared, job)
            runner.others = leader
            return prepared, runner.run(prepared.plan)


@contextmanager
def leading(team: Team) -> Iterator[Leader]:
    """Lead the others inside the block; whenever it ends, they are ordered to end."""
    leader = Leader(team)
    try:
        yield leader
    finally:
        leader.end()


def check_shared(plan: Plan, size: int) -> None:
    """Raise UsageError for a method whose training cannot be shared; a fit without training steps needs no sharing."""
    for encoder in plan.encoders:
        if encoder.traits.training_passes and not encoder.traits.shares_batches:
            raise UsageError(
                f"{encoder.name} is trained by one process, and {size} were started: its batches cannot be shared."
                " Start zoo-bench without torchrun or accelerate launch for it, or leave it out."
            )


def own_options(options: RunOptions, team: Team) -> RunOptions:
    """Return the options with this process's own GPU; raises UsageError where one GPU is named for all processes."""
    import torch

    if options.device.startswith("cuda:"):
        raise UsageError(f"--device {options.device}: {team.size} processes need a GPU each; give cuda, or cpu.")
    if options.device in ("auto", "cuda") and torch.cuda.is_available():
        return replace(options, device=f"cuda:{team.local_rank}")
    return options


def follow(team: Team, options: RunOptions, load_plugins: Callable[[], None]) -> int:
    """Fit the encoders that the first process orders, without output or files, until it ends; returns the exit code.

    Raises LeftAloneError where the first process has ended without a message.
    """
    with Stop(tell=False, launched=True).listening() as stop:
        try:
            orders = _orders(team, stop)
            first = next(orders, None)
            if first is not None:
                load_plugins()
                own = replace(own_options(options, team), precision=first["precision"])
                prepared = prepare(own, write=False, progress=Progress.silent())
                _fit_as_told(team, own, prepared, orders, stop)
            team.say(f"bye/{team.rank}", "")
            return 0 if stop() is None else 128 + (stop() or 0)
        except LeftAloneError as error:
            if error.tell:
                raise
            return error.exit_code
        except Interrupted as error:
            return error.exit_code  # the first process reports the signal


def _orders(team: Team, stop: Stop) -> Iterator[Any]:
    number = 0
    while True:
        number += 1
        key = {0: f"order/{number}"}
        try:
            team.wait(key, stop)
        except Interrupted:
            if team.wait(key, lambda: None, _ANSWER_SECONDS):
                raise LeftAloneError(
                    f"process {team.rank} of {team.size}: stopped by signal {stop()}, and the first process does not"
                    " answer; what was saved is kept and the same command goes on from there."
                ) from None
        order = json.loads(team.hear(key[0]) or "{}")
        if not order:
            return
        yield {**order, "number": number}


def _fit_as_told(team: Team, options: RunOptions, prepared: Prepared, orders: Iterator[Any], stop: Stop) -> None:
    runtime = replace(prepared.runtime, stop_signal=stop)
    fitter = Fitter(runtime, prepared.dev, stop)
    plans = {plan.key: plan for plan in prepared.plan.encoders}
    records = Records(options.results)
    for order in orders:
        plan = plans.get(order["fit"])
        if plan is None:
            raise ZooError(
                f"process {team.rank} of {team.size} plans other encoders than the first process: they read other data,"
                " weights or code."
            )
        try:
            _fit(team, order["number"], fitter, plan, records.encoder_folder(plan.name, plan.key))
        except Interrupted:
            raise
        except (Exception, SystemExit):  # raised in all processes: the first one records it and goes on
            continue


def _fit(team: Team, number: int, fitter: Fitter, plan: EncoderPlan, folder: Path) -> None:
    def fit() -> FitReport:
        return fitter.fit(plan.cls(plan.recipe, fitter.runtime), plan, folder)

    team.train(number, fitter.runtime.device, fitter.stop_signal, fit)
