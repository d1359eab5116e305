"""Executes a plan on the machines of a Ray cluster: each encoder is one Ray task, which Ray schedules.

The task trains and measures its encoder as a run on one machine does. If it can access the command's results folder, it
works there; otherwise it works in a folder of its own, and records, pair scores and trained weights are returned
through Ray's object store.
"""

from __future__ import annotations

import functools
import importlib
import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.records.schema import parse_record
from benchmark.records.store import Records
from benchmark.run.estimate import Remaining
from benchmark.run.executors import Executor, Job, load_plugins
from benchmark.run.executors.board import Board, BoardProgress, ray_messages
from benchmark.run.executors.here import runner_of
from benchmark.run.executors.shares import Share, gpu_memory, memory_of, said_shares
from benchmark.run.plan import EncoderPlan, Plan
from benchmark.run.prepare import Prepared
from benchmark.run.runner import Outcome, Runner
from benchmark.run.stop import Stop
from zoo import __version__
from zoo.errors import Interrupted, MissingError, UsageError, ZooError
from zoo.files import atomic_path, write_text
from zoo.progress import Bar, Progress

_RETRIES = 3  # how often an encoder is tried again after its worker was lost
_STOP_SECONDS = 60.0  # seconds in which trainings write their checkpoints after a signal


@dataclass(frozen=True)
class EncoderJob:
    """What a worker needs for one encoder."""

    job: Job
    key: str  # of the encoder
    cells: frozenset[str]  # keys of the unfinished cells
    number: tuple[int, int]  # the encoder's number in the plan, and the number of encoders
    plugins: tuple[tuple[str, str], ...]  # path and text of each file
    mark: tuple[str, str]  # name and text of a file in the results folder
    folder: str  # the working folder of the command
    threads: int
    version: str = __version__


@dataclass
class Report:
    """What a task did; one without the command's folder adds `records` (JSON, predicted, gold) and `files`.

    Ray keeps a report in its object store, out of which the command reads the files without a copy.
    """

    outcome: Outcome = field(default_factory=Outcome)
    records: list[tuple[bytes, bytes | None, bytes | None]] = field(default_factory=list)
    files: dict[str, NDArray[np.uint8]] = field(default_factory=dict)  # of encoders, by their paths in the folder
    stopped: bool = False


def work(job: EncoderJob, board: Any) -> Report:
    """Train and measure one encoder; this is the function of a Ray task.

    Raises ZooError where the worker has another version of the project, other data or other weights.
    """
    if job.version != __version__:
        raise ZooError(f"{_here()} has zoo-bench {__version__} and the command {job.version}: install one everywhere.")
    with suppress(OSError):  # on another file system the folder does not exist; only absolute paths can work there
        os.chdir(job.folder)
    import torch

    torch.set_num_threads(job.threads)
    _load_plugins(job.plugins)
    prepared = _prepared(job.job)
    plan = next((plan for plan in prepared.plan.encoders if plan.key == job.key), None)
    cells = () if plan is None else tuple(cell for cell in plan.cells if cell.key in job.cells)
    if plan is None or len(cells) < len(job.cells):
        raise ZooError(f"{_here()} plans another run: its data, weights or code differ from those of the command.")
    own = replace(
        prepared,
        plan=Plan([replace(plan, cells=cells)]),
        runtime=replace(prepared.runtime, progress=BoardProgress(board, job.key, f"{_here()}: ")),
    )
    name, text = job.mark
    try:
        shared = (job.job.options.results / name).read_text("utf-8") == text
    except OSError:
        shared = False
    if shared:
        return _measure(own, job.job, job.number)
    with tempfile.TemporaryDirectory(prefix="zoo-bench-") as place:
        elsewhere = replace(job.job, options=replace(job.job.options, results=Path(place)))
        report = _measure(own, elsewhere, job.number)
        report.records = list(_packed(Records(Path(place))))
        paths = [path for path in Path(place).glob("encoders/*/**/*") if path.is_file()]
        report.files = {path.relative_to(place).as_posix(): np.fromfile(path, np.uint8) for path in paths}
        report.outcome.set_aside = []
        return report


