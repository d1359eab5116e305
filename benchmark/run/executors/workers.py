"""`--workers N`: N processes of one machine share a plan, and each encoder is measured by one of them."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path

from benchmark.run.executors.claims import Claims
from benchmark.run.options import RunOptions
from benchmark.run.runner import Outcome
from benchmark.run.stop import Stop
from zoo.errors import Interrupted, ZooError
from zoo.exits import told_exits
from zoo.files import read_json, write_json
from zoo.progress import Bar, Progress, print_safe

Work = Callable[[RunOptions, Claims, "Progress", Sequence[str]], Outcome]
"""Prepares the plan and runs the encoders it can claim; a module's function, which a new process finds by its name."""


@dataclass(frozen=True)
class Worker:
    """One process, and the file to which it writes its outcome."""

    number: int
    process: SpawnProcess
    outcome: Path

    def result(self) -> Outcome | None:
        """Return what the worker did, or None where it ended before it wrote its outcome."""
        if not self.outcome.is_file():
            return None
        found = read_json(self.outcome)
        pairs = {
            name: [(what, why) for what, why in found[name]] for name, value in found.items() if isinstance(value, list)
        }
        return Outcome(**{**found, **pairs})


class _WorkerProgress(Progress):
    """Prints lines with the worker's number, and no bars: those of several processes would overwrite each other."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    @classmethod
    def silent(cls) -> Progress:
        """Return a progress that shows nothing."""
        return Progress.silent()

    def say(self, text: str) -> None:
        """Print one line that begins with the worker's number."""
        print_safe(f"worker {self.number}: {text}", sys.stderr)

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Bar]:
        """Show nothing."""
        with Progress.silent().bar(what, total) as silent:
            yield silent


def run_workers(
    work: Work, options: RunOptions, count: int, command: Sequence[str], plugins: Sequence[Path]
) -> Outcome:
    """Run the plan of `options` in `count` processes and return what they did together.

    The CPU's threads are divided between them, and GPUs are assigned in turn. A worker that died is reported and counts
    as failed; the same command measures its remaining cells. Raises Interrupted after a signal, once all have stopped.
    """
    with tempfile.TemporaryDirectory(prefix="zoo-bench-claims-") as place, Stop().listening() as stop:
        workers = [_start(number, count, work, options, Path(place), command, plugins) for number in range(count)]
        told = False
        while any(worker.process.is_alive() for worker in workers):
            for worker in workers:
                worker.process.join(0.2)
            if stop() is not None and not told:
                told = True
                for worker in workers:
                    if worker.process.is_alive() and worker.process.pid is not None:
                        os.kill(worker.process.pid, signal.SIGTERM)
        stop.check()
        return _together(workers)


def _together(workers: Sequence[Worker]) -> Outcome:
    total = Outcome()
    for worker in workers:
        result = worker.result()
        if result is None:
            why = f"ended with code {worker.process.exitcode}; the same command measures what it left"
            total.failed.append((f"worker {worker.number}", why))
            print_safe(f"worker {worker.number} {why}", sys.stderr)
            continue
        for field in dataclasses.fields(Outcome):
            setattr(total, field.name, getattr(total, field.name) + getattr(result, field.name))
    return total


def _start(
    number: int,
    count: int,
    work: Work,
    options: RunOptions,
    place: Path,
    command: Sequence[str],
    plugins: Sequence[Path],
) -> Worker:
    threads = max((os.cpu_count() or 1) // count, 1)
    own = dataclasses.replace(options, device=_device(options.device, number))
    outcome = place / f"outcome-{number}.json"
    arguments = (number, work, own, place, outcome, list(command), [str(path) for path in plugins])
    process = multiprocessing.get_context("spawn").Process(target=_worker, args=arguments)
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    try:
        os.environ.update(dict.fromkeys(before, str(threads)))  # the new process's libraries read it on import
        process.start()
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    return Worker(number, process, outcome)


def _device(device: str, number: int) -> str:
    """Return the device of one worker; several GPUs are assigned in turn."""
    if device not in ("auto", "cuda"):
        return device
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return f"cuda:{number % gpus}" if gpus else device


def _worker(
    number: int, work: Work, options: RunOptions, place: Path, outcome: Path, command: list[str], plugins: list[str]
) -> None:
    """Run one worker in a process of its own, which ends with code 0 once its outcome is written."""
    from benchmark.tasks import TASKS
    from zoo.registry import METHODS, load_plugin_file

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process handles Ctrl-C and sends SIGTERM to the workers
    for path in plugins:
        load_plugin_file(Path(path), [METHODS, TASKS])
    try:
        with told_exits():
            done = work(options, Claims(place), _WorkerProgress(number), command)
    except Interrupted as error:
        sys.exit(error.exit_code)
    except ZooError as error:
        print_safe(f"worker {number}: {error}", sys.stderr)
        sys.exit(error.exit_code)
    except Exception:  # printed with its traceback, which would otherwise be lost with the process
        print_safe(f"worker {number}: {traceback.format_exc()}", sys.stderr)
        sys.exit(1)
    write_json(outcome, dataclasses.asdict(done))
