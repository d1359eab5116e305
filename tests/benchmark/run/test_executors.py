"""A loop, processes and Ray fill one folder with the same records; a worker that is killed loses nothing finished."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import Cli
from server import run

from benchmark.run.cluster import RayWorker, connected, keep, measured_there, share_of
from benchmark.run.executors import _of_threads
from benchmark.run.options import RunOptions
from benchmark.run.plan import EncoderPlan, Request
from benchmark.run.prepare import prepare
from benchmark.run.runner import Remaining
from zoo.errors import MissingError, UsageError, ZooError
from zoo.progress import Progress

MAIN = "from benchmark.cli.main import main; main()"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "ZOO_BENCH_EMBEDDING_CACHE": "0"}


def words(tiny_bert: Path, out: Path, *more: object) -> list[str]:
    line = f"run --methods simcse,avg-last --backbone {tiny_bert} --seeds 2 --train-sentences 64 --tasks pocket-pairs"
    return [*line.split(), "--no-controls", "--precision", "fp32", "--results", str(out), *map(str, more)]


def records(folder: Path) -> dict[str, tuple[Any, Any]]:
    """What was measured, by key, without what differs between two runs."""
    by_key = {}
    for path in (folder / "records").rglob("*.json"):
        record = json.loads(path.read_text("utf-8"))
        training = record["training"] or {}
        by_key[record["key"]] = (record["scores"], training.get("final_loss"), record["pairs"])
    return by_key


@pytest.fixture(scope="module")
def loop(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Any, Any]]]:
    """The records of a run in one process, on one thread as a worker is."""
    folder = tmp_path_factory.mktemp("loop")
    command = [sys.executable, "-c", MAIN, *words(tiny_bert, folder)]
    done = run(command, env={**os.environ, **ONE_THREAD})
    assert done.returncode == 0 and "3 cells measured, 0 kept" in done.stderr, done.stderr
    yield records(folder)


@pytest.mark.slow
def test_processes_measure_what_a_loop_measures(tiny_bert: Path, tmp_path: Path, cli: Cli, loop: Any) -> None:
    command = [sys.executable, "-c", MAIN, *words(tiny_bert, tmp_path / "shared", "--workers", "2")]
    done = run(command, env={**os.environ, **ONE_THREAD})
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
    """That the next command goes on is tools/drills's; a SIGTERM is test_blocks.py's."""
    line = [sys.executable, "-c", MAIN, *words(tiny_bert, tmp_path, "--workers", "2", "--train-sentences", "4096")]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while time.monotonic() < until and not list(tmp_path.glob("encoders/simcse*/training/log.jsonl")):
        time.sleep(0.1)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == 1 and "the same command goes on from here" in errors and "Traceback" not in errors


def with_word(word: str) -> set[int]:
    """The living processes whose environment names a word."""
    numbers = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            state = path.with_name("stat").read_text("ascii").rpartition(")")[2].split()[0]
            if state != "Z" and word.encode() in path.read_bytes():
                numbers.add(int(path.parent.name))
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--workers 2", "--executor ray"])
def test_no_process_outlives_a_killed_command(tiny_bert: Path, tmp_path: Path, how: str) -> None:
    """As where the system kills it for lack of memory: workers end after their task, and what is finished is kept."""
    if "ray" in how:
        pytest.importorskip("ray")
    line = [*words(tiny_bert, tmp_path, *how.split()), "--train-sentences", "512"]
    environment = {**os.environ, **ONE_THREAD, "ZOO_BENCH_TEST_MARK": tmp_path.as_posix()}
    process = subprocess.Popen([sys.executable, "-c", MAIN, *line], env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while time.monotonic() < until and not list(tmp_path.glob("encoders/simcse*/training/log.jsonl")):
        time.sleep(0.1)
    assert len(with_word(tmp_path.as_posix())) > 2 and process.poll() is None
    process.kill()
    process.wait()
    while time.monotonic() < until and with_word(tmp_path.as_posix()):
        time.sleep(0.2)
    assert not with_word(tmp_path.as_posix())


def plans_of(out: Path, methods: str, **more: Any) -> list[EncoderPlan]:
    chosen = {"backbone": "zoo-mini", "precision": "fp32", "tasks": "pocket-words", "seeds": 2, **more}
    options = RunOptions(methods=methods, results=out, **chosen)
    return list(prepare(Request(options, progress=Progress.silent()), write=False).encoders)


@pytest.mark.parametrize(
    ("methods", "titles"),
    [
        ("simcse,cls", ["cls", "simcse, seed 0", "simcse, seed 1"]),
        ("ptbert,random,simcse", ["random, seed 0", "random, seed 1", "ptbert, seed 0", "simcse, seed 0"]),
        ("static-contrastive,whitening,avg-last", ["whitening", "avg-last", "static-contrastive, seed 0"]),
    ],
)
def test_rows_without_training_come_first_and_then_seed_by_seed(tmp_path: Path, methods: str, titles: Any) -> None:
    plans = plans_of(tmp_path, methods)
    assert [plan.title for plan in plans][: len(titles)] == titles
    assert [plan.round for plan in plans] == sorted(plan.round for plan in plans)


def test_the_time_left_is_that_of_rows_of_the_own_kind(tmp_path: Path) -> None:
    cls, *trained = plans_of(tmp_path, "simcse,ptbert,cls")
    remaining = Remaining([cls, *trained], {}, at_once=2)
    assert remaining.text() == ""
    remaining.done(cls, 2.0)
    assert remaining.text() == "", "a row without training says nothing of trainings"
    ptbert, simcse = (next(plan for plan in trained if plan.row.name == name) for name in ("ptbert", "simcse"))
    remaining.done(simcse, 40.0)
    assert remaining.text() == ", about 1:00 left in all", "three trainings of 40 s, two at once"
    remaining.done(ptbert, 100.0)
    assert remaining.text() == ", about 1:10 left in all"
    remaining.done(ptbert, None)
    assert remaining.text() == ", about 0:40 left in all", "one encoder uses one process"


@pytest.mark.parametrize("stretch", [1.0, 5.0])
@pytest.mark.parametrize("seed", range(20))
def test_the_time_left_is_within_twofold_after_the_first_encoder(seed: int, stretch: float) -> None:
    """Whichever ends first, where each takes a quarter more or less than its estimate, and also on a busy machine."""
    draw = np.random.default_rng(seed)
    rows = [(f"m{i % 3}", i > 3, 60.0 if i > 3 else 2.0) for i in range(9)]
    keys = [f"{name} {trained}" for name, trained, _ in rows]
    plans = [
        SimpleNamespace(row=SimpleNamespace(name=name, trained=trained), inputs=SimpleNamespace(row_key=key), round=0)
        for (name, trained, _), key in zip(rows, keys, strict=True)
    ]
    estimates = {key: seconds for (_, _, seconds), key in zip(rows, keys, strict=True)}
    taken = [stretch * seconds * draw.uniform(0.75, 1.3) for _, _, seconds in rows]
    order = draw.permutation(9)
    remaining = Remaining(plans, estimates)  # type: ignore[arg-type]
    for number, place in enumerate(order[:-1], 1):
        remaining.done(plans[place], taken[place], stretch)  # type: ignore[arg-type]
        there = sum(taken[other] for other in order[number:])
        minutes, seconds = remaining.text().removeprefix(", about ").removesuffix(" left in all").split(":")
        assert there / 2 - 1 <= int(minutes) * 60 + int(seconds) <= 2 * there + 1


def test_rounds_end_where_something_was_measured_and_something_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmark.run.runner._TABLES_SHARE", 0)
    cls, *trained = plans_of(tmp_path, "simcse,ptbert,cls", seeds=3)
    rounds: list[int] = []
    remaining = Remaining([cls, *trained], {}, after_round=lambda: rounds.append(1))
    expected = [1, 1, 1, 1, 2, 2, 2]  # of the round of seed 0, both were there from before; the last ends the run
    for plan, seconds, count in zip([cls, *trained], [1.0, None, None, 3.0, 3.0, 3.0, 3.0], expected, strict=True):
        remaining.done(plan, seconds)
        assert len(rounds) == count, plan.title


@pytest.mark.parametrize(
    ("methods", "more", "cores", "memory", "count"),
    [
        ("simcse,cls", {"seeds": 3}, 2, 2**36, 2),
        ("simcse,ptbert", {"seeds": 2}, 16, 2**36, 4),
        ("simcse", {"seeds": 1}, 8, 2**36, 1),
        ("cls,avg-last,random,bag-of-words", {"seeds": 3}, 8, 2**36, 1),
        ("simcse,ptbert", {"train_sentences": 200}, 8, 2**36, 1),
        ("simcse,ptbert", {}, 8, 3 * 2**30, 2),
        ("simcse,ptbert", {}, 1, 2**36, 1),
        ("whitening,whitening:k=64", {}, 8, 2**36, 1),
    ],
)
def test_automatic_workers_are_as_many_as_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: str, more: Any, cores: int, memory: int, count: int
) -> None:
    monkeypatch.setattr("benchmark.run.estimate.threads_here", lambda: cores)
    monkeypatch.setattr("benchmark.run.estimate.memory_here", lambda: memory)
    chosen = {"backbone": "zoo-mini", "precision": "fp32", "tasks": "pocket-words", "seeds": 2, **more}
    options = RunOptions(methods=methods, results=tmp_path, workers=None, **chosen)
    assert prepare(Request(options, progress=Progress.silent()), write=False).workers == count


@pytest.mark.parametrize(("stated", "expected"), [(None, "passive"), ("active", "active"), ("PASSIVE", "PASSIVE")])
def test_threads_wait_passively_unless_asked_otherwise(
    monkeypatch: pytest.MonkeyPatch, stated: str | None, expected: str
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    environment = dict(os.environ) if stated is None else {**os.environ, "OMP_WAIT_POLICY": stated}
    script = (
        "import os, sys; from benchmark import __main__ as entry; import benchmark.cli.main as cli;"
        "cli.main = lambda: print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules); entry.main()"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [expected, "False"], done.stderr
    if stated is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", stated)
    assert _of_threads(3) == {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3", "OMP_WAIT_POLICY": expected}


@pytest.mark.parametrize("fake", ["auto", "3"])
def test_workers_are_auto_unless_a_number_is_given(
    cli: Cli, fakes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: str
) -> None:
    asked: list[int | None] = []

    def run(options: RunOptions, **_: Any) -> Any:
        asked.append(options.workers)
        raise UsageError("enough")

    monkeypatch.setattr("benchmark.api.run", run)
    (tmp_path / "run.yaml").write_text(f"methods: cls\nworkers: {fake}\n", encoding="utf-8")
    cli("run", "--methods", "cls")
    cli("run", "--methods", "cls", "--workers", fake)
    cli("run", tmp_path / "run.yaml")
    expected = None if fake == "auto" else 3
    assert asked == [None, expected, expected]
    assert RunOptions(methods="cls").workers == 1, "a script without a main guard cannot start processes"
    assert "is not a valid" in cli("run", "--methods", "cls", "--workers", "many").err


@pytest.mark.slow
def test_auto_trains_in_processes_and_writes_tables_after_each_round(
    tiny_bert: Path, tmp_path: Path, loop: Any
) -> None:
    """The first process measures what is not trained; the sentences make the two trainings worth two processes."""
    script = (
        "from benchmark.run import estimate, executors; executors.threads_here = estimate.threads_here = lambda: 2;"
        "estimate._WORTH_A_START = 100; from benchmark.__main__ import main; main()"
    )
    command = [sys.executable, "-c", script, *words(tiny_bert, tmp_path)]
    done = run(command, env={**os.environ, **ONE_THREAD})
    assert done.returncode == 0 and "3 cells measured, 0 kept" in done.stderr, done.stderr
    assert records(tmp_path) == loop
    lines = done.stderr.splitlines()
    # A round of trainings has its own line, where its tables are worth the time.
    first = next(place for place, line in enumerate(lines) if line.startswith("tables so far: "))
    assert any("[1/3] avg-last" in line for line in lines[:first])
    assert not any("simcse, seed" in line for line in lines[:first]) and "so far" not in done.stdout


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


def test_ray_that_does_not_start_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.")

    fake = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setattr("benchmark.run.cluster.optional", lambda *_: fake)
    with pytest.raises(MissingError, match=r"this machine \(Exception: The current node timed out"), connected(None):
        pass


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
        request = Request(options, progress=Progress.silent())
        worker = RayWorker(request=request, plugins=(), mark=("mark", folder), folder=str(Path.cwd()), threads=1)
        for plan in prepare(request, write=False).encoders:
            cells = frozenset(cell.key for cell in plan.cells)
            report = measured_there(worker, {}, plan.key, cells, [], 0.0)
            assert report.outcome is not None and report.outcome.measured == 1 and bool(report.records) != marked
            keep(Records(out), report)
            of_fit = Records(out).encoder_folder(plan.row.name, plan.key) / "fit.json"
            assert of_fit.is_file() == (plan.row.name == "fitted")  # its weights came back as well
        assert records(out) == records(tmp_path / "one") and len(records(out)) == 2
    with pytest.raises(ZooError, match="plans another run"):
        measured_there(worker, {}, "0" * 64, cells, [], 0.0)


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
                is_worker = "ray::measured_there" in path.read_text("utf-8")
            except OSError:
                continue
            if is_worker and (tmp_path / "ray" / "encoders").is_dir() and not killed:
                os.kill(int(path.parent.name), signal.SIGKILL)
                killed = True
        time.sleep(0.05)
    out, errors = process.communicate(timeout=300)
    assert killed and process.returncode == 0, errors
    assert records(tmp_path / "ray") == loop and "Ray:" not in out