def _measure(prepared: Prepared, job: Job, number: tuple[int, int]) -> Report:
    runner = runner_of(prepared, job)
    runner.number = number
    try:
        return Report(runner.run(prepared.plan))
    except Interrupted:
        return Report(runner.outcome, stopped=True)


def _packed(records: Records) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    for path in sorted((records.folder / "records").glob("*/*.json")):
        content = path.read_bytes()
        record = parse_record(content, str(path))
        if not record.get("pairs"):
            yield content, None, None
            continue
        predicted, gold = records.pair_scores(record)
        yield content, predicted.tobytes(), gold.tobytes()


def keep(records: Records, report: Report) -> None:
    """Write what was returned through Ray to the results folder; raises CorruptError for an invalid record."""
    for name, data in report.files.items():
        path = records.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as new:
            data.tofile(new)
    for content, predicted, gold in report.records:
        record = parse_record(content, "a record from another machine")
        pairs = None
        if predicted is not None and gold is not None:
            pairs = np.frombuffer(predicted, "<f4"), np.frombuffer(gold, "<f4")
        records.write({name: value for name, value in record.items() if name != "pairs"}, pairs)


def _here() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


@functools.lru_cache(maxsize=1)  # a worker measures many encoders of one run, one after the other
def _prepared(job: Job) -> Prepared:
    return replace(job, progress=Progress.silent()).prepare(write=False)


@functools.cache
def _load_plugins(plugins: tuple[tuple[str, str], ...]) -> None:
    for name, text in plugins:
        path = Path(name)
        if not path.is_file():
            path = Path(tempfile.mkdtemp(prefix="zoo-bench-plugin-")) / path.name
            path.write_text(text, encoding="utf-8")
        load_plugins([path])


def ray_library() -> Any:
    """Return the module `ray`; raises MissingError without the extra."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MissingError("--executor ray needs the extra: pip install 'zoo-bench[ray]'.") from error


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Yield Ray, connected to the cluster at `address`, else to a running one, else to one started for the block.

    Raises MissingError where no cluster answers at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray sends no usage statistics
    ray = ray_library()
    if ray.is_initialized():  # by the caller, for example a notebook
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    try:
        try:
            ray.init(address or os.environ.get("RAY_ADDRESS") or "auto", **quiet)
        except ConnectionError:
            if address or os.environ.get("RAY_ADDRESS"):
                raise
            # The cluster that the command starts is as urgent as the command. By default Ray makes its workers wait for
            # all other work on the machine.
            os.environ.setdefault("RAY_worker_niceness", "0")
            # Only this machine may reach the ports, because whoever reaches them can run code.
            ray.init("local", include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
    except (ConnectionError, ImportError, ValueError, RuntimeError) as error:
        where = address or os.environ.get("RAY_ADDRESS") or "this machine"
        raise MissingError(
            f"--executor ray: no cluster answers at {where} ({str(error).splitlines()[0][:200]}); start one with `ray"
            " start --head`, or give its address as ray://HOST:10001."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _list_gpus() -> str:
    """Return the memory of each GPU of this machine in MiB, a line each; "" where that cannot be told."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _smallest_gpu(ray: Any, nodes: Sequence[dict[str, Any]]) -> int | None:
    """Return the bytes of the cluster's smallest GPU; None where a machine with GPUs does not tell."""
    affinity = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    ask = ray.remote(_list_gpus)
    where = [affinity(node["NodeID"], soft=False) for node in nodes if node["Resources"].get("GPU", 0) >= 1]
    asked = [ask.options(num_cpus=0, max_retries=0, scheduling_strategy=one).remote() for one in where]
    try:
        found = [gpu_memory(listed) for listed in ray.get(asked, timeout=60)]
    except ray.exceptions.RayError:  # it was lost, or it is too busy to answer: an encoder has a whole GPU
        return None
    known = [size for size in found if size is not None]
    return min(known) if known and len(known) == len(found) else None


