"""A loop, processes and Ray fill one folder with the same records; a worker that is killed loses nothing finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

from benchmark.run.job import Job
from benchmark.run.on_ray import RayJob, keep, measured_there, share_of
from benchmark.run.options import RunOptions
from benchmark.run.prepare import Inputs, prepare
from benchmark.run.runner import Remaining
from zoo.errors import UsageError, ZooError
from zoo.progress import Progress

MAIN = "from benchmark.cli.main import main; main()"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "ZOO_BENCH_EMBEDDING_CACHE": "0"}


def words(tiny_bert: Path, out: Path, *more: object) -> list[str]:
    line = f"run --methods simcse,avg-last --backbone {tiny_bert} --seeds 2 --train-sentences 64 --tasks pocket-pairs"
    return [*line.split(), "--no-controls", "--precision", "fp32", "--results", str(out), *map(str, more)]


def records(folder: Path) -> dict[str, tuple[Any, Any]]:
    """What was measured, by key, without what differs between two runs."""
    found = {}
    for path in (folder / "records").rglob("*.json"):
        record = json.loads(path.read_text("utf-8"))
        training = record["training"] or {}
        found[record["key"]] = (record["scores"], training.get("final_loss"), record["pairs"])
    return found


@pytest.fixture(scope="module")
def loop(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Any, Any]]]:
    """The records of a run in one process, on one thread as a worker is."""
    folder = tmp_path_factory.mktemp("loop")
    command = [sys.executable, "-c", MAIN, *words(tiny_bert, folder)]
    done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True)
    assert done.returncode == 0 and "3 cells measured, 0 kept" in done.stderr, done.stderr
    yield records(folder)


@pytest.mark.slow
def test_processes_measure_what_a_loop_measures(tiny_bert: Path, tmp_path: Path, cli: Cli, loop: Any) -> None:
    command = [sys.executable, "-c", MAIN, *words(tiny_bert, tmp_path / "shared", "--workers", "2")]
    done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True)
    assert done.returncode == 0 and "3 cells measured, 0 kept" in done.stderr, done.stderr
    assert "worker 1: " in done.stderr and "[3/3]" in done.stderr
    assert records(tmp_path / "shared") == loop and len(loop) == 3
    answer = cli(*words(tiny_bert, tmp_path / "shared", "--workers", "2"))
    assert answer.code == 0 and "0 cells measured, 3 kept" in answer.err


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text("ascii").split()
    commands = {int(one): Path(f"/proc/{one}/cmdline").read_text("utf-8") for one in listed}
    return [one for one, command in commands.items() if "spawn_main" in command]


@pytest.mark.slow
def test_a_run_with_a_killed_worker_ends_with_a_sentence(tiny_bert: Path, tmp_path: Path) -> None:
    """That the next command goes on is tests/torture's; a SIGTERM is test_blocks.py's."""
    line = [sys.executable, "-c", MAIN, *words(tiny_bert, tmp_path, "--workers", "2", "--train-sentences", "4096")]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while time.monotonic() < until and not list(tmp_path.glob("encoders/simcse*/training/log.jsonl")):
        time.sleep(0.1)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    told = process.communicate(timeout=120)[1]
    assert process.returncode == 1 and "the same command goes on from here" in told and "Traceback" not in told


def test_the_time_left_is_what_a_rows_other_seeds_took() -> None:
    remaining = Remaining(Counter(a=3, b=1), at_once=2)
    assert remaining.text() == ""
    remaining.done("a", 10.0)
    remaining.done("b", None)
    assert remaining.text() == ", about 0:10 left in all"
    remaining.done("a", 30.0)
    remaining.done("a", 20.0)
    assert remaining.text() == ""


@pytest.mark.parametrize(
    ("nodes", "device", "encoders", "each", "expected"),
    [
        ([{"CPU": 2.0}], "auto", 12, 1.0, (1, 0.0, 2)),
        ([{"CPU": 64.0}], "auto", 4, 1.0, (16, 0.0, 4)),
        ([{"CPU": 8.0}, {"CPU": 2.0}], "cpu", 1, 1.0, (2, 0.0, 1)),
        ([{"CPU": 16.0, "GPU": 4.0}, {"CPU": 64.0}], "auto", 9, 1.0, (4, 1.0, 4)),
        ([{"CPU": 16.0, "GPU": 2.0}], "cuda", 20, 0.25, (2, 0.25, 8)),
        ([{"CPU": 16.0, "GPU": 4.0}], "cpu", 16, 1.0, (1, 0.0, 16)),
    ],
)
def test_what_ray_reserves(nodes: Any, device: str, encoders: int, each: float, expected: Any) -> None:
    assert share_of(nodes, device, encoders, each) == expected


def test_ray_without_a_gpu_or_a_cpu_is_refused() -> None:
    with pytest.raises(UsageError, match="has a GPU"):
        share_of([{"CPU": 2.0}], "cuda", 1, 1.0)
    with pytest.raises(UsageError, match="CPU"):
        share_of([{}], "auto", 1, 1.0)


@pytest.mark.slow
def test_a_worker_without_the_folder_gives_its_records_back(cli: Cli, fakes: None, tmp_path: Path) -> None:
    """The body of a Ray task, without Ray: first where the mark is found, then where it is not."""
    from benchmark.records.folder import Records

    line = "run --methods fitted,bag --tasks pocket-words --limit 20 --precision fp32 --seeds 1 --no-controls --results"
    assert cli(*line.split(), tmp_path / "one").code == 0
    for folder, marked in (("shared", True), ("apart", False)):
        out = tmp_path / folder
        out.mkdir()
        (out / "mark").write_text(folder if marked else "of another folder")
        options = RunOptions(
            methods="fitted,bag", tasks="pocket-words", limit=20, precision="fp32", seeds=1, results=out
        )
        job = RayJob(
            job=Job(options=options, progress=Progress.silent()),
            plugins=(),
            mark=("mark", folder),
            folder=str(Path.cwd()),
            threads=1,
        )
        for plan in prepare(options, write=False, progress=Progress.silent()).plan.encoders:
            cells = frozenset(cell.key for cell in plan.cells)
            report = measured_there(job, Inputs(), plan.key, cells, [], 0.0)
            assert report.outcome is not None and report.outcome.measured == 1 and bool(report.records) != marked
            keep(Records(out), report)
            of_fit = Records(out).encoder_folder(plan.name, plan.key) / "fit.json"
            assert of_fit.is_file() == (plan.name == "fitted")  # its weights came back as well
        assert records(out) == records(tmp_path / "one") and len(records(out)) == 2
    with pytest.raises(ZooError, match="plans another run"):
        measured_there(job, Inputs(), "0" * 64, cells, [], 0.0)


@pytest.mark.slow
def test_a_ray_worker_that_is_killed_is_tried_again(tiny_bert: Path, tmp_path: Path, loop: Any) -> None:
    pytest.importorskip("ray")
    line = [sys.executable, "-c", MAIN, *words(tiny_bert, tmp_path / "ray", "--executor", "ray")]
    process = subprocess.Popen(
        line, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until, killed = time.monotonic() + 240, False
    while time.monotonic() < until and process.poll() is None and not killed:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                mine = "ray::measured_there" in path.read_text("utf-8")
            except OSError:
                continue
            if mine and (tmp_path / "ray" / "encoders").is_dir() and not killed:
                os.kill(int(path.parent.name), signal.SIGKILL)
                killed = True
        time.sleep(0.05)
    out, told = process.communicate(timeout=300)
    assert killed and process.returncode == 0, told
    assert records(tmp_path / "ray") == loop and "Ray:" not in out
