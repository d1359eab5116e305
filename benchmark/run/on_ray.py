"""The plan of a run on a Ray cluster, which schedules encoders, tries them again and moves bytes.

A machine without access to the results folder measures in one of its own, and returns the files.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.run.job import WAIT, Job, Work, load_plugins, planned, runner_of
from benchmark.run.plan import EncoderPlan
from benchmark.run.prepare import Inputs, Prepared
from benchmark.run.runner import Outcome, Runner
from benchmark.run.stop import Stop
from benchmark.tasks.base import PairScores
from zoo import __version__
from zoo.errors import Interrupted, MissingError, UsageError, ZooError, said
from zoo.files import atomic_path
from zoo.progress import Progress

_RETRIES = 3  # how often Ray runs an encoder again whose worker was lost
_STOP_SECONDS = 60.0  # in which the trainings of a Ray cluster write their checkpoints after a signal


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


def measure_on_ray(job: Job, device: str, prepared: Prepared, runner: Runner, plans: Sequence[EncoderPlan]) -> None:
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
        task = ray.remote(max_calls=1)(measured_there) if gpus else ray.remote(measured_there)
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


def measured_there(
    of_ray: RayJob, inputs: Inputs, key: str, cells: frozenset[str], trained: Sequence[Any], patience: float
) -> Report:
    """Measure an encoder; this is the function of a Ray task.

    Raises ZooError where the worker has another version of the project, other data or other weights.
    """
    started = time.monotonic()
    prepared, job = _planned_on_ray(of_ray, inputs)
    plan = planned({plan.key: plan for plan in prepared.plan.encoders}, key)
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
