"""A run on a Ray cluster; a machine without the results folder measures in its own folder and returns the files."""

from __future__ import annotations

import functools
import importlib
import os
import platform
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmark.keys import libraries
from benchmark.records.folder import Records
from benchmark.run.estimate import memory_of
from benchmark.run.nodes import Ground, Nodes, Report, ground_of
from benchmark.run.options import RunOptions
from benchmark.run.plan import EncoderPlan, Request, Run, TrainingTexts
from benchmark.run.prepare import planned
from benchmark.run.runner import Outcome, Runner, Workers
from benchmark.run.stop import Stop
from benchmark.tasks import TASKS
from zoo.errors import Interrupted, MissingError, UsageError, ZooError, error_text
from zoo.extras import optional
from zoo.files import atomic_path
from zoo.limits import memory_here
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
    run = planned(replace(request, progress=Progress.silent()), write=False)
    return replace(run, runtime=replace(run.runtime, progress=progress))


def plan_of(run: Run, key: str) -> EncoderPlan:
    """Return the plan that the command gave a worker; raises ZooError where the worker plans another run."""
    for plan in run.encoders:
        if plan.key == key:
            return plan
    place = f"{socket.gethostname()}-{os.getpid()}"
    raise ZooError(f"{place} plans another run: its data, weights or code differ from those of the command.")


# After a signal, the trainings of a cluster have so long to write their checkpoints and give back what they have.
_STOP_SECONDS = 8.0


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
            ray.init(where or "auto", logging_level="error", log_to_driver=False)
        except ConnectionError:
            if where:
                raise
            # Only this machine may reach the ports, because whoever reaches them can run code.
            local = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            ray.init("local", logging_level="error", log_to_driver=False, **local)
    except Exception as error:
        # The boundary to Ray, which raises many types; a node that does not start in time has a plain Exception.
        raise MissingError(
            f"--executor ray: no cluster answers at {where or 'this machine'} ({error_text(error):.200}); start"
            " one with `ray start --head`, or give its address as ray://HOST:10001. If it asks for a token, set"
            " RAY_AUTH_MODE=token."
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


class _Kept(Progress):
    """Keeps what is said in a worker, which prints nothing."""

    def __init__(self) -> None:
        super().__init__(enabled=False, speaker="worker: ")
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def on_ray(runner: Runner, plans: Sequence[EncoderPlan], device: str) -> None:
    """Share encoders among the nodes of a Ray cluster that can measure them."""
    run, records = runner.run, runner.records
    options = replace(run.options, results=run.options.results.resolve())
    progress = run.runtime.progress
    # What Ray prints of a lost worker, a paragraph each time, is said once in a line of ours.
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        connected(None if options.executor == "ray" else options.executor) as ray,
        tempfile.NamedTemporaryFile("w", dir=options.results, prefix=".shared-") as mark,
        Stop().listening() as stop,
        progress.bar("encoders", len(plans)) as bar,
    ):
        # A worker that reads this has access to the same folder.
        mark.write(mark.name)
        mark.flush()
        listed = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cpus, gpus, at_once = share_of(listed, device, len(plans), options.gpus_per_encoder)
        runner.say(f"Ray: {len(listed)} nodes; an encoder has {cpus} CPUs and {gpus:g} GPUs")
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
        asked, measured = (ray.remote(max_calls=1)(f) if gpus else ray.remote(f) for f in (asked_there, measured_there))

        def there(remote: Any, node: str, cpus: int) -> Any:
            affinity = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
            where = affinity(node, soft=False)
            return remote.options(num_cpus=cpus, num_gpus=gpus, max_retries=0, scheduling_strategy=where)

        def start(plan: EncoderPlan, node: str, patience: float) -> Any:
            cells = frozenset(cell.key for cell in runner.pending(plan, Outcome()))
            trained = files_of(options.results, records.encoder_folder(plan.row.name, plan.key))
            # In a list: Ray fetches only what a worker asks for.
            held = [ray.put(trained)] if trained else []
            return there(measured, node, cpus).remote(shared, texts, plan.key, cells, held, patience)

        nodes = Nodes(
            ray,
            _ground(run),
            runner.say,
            slots=lambda has: int(has.get("GPU", 0) / gpus if gpus else has.get("CPU", 0) / cpus),
            ask=lambda node: there(asked, node, 0).remote(shared, texts),
            start=start,
            pending=lambda plan: len(runner.pending(plan, Outcome())),
            keep=functools.partial(keep, records),
            least=max((memory_of(plan) for plan in plans if plan.row.trained), default=0),
            address=_head(ray, options.executor),
            bar=bar,
        )
        try:
            Workers(at_once, nodes.submit, nodes.ended, nodes.result).measure(runner, plans, stop, {})
        finally:
            for job in nodes.running:
                ray.cancel(job, force=False)
            if nodes.running:
                ray.wait(list(nodes.running), num_returns=len(nodes.running), timeout=_STOP_SECONDS)
            for job in nodes.running:
                with suppress(ray.exceptions.RayError):
                    keep(records, ray.get(job, timeout=0))
            for line in nodes.summary():
                runner.say(line)


def _head(ray: Any, executor: str | None) -> str:
    """Return HOST:PORT of the head; "" where Ray does not say."""
    if executor not in (None, "ray"):
        return str(executor).removeprefix("ray://")
    with suppress(Exception):
        # What a version of Ray raises where it has none is its own matter: then the head is not watched.
        return str(ray.get_runtime_context().gcs_address)
    return ""


def _ground(run: Run) -> Ground:
    niceness = os.nice(0) if hasattr(os, "nice") else 0
    return ground_of(run, {"python": platform.python_version(), **libraries()}, niceness, memory_here())


def asked_there(worker: RayWorker, texts: Mapping[str, TrainingTexts]) -> Ground:
    """Return, as a Ray task, what the command's run rests on in this node."""
    return _ground(_run_there(worker, texts))


def measured_there(
    worker: RayWorker,
    texts: Mapping[str, TrainingTexts],
    key: str,
    cells: frozenset[str],
    trained: Sequence[Any],
    patience: float,
) -> Report:
    """Measure an encoder as a Ray task; raises ZooError where the worker has other versions, data or weights."""
    started = time.monotonic()
    run = _run_there(worker, texts)
    plan, (name, text) = plan_of(run, key), worker.mark
    lines = getattr(run.runtime.progress, "lines", [])
    lines.clear()
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
        report = Report(done, time.monotonic() - started, lines=tuple(lines))
        if shared:
            return report
        records = runner.records
        kept = [(record, records.pair_scores(record) if record.get("pairs") else None) for record in records.all()]
        files = files_of(Path(place), records.encoder_folder(plan.row.name, plan.key))
        return replace(report, records=kept, files=files)


_RUNS: dict[str, Run] = {}


def _run_there(worker: RayWorker, texts: Mapping[str, TrainingTexts]) -> Run:
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
        _RUNS[worker.mark[1]] = prepared(replace(worker.request, texts=texts, progress=_Kept()))
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
