"""`--workers N`: N processes of one machine share a plan, and each encoder is measured by one of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.context import SpawnProcess
from pathlib import Path

from benchmark.run.estimate import time_of_processes
from benchmark.run.executors import Executor, Job, load_plugins
from benchmark.run.executors.claims import Claims
from benchmark.run.executors.here import runner_of
from benchmark.run.options import RunOptions
from benchmark.run.plan import Plan
from benchmark.run.prepare import Prepared
from benchmark.run.runner import Outcome
from benchmark.run.stop import Stop
from zoo.errors import Interrupted, ZooError
from zoo.exits import told_exits
from zoo.progress import Bar, Progress, clock

_TRIES = 3  # workers that one encoder may cost
_WORTH = 0.9  # of the time that one process takes: less is gained by N times the memory if workers take longer


class Processes(Executor):
    """Shares a plan among processes of this machine; one process takes it where it would be as fast."""

    def run(self, job: Job) -> tuple[Prepared, Outcome]:
        """Carry out the job in `workers` processes, or in this one; `--executor processes` does not choose this one."""
        prepared = job.prepare()
        if job.options.executor is None and (why := as_fast_here(prepared, job.options)):
            prepared.runtime.progress.say(why)
            return prepared, runner_of(prepared, job).run(prepared.plan)
        return prepared, run_workers(job, prepared.plan, prepared.runtime.progress)


def as_fast_here(prepared: Prepared, options: RunOptions) -> str:
    """Return a sentence where one process with all threads is about as fast as the workers, else ""."""
    count = options.workers
    times = time_of_processes(prepared.plan, options.results, prepared.runtime, count, _threads(count))
    if times is None or times[1] < _WORTH * times[0]:
        return ""
    here, shared = map(clock, times)
    return (
        f"--workers {count}: one process with all threads takes about {here}, and {count} workers, which begin anew and"
        f" divide the threads, {shared}: one process carries out the run (--executor processes starts the workers)."
    )


class _WorkerProgress(Progress):
    """Prints lines with the worker's number, and no bars: those of several processes would overwrite each other."""

    def __init__(self, number: int, enabled: bool) -> None:
        super().__init__(enabled=enabled)
        self.number = number

    def say(self, text: str) -> None:
        """Print one line that begins with the worker's number."""
        super().say(f"worker {self.number}: {text}")

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Bar]:
        """Show nothing."""
        yield Bar()


def run_workers(job: Job, plan: Plan, progress: Progress) -> Outcome:
    """Run a plan in the `workers` processes of a job, and return what they did together.

    The CPU's threads are divided between them, and GPUs are assigned in turn. What a worker that died had taken is
    given back, and a new worker starts in its place; an encoder that costs `_TRIES` workers has failed. Raises
    Interrupted after a signal, once all have stopped.
    """
    names = {one.key: one.title for one in plan.encoders}
    total, lost, count = Outcome(), Counter[str](), job.options.workers
    with tempfile.TemporaryDirectory(prefix="zoo-bench-claims-") as place, Stop().listening() as stop:
        working = {number: _start(number, job, Path(place), progress.enabled) for number in range(count)}
        stopped = False
        while working:
            if stop() is not None and not stopped:
                stopped = True
                for process in working.values():
                    with suppress(ProcessLookupError):  # it has just ended
                        os.kill(process.pid or 0, signal.SIGTERM)
            for number, process in list(working.items()):
                process.join(0.2)
                if process.is_alive():
                    continue
                del working[number]
                claims = Claims(Path(place), number)
                left, done = claims.unfinished(names)
                total.add(Outcome(**done))
                if not process.exitcode or stop() is not None:
                    continue
                costs = left or [f"place {number % count}"]
                lost.update(costs)
                died = f"ended with code {process.exitcode}"
                for key in left:
                    if lost[key] < _TRIES:
                        claims.release(key)
                    else:
                        why = f"its worker {died}, as {_TRIES - 1} before; the same command tries again"
                        total.failed.append((names[key], why))
                        progress.say(f"{names[key]}: failed: {why}")
                # One that ended by itself before it took an encoder has said why, and another one would end as well.
                if not left and (process.exitcode > 0 or lost[costs[0]] >= _TRIES):
                    total.failed.append((f"worker {number}", f"{died}; the same command measures what it left"))
                    progress.say(f"worker {number} {died}; the same command measures what it left")
                    continue
                on = f" while it worked on {', '.join(names[key] for key in left)}" if left else ""
                progress.say(f"worker {number} {died}{on}; worker {number + count} starts in its place")
                working[number + count] = _start(number + count, job, Path(place), progress.enabled)
        stop.check()
    return total


def _threads(count: int) -> int:
    return max((os.cpu_count() or 1) // count, 1)


def _start(number: int, job: Job, place: Path, enabled: bool) -> SpawnProcess:
    count = job.options.workers
    options = replace(job.options, device=_device(job.options.device, number % count))
    own = replace(job, options=options, progress=_WorkerProgress(number, enabled))
    process = multiprocessing.get_context("spawn").Process(target=_work, args=(own, Claims(place, number)))
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    try:
        # The new process's libraries read it on import.
        os.environ.update(dict.fromkeys(before, str(_threads(count))))
        process.start()
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    return process


def _device(device: str, number: int) -> str:
    """Return the device of one worker; several GPUs are assigned in turn."""
    if device not in ("auto", "cuda"):
        return device
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return f"cuda:{number % gpus}" if gpus else device


def _work(job: Job, claims: Claims) -> None:
    """Prepare the plan in a process of its own, and measure the encoders that it can claim."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process handles Ctrl-C and sends SIGTERM to the workers
    load_plugins(job.plugins)
    say = (job.progress or Progress()).say
    try:
        with told_exits():
            prepared = job.prepare()
            runner = runner_of(prepared, job)
            runner.claims = claims
            runner.run(prepared.plan)
    except Interrupted as error:
        sys.exit(error.exit_code)
    except ZooError as error:
        say(str(error))
        sys.exit(error.exit_code)
    except Exception:  # printed with its traceback, which would otherwise be lost with the process
        say(traceback.format_exc())
        sys.exit(1)
