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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from zoo.engine.backbone import find_backbone
from zoo.errors import UsageError, ZooError
from zoo.machine import memory_here, threads_here
from zoo.progress import Bar, Progress

_WORTH_A_START = 2_000  # sentences of all trainings, below which processes start longer than they save
_MEMORY_OF_PROCESS = 2**30
_MEMORY_PER_WEIGHTS = 10  # weights, gradients and two moments in float32, and about as much again for kept states


def carry_out(job: Job, after_round: Callable[[Prepared], None] | None = None) -> tuple[Prepared, Outcome]:
    """Train and measure every unfinished cell of the job's plan; a failed cell is recorded, and the run goes on.

    `after_round` is called when all rows without training are measured, and again after each seed of the trained ones,
    unless the run ends there. Raises UsageError for options that do not fit together, and Interrupted after a signal,
    once everything is saved.
    """
    options, ray = job.options, job.options.executor
    if ray is not None and ray != "ray" and not (ray.startswith("ray://") and len(ray) > len("ray://")):
        raise UsageError(
            f"--executor {ray}: give ray, or ray://HOST:PORT; --workers N shares the plan on this machine."
        )
    several = options.workers is not None and options.workers > 1
    if ray is not None and several:
        raise UsageError(f"--workers {options.workers}: a Ray cluster has its own; give --executor or --workers.")
    if job.given is not None and (ray is not None or several):
        raise UsageError("an encoder object is measured in this process; leave out workers and executor.")
    if ray is not None and options.device.startswith("cuda"):
        job = replace(job, options=replace(options, device="auto"))  # the workers have the GPU, not this process
    prepared = job.prepare()
    runner = runner_of(prepared, job)
    if after_round is not None:
        runner.after_round = functools.partial(after_round, prepared)
    count = options.workers or 1
    if options.workers is None and ray is None and job.given is None:
        count = automatic_workers(prepared)
    if ray is None and count == 1:
        return prepared, runner.run(prepared.plan)
    left = []
    for plan in prepared.plan.encoders:
        done = Outcome()
        if runner.pending(plan, done):
            left.append(plan)
        else:
            runner.outcome.add(done)
    if left and ray is None:
        # By the whole plan, so that an encoder has as many threads in a run that goes on: they decide on last digits.
        threads = max(threads_here() // min(count, len(prepared.plan.encoders)), 1)
        here = [] if options.workers else [plan for plan in left if not plan.trained]
        _in_processes(replace(job, given=None), runner, left, count, threads, here)
    elif left:
        from benchmark.run.on_ray import measure_on_ray

        measure_on_ray(job, options.device, prepared, runner, left)
    return prepared, runner.outcome


def automatic_workers(prepared: Prepared) -> int:
    """Return how many processes share a plan for `--workers auto`.

    On a CPU, a process of one thread for each core trains faster than one process of all threads. One process remains
    where there are no two trainings, where these are shorter than the start of a process, or where memory is short.
    """
    trained = [one for one in prepared.plan.encoders if one.trained and one.corpus is not None and one.missing is None]
    sentences = sum(len(one.corpus.sentences) for one in trained if one.corpus is not None)
    if prepared.runtime.device != "cpu" or sentences < _WORTH_A_START:
        return 1
    used = max(_memory_of(one, prepared.runtime.allow_pickle) for one in trained)
    return max(min(threads_here(), len(trained), memory_here() // used), 1)


def _memory_of(plan: EncoderPlan, allow_pickle: bool) -> int:
    """Return about how many bytes the process of a training needs: Python, weights, gradients, moments, states."""
    if "backbone" not in plan.sources:
        return _MEMORY_OF_PROCESS
    source = find_backbone(plan.recipe.backbone, getattr(plan.recipe, "revision", None), allow_pickle=allow_pickle)
    weights = max((path.stat().st_size for path in source.folder.iterdir() if path.is_file()), default=0)
    return _MEMORY_OF_PROCESS + _MEMORY_PER_WEIGHTS * weights


def _in_processes(
    job: Job, runner: Runner, plans: Sequence[EncoderPlan], count: int, threads: int, here: Sequence[EncoderPlan]
) -> None:
    """Share encoders among `count` processes of so many threads; GPUs are assigned in turn.

    Those of `here` are measured by this process, which begins with them while the others start.
    """
    context, count = multiprocessing.get_context("spawn"), max(min(count, len(plans) - len(here)), 1)
    numbers, stopped = context.Queue(), context.Event()
    for number in range(count):
        numbers.put(number)
    job = replace(job, progress=Progress(enabled=runner.runtime.progress.enabled))
    begin = (job, runner.runtime.precision, numbers, count, stopped)
    with (
        Stop().listening() as stop,
        _environment(_of_threads(threads)),
        ProcessPoolExecutor(count, context, _begin, begin) as pool,
    ):

        def submit(plan: EncoderPlan, patience: float) -> Future[tuple[Outcome | None, float]]:
            return pool.submit(_measured_here, plan.key, patience)

        def ended(running: Sequence[Any]) -> Iterable[Any]:
            return wait(running, WAIT, FIRST_COMPLETED).done

        try:
            work = Work(runner, plans, count, submit, ended, lambda plan, one: one.result(), here)
            work.carry_out(stop, {})
        except BrokenProcessPool as error:
            raise ZooError(
                "a worker process was killed, perhaps for lack of memory; what is finished is kept, and the same"
                " command goes on from here."
            ) from error
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)


def _of_threads(count: int) -> dict[str, str]:
    """Return the environment of a worker, which libraries read when they are imported."""
    policy = os.environ.get("OMP_WAIT_POLICY", "passive")  # as `benchmark.__main__` sets it
    return {"OMP_NUM_THREADS": str(count), "MKL_NUM_THREADS": str(count), "OMP_WAIT_POLICY": policy}


class _Numbered(Progress):
    """Prints lines with the worker's number; bars of several processes would overwrite each other, so they are lines.

    All workers together print such a line every ten seconds.
    """

    def __init__(self, number: int, count: int, enabled: bool) -> None:
        super().__init__(enabled=enabled, seconds_between_lines=10.0 * count)
        self.number = number

    def say(self, text: str) -> None:
        super().say(f"worker {self.number}: {text}")

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Bar]:
        with self.lines(f"worker {self.number}: {what}", total) as bar:
            yield bar


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


def _begin(job: Job, precision: str, numbers: Any, count: int, stopped: Any) -> None:
    """Begin a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process handles Ctrl-C
    number = numbers.get()
    options = replace(job.options, device=_device(job.options.device, number), precision=precision)
    progress = _Numbered(number, count, job.progress is not None and job.progress.enabled)
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
