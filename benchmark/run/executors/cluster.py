"""Executes a plan on the machines of a Ray cluster: each encoder is one Ray task, which Ray schedules.

The task trains and measures its encoder as a run on one machine does. If it can access the command's results folder, it
works there; otherwise it works in a folder of its own, and records, pair scores and trained weights are returned
through Ray's object store. So are the checkpoints of its training, from which another worker goes on if it is lost.
"""

from __future__ import annotations

import importlib
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmark.run.estimate import Remaining
from benchmark.run.executors import Executor, Job
from benchmark.run.executors.board import Board, News, ray_library, ray_messages
from benchmark.run.executors.remote import EncoderJob, Report, files_of, keep, saved, work
from benchmark.run.executors.shares import Share, gpu_memory, memory_of, said_shares
from benchmark.run.plan import EncoderPlan, text_kind
from benchmark.run.prepare import Prepared
from benchmark.run.runner import Outcome, Runner
from benchmark.run.stop import Stop
from zoo.errors import MissingError, UsageError, ZooError
from zoo.files import write_text
from zoo.progress import Bar, Progress

_RETRIES = 3  # how often an encoder is tried again after its worker was lost
_STOP_SECONDS = 60.0  # seconds in which trainings write their checkpoints after a signal
_CONNECTIONS, _NOT_STARTED = 3, "Initialization failure"  # the process that Ray starts for a client may end at once
_WAIT_SECONDS = 0.5  # seconds in which ended tasks are collected, so that many short ones are not waited for singly


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Yield Ray, connected to the cluster at `address`, else to a running one, else to one started for the block.

    Raises MissingError where no cluster answers at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray sends no usage statistics
    # A cluster that the command starts is as urgent as the command. By default Ray makes its workers wait for all other
    # work on the machine.
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray = ray_library()
    if ray.is_initialized():  # by the caller, for example a notebook
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    where = address or os.environ.get("RAY_ADDRESS") or "this machine"
    try:
        try:
            _connect(ray, address or os.environ.get("RAY_ADDRESS") or "auto", quiet, _CONNECTIONS)
        except ConnectionError:
            if address or os.environ.get("RAY_ADDRESS"):
                raise
            # Only this machine may reach the ports, because whoever reaches them can run code.
            ray.init("local", include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
    except (ConnectionError, ImportError, ValueError, RuntimeError) as error:
        token = " Where the cluster asks for a token, set RAY_AUTH_MODE=token." if where.startswith("ray://") else ""
        raise MissingError(
            f"--executor ray: no cluster answers at {where} ({str(error).splitlines()[0][:200]}); start one with `ray"
            f" start --head`, or give its address as ray://HOST:10001.{token}"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str, options: dict[str, Any], tries: int) -> None:
    try:
        ray.init(address, **options)
    except ConnectionError as error:
        if tries == 1 or _NOT_STARTED not in str(error):
            raise
        _connect(ray, address, options, tries - 1)


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
            for plan in prepared.plan.encoders:
                own.set_aside_changed(plan)
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
            corpora = {kind: ray.put(text) for kind, text in prepared.inputs.texts.items()}
            jobs = {}
            for number, plan, cells in left:
                kind = text_kind(plan.traits)
                job_of = EncoderJob(
                    job=common,
                    row=plan.name,
                    called=plan.called,
                    key=plan.key,
                    cells=frozenset(cell.key for cell in cells),
                    number=(number, len(prepared.plan.encoders)),
                    plugins=texts,
                    mark=mark,
                    folder=str(Path.cwd()),
                    threads=shares[plan.key].cpus,
                    texts=(kind, corpora[kind]) if kind in corpora else None,
                )
                jobs[plan.key] = job_of, plan
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
        jobs: dict[str, tuple[EncoderJob, EncoderPlan]],
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
        # A process that has used CUDA keeps a context and cached memory on the GPU until it ends.
        gpus = any(share.gpus for share in shares.values())
        self.task = ray.remote(max_calls=1)(work) if gpus else ray.remote(work)
        self.shares = shares
        self.tries = dict.fromkeys(jobs, 0)
        self.running: dict[object, str] = {}  # the key of the encoder of each task
        self.asked: object = None  # the board's answer that is waited for

    def run(self) -> Outcome:
        """Run all jobs; raises Interrupted after a signal, once the trainings have written their checkpoints."""
        total = len(self.jobs)
        showing = self.progress.bar("encoders", total)
        with Stop().listening() as stop, showing as bar:
            for key in self.jobs:
                self._submit(key)
            while self.running:
                waiting = list(self.running)
                done, _ = self.ray.wait(waiting, num_returns=len(waiting), timeout=_WAIT_SECONDS)
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

    def _submit(self, key: str) -> None:
        self.tries[key] += 1
        share, (job, plan) = self.shares[key], self.jobs[key]
        begun = bool(saved(self.own.out, self._folder(plan)))
        # Ray itself would try again without the files of the try before.
        task = self.task.options(num_cpus=share.cpus, num_gpus=share.gpus, memory=share.memory, max_retries=0)
        self.running[task.remote(replace(job, begun=begun), self.board)] = key

    def _folder(self, plan: EncoderPlan) -> str:
        return self.own.records.encoder_folder(plan.name, plan.key).name

    def _finish(self, ref: Any, stop: Stop) -> None:
        key = self.running.pop(ref)
        outcome, again = self.own.outcome, self.tries[key] <= _RETRIES and stop() is None
        try:
            report: Report = self.ray.get(ref)
        except self.ray.exceptions.TaskCancelledError:
            return
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause
            self._failed(key, str(cause) if isinstance(cause, ZooError) else f"{type(cause).__name__}: {cause}")
            return
        except self.ray.exceptions.RayError as error:  # its worker or machine was lost
            if again:
                self.progress.say(f"{self.jobs[key][1].title}: its worker was lost; another one takes it")
                self._submit(key)
                return
            lost = f"its worker was lost {self.tries[key]} times ({type(error).__name__}); the same command measures it"
            self._failed(key, lost)
            return
        keep(self.own.records, report)
        if report.stopped and again:
            self._submit(key)  # the signal was for its machine, not for the run
            return
        # Cells that the task found finished were measured by an earlier try, whose worker was lost.
        outcome.measured += report.outcome.measured + report.outcome.kept
        outcome.failed += report.outcome.failed
        outcome.missing += report.outcome.missing
        outcome.set_aside += report.outcome.set_aside

    def _failed(self, key: str, reason: str) -> None:
        _, plan = self.jobs[key]
        self.own.outcome.failed.append((plan.title, reason))
        self.progress.say(f"{plan.title}: failed: {reason}")

    def _tell(self, bar: Bar, total: int, seconds: float = 5) -> None:
        """Print the lines and states that the tasks have sent to the board, and pass on the files of trainings."""
        if self.asked is None:
            self.asked = self.board.take.remote()
        try:
            news: News = self.ray.get(self.asked, timeout=seconds)
        except self.ray.exceptions.GetTimeoutError:  # another question would lose the lines of this answer
            return
        except self.ray.exceptions.RayError:  # the board was lost; Ray starts another one
            self.asked = None
            return
        self.asked = None
        for line in news.lines:
            self.progress.say(line)
        running = set(self.running.values())
        for key in news.saved.keys() & running:  # not of an encoder that has ended since
            try:
                keep(self.own.records, Report(files=news.saved[key]))
            except ZooError as error:
                self.progress.say(f"warning: {self.jobs[key][1].title}: its checkpoint is not kept: {error}")
        for key in news.wanted:
            self.board.give.remote(key, self.ray.put(files_of(self.own.out, self._folder(self.jobs[key][1]))))
        notes = [f"{self.jobs[key][1].label}: {note}" for key, note in sorted(news.states.items()) if key in running]
        bar.update(total - len(self.running), "; ".join(notes[:4]) + (" ..." if len(notes) > 4 else ""))

    def _cancel(self) -> None:
        """Interrupt all tasks as Ctrl-C would, kill those that do not stop, and keep what they have saved."""
        for ref in self.running:
            self.ray.cancel(ref, force=False)
        until = time.monotonic() + _STOP_SECONDS
        self.ray.wait(list(self.running), num_returns=len(self.running), timeout=_STOP_SECONDS)
        for ref in list(self.running):
            with suppress(self.ray.exceptions.RayError):
                if time.monotonic() >= until:
                    self.ray.cancel(ref, force=True)
                keep(self.own.records, self.ray.get(ref, timeout=1))
            del self.running[ref]