class Ray(Executor):
    """Shares a plan among the machines of a Ray cluster."""

    def __init__(self, address: str | None = None) -> None:
        if address == "":
            raise UsageError("--executor ray://: give ray, or ray://HOST:PORT.")
        self.address = None if address is None else f"ray://{address}"

    def run(self, job: Job) -> tuple[Prepared, Outcome]:
        """Carry out the job on the cluster; if a worker is lost, its encoder runs again on another one."""
        options = replace(job.options, results=job.options.results.resolve())
        if options.workers > 1:
            raise UsageError(f"--workers {options.workers}: a Ray cluster has its own; give --executor or --workers.")
        prepared = job.prepare(replace(job.options, device="cpu" if options.device == "cpu" else "auto"))
        say = prepared.runtime.progress.say
        # Ray may tell of a lost machine as late as in its own shutdown, which is part of `connected`.
        said = ray_messages(prepared.runtime.progress)
        with said, connected(self.address) as ray, _marked(options.results) as mark:
            alive = [node for node in ray.nodes() if node["Alive"]]
            nodes = [node["Resources"] for node in alive]
            own = Runner(options.results, prepared.runtime, remeasure=options.remeasure)
            plans = enumerate(prepared.plan.encoders, 1)
            left = [(number, plan, cells) for number, plan in plans if (cells := own.pending(plan, plan.cells))]
            if not left:
                return prepared, own.outcome
            # The longest first: the last ones are short, and the machines end at about the same time.
            seconds = Remaining.of([plan for _, plan, _ in left], own.records, prepared.runtime).expected
            left.sort(key=lambda one: -seconds[one[1].key])
            gpu_bytes = None if options.device == "cpu" else _smallest_gpu(ray, alive)
            shares = {
                plan.key: Share.of(nodes, options.device, len(left), memory_of(plan), gpu_bytes) for _, plan, _ in left
            }
            device = "cuda" if any(share.gpus for share in shares.values()) else "cpu"
            of_workers = replace(options, device=device, precision=prepared.runtime.precision, executor=None)
            common = replace(job, options=of_workers, progress=None)
            texts = tuple((str(path.resolve()), path.read_text("utf-8")) for path in job.plugins)
            jobs = {}
            for number, plan, cells in left:
                keys, place = frozenset(cell.key for cell in cells), (number, len(prepared.plan.encoders))
                threads = shares[plan.key].cpus
                jobs[EncoderJob(common, plan.key, keys, place, texts, mark, str(Path.cwd()), threads)] = plan
            say(f"Ray: {len(nodes)} node{'s' * (len(nodes) > 1)}; {said_shares(list(shares.values()))}")
            return prepared, _Driver(ray, jobs, shares, own, prepared.runtime.progress, options.fail_fast).run()


@contextmanager
def _marked(results: Path) -> Iterator[tuple[str, str]]:
    """Put a file into the results folder, by which a worker recognises whether it has access to the same folder."""
    token = secrets.token_hex(16)
    path = results / f".shared-{token[:8]}"
    write_text(path, token)
    try:
        yield path.name, token
    finally:
        path.unlink(missing_ok=True)


