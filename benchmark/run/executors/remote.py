"""What a worker of a Ray cluster does: it plans, trains and measures one encoder, and returns what it made.

A worker that has no access to the command's results folder also sends the checkpoints of its training, and goes on from
those that the command has.
"""

from __future__ import annotations

import functools
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.records.folder import Records
from benchmark.records.record import parse_record
from benchmark.run.executors import Job, load_plugins
from benchmark.run.executors.board import BoardProgress, Files, ray_library
from benchmark.run.executors.here import runner_of
from benchmark.run.plan import Plan
from benchmark.run.prepare import Inputs, Prepared
from benchmark.run.runner import Outcome
from zoo import __version__
from zoo.errors import Interrupted, ZooError
from zoo.files import TEMPORARY_NAME, atomic_path
from zoo.progress import Progress
from zoo.training.folder import BEFORE, LAST

_LOOK_SECONDS = 1.0  # seconds between two looks for a new checkpoint
_SENT_RATE = 5e6  # bytes per second: a training of BERT-base, whose checkpoint has 1.3 GB, sends one in four minutes


@dataclass(frozen=True, kw_only=True)
class EncoderJob:
    """What a worker needs for one encoder."""

    job: Job
    row: str  # the name of its row: a worker plans no other
    called: str  # the name as it is printed
    key: str  # of the encoder
    cells: frozenset[str]  # keys of the unfinished cells
    number: tuple[int, int]  # the encoder's number in the plan, and the number of encoders
    plugins: tuple[tuple[str, str], ...]  # path and text of each file
    mark: tuple[str, str]  # name and text of a file in the results folder
    folder: str  # the working folder of the command
    threads: int
    texts: tuple[str, Any] | None = None  # the kind of its training texts, and where Ray has them
    begun: bool = False  # whether the command has files of it, from which a worker elsewhere goes on
    version: str = __version__


@dataclass
class Report:
    """What a task did; one without the command's folder adds `records` (JSON, predicted, gold) and `files`.

    Ray keeps a report in its object store, out of which the command reads the files without a copy.
    """

    outcome: Outcome = field(default_factory=Outcome)
    records: list[tuple[bytes, bytes | None, bytes | None]] = field(default_factory=list)
    files: Files = field(default_factory=dict)  # of encoders
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
    inputs = _inputs(job.job)
    if job.texts is not None and job.texts[0] not in inputs.texts:
        inputs.texts[job.texts[0]] = ray_library().get(job.texts[1])
    prepared = _prepared(job.job, job.row)
    plan = next((plan for plan in prepared.plan.encoders if plan.key == job.key), None)
    cells = () if plan is None else tuple(cell for cell in plan.cells if cell.key in job.cells)
    if plan is None or len(cells) < len(job.cells):
        raise ZooError(f"{_here()} plans another run: its data, weights or code differ from those of the command.")
    own = replace(
        prepared,
        plan=Plan([replace(plan, cells=cells, called=job.called)]),
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
        if job.begun:
            ray = ray_library()
            with suppress(ray.exceptions.RayError):  # the board was lost, and the encoder begins anew
                keep(Records(Path(place)), Report(files=ray.get(board.ask.remote(job.key))))
        with _sending(Path(place), job.key, board):
            report = _measure(own, elsewhere, job.number)
        report.records = list(_packed(Records(Path(place))))
        report.files = files_of(Path(place))
        report.outcome.set_aside = []
        return report


@contextmanager
def _sending(place: Path, key: str, board: Any) -> Iterator[None]:
    """Send the files of the encoder in a results folder to the board whenever its training has written a checkpoint."""
    over = threading.Event()

    def watch() -> None:
        sent, pause = saved(place), 0.0
        while not over.wait(_LOOK_SECONDS + pause):
            found, pause = saved(place), 0.0
            if found == sent:
                continue
            with suppress(OSError):  # a file that the training has deleted since
                files = files_of(place)
                if saved(place) == found:  # else they may be of two checkpoints
                    board.save.remote(key, files)
                    sent, pause = found, sum(map(len, files.values())) / _SENT_RATE

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def saved(place: Path, encoder: str = "*") -> set[tuple[Path, int]]:
    """Return the files from which encoders go on, with the times at which they were written."""
    found = set()
    for path in (*place.glob(f"encoders/{encoder}/**/{LAST}"), *place.glob(f"encoders/{encoder}/fit.json")):
        with suppress(OSError):  # deleted meanwhile
            found.add((path, path.stat().st_mtime_ns))
    return found


def files_of(place: Path, encoder: str = "*") -> Files:
    """Return the files of encoders in a results folder, without those that were being written."""
    paths = [path for path in place.glob(f"encoders/{encoder}/**/*") if path.is_file()]
    wanted = [path for path in paths if path.name != BEFORE and not TEMPORARY_NAME.fullmatch(path.name)]
    return {path.relative_to(place).as_posix(): np.fromfile(path, np.uint8) for path in wanted}


def _measure(prepared: Prepared, job: Job, number: tuple[int, int]) -> Report:
    runner = runner_of(prepared, job)
    runner.number, runner.compared = number, True
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
    """Write what was returned through Ray to the results folder; raises CorruptError for an invalid record.

    Weights that the folder has of the same encoders, of earlier checkpoints, are deleted.
    """
    paths = {records.folder / name: data for name, data in report.files.items()}
    for path in sorted(paths, key=lambda path: path.name in (LAST, "fit.json")):  # these last: they need the others
        with atomic_path(path) as new:
            paths[path].tofile(new)
    for encoder in {Path(name).parts[1] for name in report.files}:
        for path in records.folder.glob(f"encoders/{encoder}/**/*.safetensors"):
            if path not in paths:
                path.unlink(missing_ok=True)
    for content, predicted, gold in report.records:
        record = parse_record(content, "a record from another machine")
        pairs = None
        if predicted is not None and gold is not None:
            pairs = np.frombuffer(predicted, "<f4"), np.frombuffer(gold, "<f4")
        records.write({name: value for name, value in record.items() if name != "pairs"}, pairs)


def _here() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


@functools.lru_cache(maxsize=1)  # a worker measures many encoders of one run, one after the other
def _inputs(_: Job) -> Inputs:
    return Inputs()


@functools.lru_cache(maxsize=8)
def _prepared(job: Job, row: str) -> Prepared:
    return replace(job, progress=Progress.silent()).prepare(write=False, only=row, inputs=_inputs(job))


@functools.cache
def _load_plugins(plugins: tuple[tuple[str, str], ...]) -> None:
    for name, text in plugins:
        path = Path(name)
        if not path.is_file():
            path = Path(tempfile.mkdtemp(prefix="zoo-bench-plugin-")) / path.name
            path.write_text(text, encoding="utf-8")
        load_plugins([path])
