"""Three ways to map one function over a plan: a loop, processes of this machine, or a Ray cluster.

The function is `Runner.measure`: one encoder is trained at most once and measured on all its tasks. `--shard I/N` gives
any of them a part of the plan. Imports no torch.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.run.job import WAIT, Job, Work, load_plugins, runner_of
from benchmark.run.plan import EncoderPlan
from benchmark.run.prepare import Inputs, Prepared
from benchmark.run.runner import Outcome, Runner
from benchmark.run.stop import Stop
from benchmark.tasks.base import PairScores
from zoo import __version__
from zoo.errors import Interrupted, MissingError, UsageError, ZooError, said
from zoo.files import atomic_path
from zoo.progress import Bar, Progress

_RETRIES = 3  # how often Ray runs an encoder again whose worker was lost
_STOP_SECONDS = 60.0  # in which the trainings of a Ray cluster write their checkpoints after a signal


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
    for plan in runner.deadly_last(prepared.plan.encoders):
        done = Outcome()
        if runner.pending(plan, done):
            left.append(plan)
        else:
            runner.outcome.add(done)
    if left and ray is None:
        _in_processes(replace(job, given=None), runner, left)
    elif left:
        _on_ray(job, options.device, prepared, runner, left)
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
    return runner.measure(_same(plans, key), _BEGUN[0][1], patience=patience), time.monotonic() - started


def _same(plans: Mapping[str, EncoderPlan], key: str) -> EncoderPlan:
    if key not in plans:
        place = f"{socket.gethostname()}-{os.getpid()}"
        raise ZooError(f"{place} plans another run: its data, weights or code differ from those of the command.")
    return plans[key]


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


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Yield Ray, connected to the cluster at `address`, else to a running one, else to one started for the block.

    Raises MissingError where Ray is not installed, or no cluster answers at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray sends no usage statistics
    os.environ.setdefault("RAY_worker_niceness", "0")  # else its workers wait for all other work on the machine
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise MissingError("--executor ray needs the extra: pip install 'zoo-bench[ray]'.") from error
    if ray.is_initialized():  # by the caller, for example a notebook
        yield ray
        return
    where = address or os.environ.get("RAY_ADDRESS")
    try:
        try:
            ray.init(where or "auto", logging_level="error")
        except ConnectionError:
            if where:
                raise
            # Only this machine may reach the ports, because whoever reaches them can run code.
            ray.init("local", include_dashboard=False, _node_ip_address="127.0.0.1", logging_level="error")
    except (ConnectionError, ImportError, ValueError, RuntimeError) as error:
        raise MissingError(
            f"--executor ray: no cluster answers at {where or 'this machine'} ({said(error):.200}); start one with `ray"
            " start --head`, or give its address as ray://HOST:10001 (with a token: RAY_AUTH_MODE=token)."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def share_of(
    nodes: Sequence[Mapping[str, float]], device: str, encoders: int, gpus_each: float
) -> tuple[int, float, int]:
    """Return (CPUs, GPUs) of one encoder, and how many run at once; `nodes` are the machines' resources in Ray's names.

    Raises UsageError where the cluster has no CPU, or no GPU where one is required.
    """
    nodes = [node for node in nodes if node.get("CPU", 0) >= 1]
    with_gpu = [node for node in nodes if node.get("GPU", 0) >= 1 and device != "cpu"]
    if device.startswith("cuda") and not with_gpu:
        raise UsageError(f"--device {device}: no machine of the Ray cluster has a GPU; give auto or cpu.")
    if not nodes:
        raise UsageError("--executor ray: no machine of the cluster offers a CPU; start one with `ray start`.")
    used = with_gpu or nodes
    places = sum(int(node["GPU"] / gpus_each) if with_gpu else int(node["CPU"]) for node in used)
    at_once = max(min(places, encoders), 1)
    cpus = min(int(sum(node["CPU"] for node in used)) // at_once, *(int(node["CPU"]) for node in used))
    return max(cpus, 1), gpus_each if with_gpu else 0.0, at_once


Files = dict[str, bytes]
"""The content of files by their paths in a results folder."""


@dataclass(frozen=True, kw_only=True)
class RayJob:
    """What a worker of a Ray cluster needs, for whichever encoder."""

    job: Job
    plugins: tuple[tuple[str, str], ...]  # path and text of each file
    mark: tuple[str, str]  # name and text of a file in the results folder
    folder: str  # the working folder of the command
    threads: int
    version: str = __version__


@dataclass(frozen=True)
class Report:
    """What a worker did; records with their pair scores and files of encoders, if it had a folder of its own."""

    outcome: Outcome | None
    seconds: float
    records: Sequence[tuple[Record, PairScores | None]] = ()
    files: Files | None = None


def _on_ray(job: Job, device: str, prepared: Prepared, runner: Runner, plans: Sequence[EncoderPlan]) -> None:
    """Share encoders among the machines of a Ray cluster; each one is a Ray task, which Ray schedules and retries."""
    options, records = replace(job.options, results=job.options.results.resolve()), runner.records
    address = None if options.executor == "ray" else options.executor
    running: dict[Any, EncoderPlan] = {}
    # What Ray prints goes where progress goes: the standard output is for results.
    with (
        redirect_stdout(sys.stderr),
        connected(address) as ray,
        _marked(options.results) as mark,
        Stop().listening() as stop,
    ):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cpus, gpus, at_once = share_of(nodes, device, len(plans), options.gpus_per_encoder)
        runner.runtime.progress.say(f"Ray: {len(nodes)} machines; an encoder has {cpus} CPUs and {gpus:g} GPUs")
        own = replace(
            options, device="cuda" if gpus else "cpu", precision=prepared.runtime.precision, executor=None, shard=None
        )
        texts = tuple((str(path.resolve()), path.read_text("utf-8")) for path in job.plugins)
        progress = Progress(enabled=runner.runtime.progress.enabled)
        of_ray = RayJob(
            job=replace(job, options=own, progress=progress),
            plugins=texts,
            mark=mark,
            folder=str(Path.cwd()),
            threads=cpus,
        )
        shared_job, inputs = ray.put(of_ray), ray.put(Inputs(texts=prepared.inputs.texts))
        # A process that has used CUDA keeps a context and cached memory on the GPU until it ends.
        task = ray.remote(max_calls=1)(measured_on_ray) if gpus else ray.remote(measured_on_ray)
        task = task.options(num_cpus=cpus, num_gpus=gpus, max_retries=_RETRIES)

        def submit(plan: EncoderPlan, patience: float) -> Any:
            cells = frozenset(cell.key for cell in runner.pending(plan, Outcome()))
            trained = files_of(options.results, records.encoder_folder(plan.name, plan.key))
            # In a list: Ray fetches only what a worker asks for.
            return task.remote(shared_job, inputs, plan.key, cells, [ray.put(trained)] if trained else [], patience)

        def ended(refs: Sequence[Any]) -> Iterable[Any]:
            found: Iterable[Any] = ray.wait(refs, num_returns=1, timeout=WAIT)[0]
            return found

        def result(plan: EncoderPlan, ref: Any) -> tuple[Outcome | None, float]:
            try:
                report: Report = ray.get(ref)
            except ray.exceptions.RayTaskError as error:
                return Outcome(failed=[(plan.title, said(error.cause))]), 0.0
            except ray.exceptions.RayError as error:  # its worker or machine was lost, and Ray has tried again
                why = f"its worker was lost {_RETRIES + 1} times ({type(error).__name__}); the same command measures it"
                return Outcome(failed=[(plan.title, why)]), 0.0
            keep(records, report)
            return report.outcome, report.seconds

        try:
            Work(runner, plans, at_once, submit, ended, result).carry_out(stop, running)
        finally:
            for ref in running:
                ray.cancel(ref, force=False)  # as Ctrl-C would
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=_STOP_SECONDS)
            for ref in running:
                with suppress(ray.exceptions.RayError):
                    keep(records, ray.get(ref, timeout=0))


@contextmanager
def _marked(results: Path) -> Iterator[tuple[str, str]]:
    """Put a file into the results folder, by which a worker recognises whether it has access to the same folder."""
    with tempfile.NamedTemporaryFile("w", dir=results, prefix=".shared-") as file:
        file.write(file.name)
        file.flush()
        yield Path(file.name).name, file.name


def measured_on_ray(
    of_ray: RayJob, inputs: Inputs, key: str, cells: frozenset[str], trained: Sequence[Any], patience: float
) -> Report:
    """Measure an encoder; this is the function of a Ray task.

    Raises ZooError where the worker has another version of the project, other data or other weights.
    """
    started = time.monotonic()
    prepared, job = _planned_on_ray(of_ray, inputs)
    plan = _same({plan.key: plan for plan in prepared.plan.encoders}, key)
    name, text = of_ray.mark
    try:
        shared = (job.options.results / name).read_text("utf-8") == text
    except OSError:
        shared = False
    with tempfile.TemporaryDirectory(prefix="zoo-bench-") as place, Stop(tell=False).listening() as stop:
        if not shared and trained:
            keep(Records(Path(place)), Report(None, 0.0, files=importlib.import_module("ray").get(trained[0])))
        if not shared:
            plan = replace(plan, cells=tuple(cell for cell in plan.cells if cell.key in cells))
        runner = runner_of(prepared, job, None if shared else Path(place))
        done: Outcome | None = Outcome()
        with suppress(Interrupted):
            done = runner.measure(plan, stop, patience=patience)
        if shared:
            return Report(done, time.monotonic() - started)
        own = runner.records
        made = [(record, own.pair_scores(record) if record.get("pairs") else None) for record in own.all()]
        files = files_of(Path(place), own.encoder_folder(plan.name, plan.key))
        return Report(done, time.monotonic() - started, made, files)


_PLANNED: dict[str, tuple[Prepared, Job]] = {}  # of this process, by the mark of the command's run


def _planned_on_ray(of_ray: RayJob, inputs: Inputs) -> tuple[Prepared, Job]:
    if of_ray.version != __version__:
        raise ZooError(
            f"{socket.gethostname()} has zoo-bench {__version__} and the command {of_ray.version}: install one"
            " everywhere."
        )
    if of_ray.mark[1] not in _PLANNED:
        with suppress(OSError):  # on another file system the folder does not exist; only absolute paths can work there
            os.chdir(of_ray.folder)
        import torch

        torch.set_num_threads(of_ray.threads)
        for name, text in of_ray.plugins:
            path = Path(name)
            if not path.is_file():
                path = Path(tempfile.mkdtemp(prefix="zoo-bench-plugin-")) / path.name
                path.write_text(text, encoding="utf-8")
            load_plugins([path])
        prepared = replace(of_ray.job, progress=Progress.silent()).prepare(write=False, inputs=inputs)
        prepared = replace(prepared, runtime=replace(prepared.runtime, progress=of_ray.job.progress or Progress()))
        _PLANNED[of_ray.mark[1]] = prepared, of_ray.job
    return _PLANNED[of_ray.mark[1]]


def files_of(results: Path, folder: Path) -> Files:
    """Return the files of a trained encoder's folder in a results folder; {} where it is not finished."""
    paths = folder.rglob("*") if (folder / "fit.json").is_file() else ()
    return {path.relative_to(results).as_posix(): path.read_bytes() for path in paths if path.is_file()}


def keep(records: Records, report: Report) -> None:
    """Write what was returned through Ray to the results folder; fit.json last, which makes the others count."""
    for name, content in sorted((report.files or {}).items(), key=lambda item: item[0].endswith("fit.json")):
        with atomic_path(records.folder / name) as new:
            new.write_bytes(content)
    for record, pairs in report.records:
        records.write({name: value for name, value in record.items() if name != "pairs"}, pairs)