class _Driver:
    """Submits the jobs to Ray and collects their reports."""

    def __init__(
        self,
        ray: Any,
        jobs: dict[EncoderJob, EncoderPlan],
        shares: dict[str, Share],
        own: Runner,
        progress: Progress,
        fail_fast: bool,
    ) -> None:
        self.ray, self.jobs, self.own = ray, jobs, own
        self.progress, self.fail_fast = progress, fail_fast
        affinity = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        here = affinity(ray.get_runtime_context().get_node_id(), soft=True)
        self.board = ray.remote(Board).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()
        self.task = ray.remote(work)
        self.shares = shares
        self.tries = dict.fromkeys(jobs, 0)
        self.running: dict[object, EncoderJob] = {}
        self.asked: object = None  # the board's answer that is waited for

    def run(self) -> Outcome:
        """Run all jobs; raises Interrupted after a signal, once the trainings have written their checkpoints."""
        total = len(self.jobs)
        showing = self.progress.bar("encoders", total)
        with Stop().listening() as stop, showing as bar:
            for job in self.jobs:
                self._submit(job)
            while self.running:
                done, _ = self.ray.wait(list(self.running), timeout=0.5)
                self._tell(bar, total)
                for ref in done:
                    self._finish(ref, stop)
                failed = self.fail_fast and self.own.outcome.failed
                if stop() is not None or failed:
                    self._cancel()
            for _ in range(2):  # what was asked for before may only come now, and then what has been said since
                self._tell(bar, total, 30)
            stop.check()
        return self.own.outcome

    def _submit(self, job: EncoderJob) -> None:
        self.tries[job] += 1
        share = self.shares[job.key]
        task = self.task.options(num_cpus=share.cpus, num_gpus=share.gpus, memory=share.memory, max_retries=_RETRIES)
        self.running[task.remote(job, self.board)] = job

    def _finish(self, ref: Any, stop: Stop) -> None:
        job = self.running.pop(ref)
        outcome = self.own.outcome
        try:
            report: Report = self.ray.get(ref)
        except self.ray.exceptions.TaskCancelledError:
            return
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause
            self._failed(job, str(cause) if isinstance(cause, ZooError) else f"{type(cause).__name__}: {cause}")
            return
        except self.ray.exceptions.RayError as error:  # workers or machines were lost in every try
            lost = f"its worker was lost {_RETRIES + 1} times ({type(error).__name__}); the same command measures it"
            self._failed(job, lost)
            return
        if report.stopped and stop() is None and self.tries[job] <= _RETRIES:
            self._submit(job)  # the signal was for its machine, not for the run
            return
        keep(self.own.records, report)
        # Cells that the task found finished were measured by an earlier try, whose worker was lost.
        outcome.measured += report.outcome.measured + report.outcome.kept
        outcome.failed += report.outcome.failed
        outcome.missing += report.outcome.missing
        outcome.set_aside += report.outcome.set_aside

    def _failed(self, job: EncoderJob, reason: str) -> None:
        plan = self.jobs[job]
        self.own.outcome.failed.append((plan.title, reason))
        self.progress.say(f"{plan.title}: failed: {reason}")

    def _tell(self, bar: Bar, total: int, seconds: float = 5) -> None:
        """Print the lines and states that the tasks have sent to the board."""
        if self.asked is None:
            self.asked = self.board.take.remote()
        try:
            lines, states = self.ray.get(self.asked, timeout=seconds)
        except self.ray.exceptions.GetTimeoutError:  # another question would lose the lines of this answer
            return
        except self.ray.exceptions.RayError:  # the board was lost; Ray starts another one
            self.asked = None
            return
        self.asked = None
        for line in lines:
            self.progress.say(line)
        names = {job.key: self.jobs[job] for job in self.running.values()}
        notes = [f"{names[key].label}: {note}" for key, note in sorted(states.items()) if key in names]
        bar.update(total - len(self.running), "; ".join(notes[:4]) + (" ..." if len(notes) > 4 else ""))

    def _cancel(self) -> None:
        """Interrupt all tasks as Ctrl-C would, kill those that do not stop, and keep what they have saved."""
        for ref in self.running:
            self.ray.cancel(ref, force=False)
        until = time.monotonic() + _STOP_SECONDS
        self.ray.wait(list(self.running), num_returns=len(self.running), timeout=_STOP_SECONDS)
        for ref, job in list(self.running.items()):
            with suppress(self.ray.exceptions.RayError):
                if time.monotonic() >= until:
                    self.ray.cancel(ref, force=True)
                keep(self.own.records, self.ray.get(ref, timeout=1))
            del self.running[ref], job
