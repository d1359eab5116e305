"""A run on a Ray cluster; a machine without the results folder measures in its own folder and returns the files."""

from __future__ import annotations

import functools
import importlib
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmark.keys import code_digest
from benchmark.records.folder import Records
from benchmark.records.record import Record
from benchmark.run.options import RunOptions
from benchmark.run.plan import EncoderPlan, Request, Run, TrainingTexts
from benchmark.run.prepare import prepare
from benchmark.run.runner import WAIT, Outcome, Runner, Workers
from benchmark.run.stop import Stop
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairScores
from zoo.errors import Interrupted, MissingError, UsageError, ZooError, error_text
from zoo.extras import optional
from zoo.files import atomic_path
from zoo.plugins import METHODS, load_plugin_file
from zoo.progress import Progress


def load_plugins(paths: Iterable[Path]) -> dict[Path, str]:
    """Run plugin files, which register methods and tasks; returns the broken ones with the reason."""
    reasons = {path: load_plugin_file(path, [METHODS, TASKS]) for path in paths}
    return {path: reason for path, reason in reasons.items() if reason is not None}


def for_worker(run: Run, options: RunOptions) -> Request:
    """Return the request by which another process prepares the same run."""
    progress = Progress(enabled=run.runtime.progress.enabled)
    return replace(run.request, options=options, progress=progress, texts={})


def prepared(request: Request) -> Run:
    """Return the run of a command as a worker prepares it, which prints nothing of that."""
    progress = request.progress or Progress()
    run = prepare(replace(request, progress=Progress.silent()), write=False)
    return replace(run, runtime=replace(run.runtime, progress=progress))


def planned(run: Run, key: str) -> EncoderPlan:
    """Return the plan that the command gave a worker; raises ZooError where the worker plans another run."""
    for plan in run.encoders:
        if plan.key == key:
            return plan
    place = f"{socket.gethostname()}-{os.getpid()}"
    raise ZooError(f"{place} plans another run: its data, weights or code differ from those of the command.")


_RETRIES = 3
# After a signal, the trainings of a cluster have so long to write their checkpoints.
_STOP_SECONDS = 60.0


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Yield Ray, connected to `address`, a running cluster or a new cluster; raises MissingError without either."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Otherwise its workers wait for all other work on the machine.
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray = optional("ray", "ray", "--executor ray")
    if ray.is_initialized():
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
            f"--executor ray: no cluster answers at {where or 'this machine'} ({error_text(error):.200}); start"
            " one with `ray start --head`, or give its address as ray://HOST:10001 (with a token: RAY_AUTH_MODE=token)."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def share_of(nodes: Sequence[Mapping[str, float]], device: str, plans: int, gpus_each: float) -> tuple[int, float, int]:
    """Return (CPUs, GPUs) of an encoder, and how many run at once; raises UsageError without a CPU or wanted GPU."""
    nodes = [node for node in nodes if node.get("CPU", 0) >= 1]
    with_gpu = [node for node in nodes if node.get("GPU", 0) >= 1 and device != "cpu"]
    if device.startswith("mps"):
        raise UsageError(f"--device {device}: workers of Ray use cpu or cuda; leave --executor ray out.")
    if device.startswith("cuda") and not with_gpu:
        raise UsageError(f"--device {device}: no machine of the Ray cluster has a GPU; give auto or cpu.")
    if not nodes:
        raise UsageError("--executor ray: no machine of the cluster offers a CPU; start one with `ray start`.")
    used = with_gpu or nodes
    places = sum(int(node["GPU"] / gpus_each) if with_gpu else int(node["CPU"]) for node in used)
    at_once = max(min(places, plans), 1)
    cpus = min(int(sum(node["CPU"] for node in used)) // at_once, *(int(node["CPU"]) for node in used))
    return max(cpus, 1), gpus_each if with_gpu else 0.0, at_once


@dataclass(frozen=True, kw_only=True)
class RayWorker:
    """What a worker of a Ray cluster needs, for whichever encoder."""

    request: Request
    plugins: tuple[tuple[str, str], ...]
    mark: tuple[str, str]
    folder: str
    threads: int
    code: str = field(default_factory=code_digest)


@dataclass(frozen=True)
class Report:
    """What a worker did; records with their pair scores and files of encoders, if it had a folder of its own."""

    outcome: Outcome | None
    seconds: float
    records: Sequence[tuple[Record, PairScores | None]] = ()
    files: Mapping[str, bytes] | None = None


def on_ray(runner: Runner, plans: Sequence[EncoderPlan], device: str) -> None:
    """Share encoders among the machines of a Ray cluster; Ray schedules and retries each as a task."""
    run, records, running = runner.run, runner.records, dict[Any, EncoderPlan]()
    options = replace(run.options, results=run.options.results.resolve())
    # What Ray prints goes where progress goes: the standard output is for results.
    with (
        redirect_stdout(sys.stderr),
        connected(None if options.executor == "ray" else options.executor) as ray,
        tempfile.NamedTemporaryFile("w", dir=options.results, prefix=".shared-") as mark,
        Stop().listening() as stop,
    ):
        # A worker that reads this has access to the same folder.
        mark.write(mark.name)
        mark.flush()
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cpus, gpus, at_once = share_of(nodes, device, len(plans), options.gpus_per_encoder)
        runner.say(f"Ray: {len(nodes)} machines; an encoder has {cpus} CPUs and {gpus:g} GPUs")
        precision, place = run.runtime.precision, "cuda" if gpus else "cpu"
        worker = RayWorker(
            request=for_worker(run, replace(options, device=place, precision=precision, executor=None, shard=None)),
            plugins=tuple((str(path.resolve()), path.read_text("utf-8")) for path in run.request.plugins),
            mark=(Path(mark.name).name, mark.name),
            folder=str(Path.cwd()),
            threads=cpus,
        )
        shared, texts = ray.put(worker), ray.put(run.texts)
        # A process that has used CUDA keeps a context and cached memory on the GPU until it ends.
        remote = ray.remote(max_calls=1)(measured_there) if gpus else ray.remote(measured_there)
        remote = remote.options(num_cpus=cpus, num_gpus=gpus, max_retries=_RETRIES)

        def submit(plan: EncoderPlan, patience: float) -> Any:
            cells = frozenset(cell.key for cell in runner.pending(plan, Outcome()))
            trained = files_of(options.results, records.encoder_folder(plan.row.name, plan.key))
            # In a list: Ray fetches only what a worker asks for.
            return remote.remote(shared, texts, plan.key, cells, [ray.put(trained)] if trained else [], patience)

        def result(plan: EncoderPlan, job: Any) -> tuple[Outcome | None, float]:
            try:
                report: Report = ray.get(job)
            except ray.exceptions.RayTaskError as error:
                return Outcome(failed=[(plan.title, error_text(error.cause))]), 0.0
            except ray.exceptions.RayError as error:
                why = f"its worker was lost {_RETRIES + 1} times ({type(error).__name__}); the same command measures it"
                return Outcome(failed=[(plan.title, why)]), 0.0
            keep(records, report)
            return report.outcome, report.seconds

        try:
            ended = functools.partial(ray.wait, num_returns=1, timeout=WAIT)
            workers = Workers(at_once, submit, lambda jobs: ended(jobs)[0], result)
            workers.measure(runner, plans, stop, running)
        finally:
            for job in running:
                ray.cancel(job, force=False)
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=_STOP_SECONDS)
            for job in running:
                with suppress(ray.exceptions.RayError):
                    keep(records, ray.get(job, timeout=0))


