"""Three ways to map `Runner.measure` over a run's encoders: a loop, processes of this machine, or a Ray cluster.

An encoder is trained at most once and measured on all its tasks. `--shard I/N` gives any of them a part of the plan. A
machine of a cluster without access to the results folder measures in its own folder and returns the files. No torch.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from benchmark.run.cluster import for_worker, load_plugins, on_ray, plan_of, prepared
from benchmark.run.given import keep_given, say_keys
from benchmark.run.measure import not_measured
from benchmark.run.plan import EncoderPlan, Request, Run
from benchmark.run.prepare import prepare
from benchmark.run.runner import WAIT, Outcome, Runner, Workers
from benchmark.run.stop import OfParent, Stop, ignore_terminal, start_tracker
from zoo.errors import ZooError
from zoo.files import sha256_json, write_text
from zoo.limits import end_with_parent, task, threads_here
from zoo.machine import utc_now
from zoo.progress import Progress


def carry_out(request: Request, after_round: Callable[[Run], None] | None = None) -> tuple[Run, Outcome]:
    """Train and measure every unfinished cell of a request; a failed cell is recorded, and the run goes on.

    `after_round` is called after all rows without training, and after each seed of trained rows but the last. Raises
    UsageError for options that do not fit together, and Interrupted after a signal, once everything is saved.
    """
    options, ray = request.options, request.options.executor
    if ray is not None and options.device.startswith("cuda"):
        # The workers have the GPU, not this process.
        request = replace(request, options=replace(options, device="auto"))
    run = prepare(request)
    keep_given(request)
    say_keys(run)
    mark = run.options.results / f".remeasure-{sha256_json(repr(replace(run.options, workers=None)))[:16]}"
    if options.remeasure:
        # The start of this command's first run that did not end: what it made since is kept.
        if not mark.is_file():
            write_text(mark, utc_now())
        run = replace(run, request=replace(request, since=mark.read_text("utf-8")))
    runner = Runner(run)
    if after_round is not None:
        runner.after_round = functools.partial(after_round, run)
    try:
        if ray is None and run.workers == 1:
            runner.measure_all()
        else:
            _shared(runner)
    finally:
        run.runtime.progress.now("")
    if not runner.ended():
        mark.unlink(missing_ok=True)
    return run, runner.outcome


def _shared(runner: Runner) -> None:
    """Share what is unfinished among processes of this machine, or the machines of a Ray cluster."""
    options, unfinished = runner.run.options, []
    for plan in runner.run.encoders:
        done = Outcome()
        if pending := runner.pending(plan, done):
            unfinished.append(plan)
            for reason in filter(None, (not_measured(plan, cell) for cell in pending)):
                runner.print_absent(plan, reason)
        else:
            runner.outcome.add(done)
    if unfinished and options.executor is None:
        _in_processes(runner, unfinished)
    elif unfinished:
        on_ray(runner, unfinished, options.device)


def _in_processes(runner: Runner, plans: Sequence[EncoderPlan]) -> None:
    """Share encoders among processes, to which GPUs are assigned in turn; meanwhile this process may measure others."""
    run, count = runner.run, runner.run.workers
    # By the whole plan, so that an encoder has as many threads in a run that goes on: they decide on last digits.
    threads = max(threads_here() // min(count, len(run.encoders)), 1)
    here = [] if run.options.workers else [plan for plan in plans if not plan.row.trained]
    start_tracker()
    context, count = multiprocessing.get_context("spawn"), max(min(count, len(plans) - len(here)), 1)
    numbers, stopped = context.Queue(), context.Event()
    for number in range(count):
        numbers.put(number)
    request = for_worker(run, replace(run.options, precision=run.runtime.precision))
    begin = (request, numbers, count, stopped)
    with (
        Stop().listening() as stop,
        _environment(_of_threads(threads)),
        ProcessPoolExecutor(count, context, _begin, begin) as pool,
    ):
        workers = Workers(
            count,
            submit=lambda plan, patience: pool.submit(_measured_here, plan.key, patience),
            ended=lambda running: wait(running, WAIT, FIRST_COMPLETED).done,
            result=lambda plan, job: job.result(),
        )
        try:
            workers.measure(runner, plans, stop, {}, here)
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
    policy = os.environ.get("OMP_WAIT_POLICY", "passive")
    return {"OMP_NUM_THREADS": str(count), "MKL_NUM_THREADS": str(count), "OMP_WAIT_POLICY": policy}


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


_BEGUN: list[tuple[Request, OfParent]] = []


def _begin(request: Request, numbers: Any, count: int, stopped: Any) -> None:
    """Begin a worker process."""
    end_with_parent()
    ignore_terminal()
    number, enabled = numbers.get(), request.progress is not None and request.progress.enabled
    progress = Progress(enabled=enabled, speaker=f"worker {number}: ")
    options = replace(request.options, device=_device(request.options.device, number))
    _BEGUN.append((replace(request, options=options, progress=progress), OfParent(stopped)))


def _device(device: str, number: int) -> str:
    """Return the device of a worker; several GPUs are assigned in turn."""
    if device not in ("auto", "cuda"):
        return device
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return f"cuda:{number % gpus}" if gpus else device


@functools.cache
def _runner_here() -> Runner:
    load_plugins(_BEGUN[0][0].plugins)
    return Runner(prepared(_BEGUN[0][0]))


def _measured_here(key: str, patience: float) -> tuple[Outcome | None, float]:
    """Measure an encoder in this worker process."""
    with task():
        runner, started = _runner_here(), time.monotonic()
        done = runner.measure(plan_of(runner.run, key), _BEGUN[0][1], patience=patience)
        return done, time.monotonic() - started
