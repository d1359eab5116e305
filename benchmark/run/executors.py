"""Three ways to map one function over a plan: a loop, processes of this machine, or a Ray cluster.

The function is `Runner.measure`: one encoder is trained at most once and measured on all its tasks. `--shard I/N` gives
any of them a part of the plan. Imports no torch.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from benchmark.run.job import WAIT, Job, Work, load_plugins, planned, runner_of
from benchmark.run.plan import EncoderPlan
from benchmark.run.prepare import Prepared
from benchmark.run.runner import Outcome, Runner
from benchmark.run.stop import Stop
from zoo.errors import UsageError, ZooError
from zoo.progress import Bar, Progress


def carry_out(job: Job) -> tuple[Prepared, Outcome]:
    """Train and measure every unfinished cell of the job's plan; a failed cell is recorded, and the run goes on.

    Raises UsageError for options that do not fit together, and Interrupted after a signal, once everything is saved.
    """
    options, ray = job.options, job.options.executor
    if ray is not None and ray != "ray" and not (ray.startswith("ray://") and len(ray) > len("ray://")):
        raise UsageError(
            f"--executor {ray}: give ray, or ray://HOST:PORT; --workers N shares the plan on this machine."
        )
    if ray is not None and options.workers > 1:
        raise UsageError(f"--workers {options.workers}: a Ray cluster has its own; give --executor or --workers.")
    if job.given is not None and (ray is not None or options.workers > 1):
        raise UsageError("an encoder object is measured in this process; leave out workers and executor.")
    if ray is not None and options.device.startswith("cuda"):
        job = replace(job, options=replace(options, device="auto"))  # the workers have the GPU, not this process
    prepared = job.prepare()
    runner = runner_of(prepared, job)
    if ray is None and options.workers == 1:
        return prepared, runner.run(prepared.plan)
    left = []
    for plan in prepared.plan.encoders:
        done = Outcome()
        if runner.pending(plan, done):
            left.append(plan)
        else:
            runner.outcome.add(done)
    if left and ray is None:
        _in_processes(replace(job, given=None), runner, left)
    elif left:
        from benchmark.run.on_ray import measure_on_ray

        measure_on_ray(job, options.device, prepared, runner, left)
    return prepared, runner.outcome


def _in_processes(job: Job, runner: Runner, plans: Sequence[EncoderPlan]) -> None:
    """Share encoders among `workers` processes: threads are divided between them, and GPUs are assigned in turn."""
    context, count = multiprocessing.get_context("spawn"), min(job.options.workers, len(plans))
    threads = str(max((os.cpu_count() or 1) // count, 1))
    numbers, stopped = context.Queue(), context.Event()
    for number in range(count):
        numbers.put(number)
    job = replace(job, progress=Progress(enabled=runner.runtime.progress.enabled))
    begin = (job, runner.runtime.precision, numbers, stopped)
    with (
        Stop().listening() as stop,
        _environment({"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}),  # read when a library is imported
        ProcessPoolExecutor(count, context, _begin, begin) as pool,
    ):

        def submit(plan: EncoderPlan, patience: float) -> Future[tuple[Outcome | None, float]]:
            return pool.submit(_measured_here, plan.key, patience)

        def ended(running: Sequence[Any]) -> Iterable[Any]:
            return wait(running, WAIT, FIRST_COMPLETED).done

        try:
            work = Work(runner, plans, count, submit, ended, lambda plan, one: one.result())
            work.carry_out(stop, {})
        except BrokenProcessPool as error:
            raise ZooError(
                "a worker process was killed, perhaps for lack of memory; what is finished is kept, and the same"
                " command goes on from here."
            ) from error
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)


class _Numbered(Progress):
    """Prints lines with the worker's number, and no bars: those of several processes would overwrite each other."""

    def __init__(self, number: int, enabled: bool) -> None:
        super().__init__(enabled=enabled)
        self.number = number

    def say(self, text: str) -> None:
        super().say(f"worker {self.number}: {text}")

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Bar]:
        yield Bar()


class _OfParent(Stop):
    """The signals of a worker process are those of the command that started it; it also stops when that has died."""

    def __init__(self, stopped: Any) -> None:
        super().__init__(tell=False)
        self.stopped, self.parent = stopped, os.getppid()

    def __call__(self) -> int | None:
        if self.stopped.is_set() or os.getppid() != self.parent:
            self.number = signal.SIGTERM
        return super().__call__()

    def check(self) -> None:
        self()
        super().check()


_BEGUN: list[tuple[Job, _OfParent]] = []  # of this process, if it is a worker


def _begin(job: Job, precision: str, numbers: Any, stopped: Any) -> None:
    """Begin a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process handles Ctrl-C
    number = numbers.get()
    options = replace(job.options, device=_device(job.options.device, number), precision=precision)
    progress = _Numbered(number, job.progress is not None and job.progress.enabled)
    _BEGUN.append((replace(job, options=options, progress=progress), _OfParent(stopped)))


def _device(device: str, number: int) -> str:
    """Return the device of one worker; several GPUs are assigned in turn."""
    if device not in ("auto", "cuda"):
        return device
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return f"cuda:{number % gpus}" if gpus else device


@functools.cache
def _planned_here() -> tuple[Runner, Mapping[str, EncoderPlan]]:
    job, _ = _BEGUN[0]
    load_plugins(job.plugins)
    prepared = replace(job, progress=Progress.silent()).prepare(write=False)
    prepared = replace(prepared, runtime=replace(prepared.runtime, progress=job.progress or Progress()))
    return runner_of(prepared, job), {plan.key: plan for plan in prepared.plan.encoders}


def _measured_here(key: str, patience: float) -> tuple[Outcome | None, float]:
    """Measure an encoder in this worker process."""
    runner, plans = _planned_here()
    started = time.monotonic()
    return runner.measure(planned(plans, key), _BEGUN[0][1], patience=patience), time.monotonic() - started


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the processes that are started in the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