def measured_there(
    worker: RayWorker,
    texts: Mapping[str, TrainingTexts],
    key: str,
    cells: frozenset[str],
    trained: Sequence[Any],
    patience: float,
) -> Report:
    """Measure an encoder as a Ray task; raises ZooError where the worker has other code, data or weights."""
    started = time.monotonic()
    run = _run_there(worker, texts)
    plan, (name, text) = planned(run, key), worker.mark
    try:
        shared = (run.options.results / name).read_text("utf-8") == text
    except OSError:
        shared = False
    with tempfile.TemporaryDirectory(prefix="zoo-bench-") as place, Stop(tell=False).listening() as stop:
        if not shared:
            plan = replace(plan, cells=tuple(cell for cell in plan.cells if cell.key in cells))
            if trained:
                keep(Records(Path(place)), Report(None, 0.0, files=importlib.import_module("ray").get(trained[0])))
        runner = Runner(run, None if shared else Path(place))
        done: Outcome | None = Outcome()
        with suppress(Interrupted):
            done = runner.measure(plan, stop, patience=patience)
        if shared:
            return Report(done, time.monotonic() - started)
        records = runner.records
        kept = [(record, records.pair_scores(record) if record.get("pairs") else None) for record in records.all()]
        files = files_of(Path(place), records.encoder_folder(plan.row.name, plan.key))
        return Report(done, time.monotonic() - started, kept, files)


_RUNS: dict[str, Run] = {}


def _run_there(worker: RayWorker, texts: Mapping[str, TrainingTexts]) -> Run:
    if worker.code != code_digest():
        raise ZooError(f"{socket.gethostname()} has other code of zoo-bench than the command: install one everywhere.")
    if worker.mark[1] not in _RUNS:
        # On another file system the folder does not exist; only absolute paths can work there.
        with suppress(OSError):
            os.chdir(worker.folder)
        import torch

        torch.set_num_threads(worker.threads)
        for name, text in worker.plugins:
            path = Path(name)
            if not path.is_file():
                path = Path(tempfile.mkdtemp(prefix="zoo-bench-plugin-")) / path.name
                path.write_text(text, encoding="utf-8")
            load_plugins([path])
        _RUNS[worker.mark[1]] = prepared(replace(worker.request, texts=texts))
    return _RUNS[worker.mark[1]]


def files_of(results: Path, folder: Path) -> dict[str, bytes]:
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
