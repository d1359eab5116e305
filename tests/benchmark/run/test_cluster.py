"""A plan on a Ray cluster: the records of one process; a worker that is killed and a node that is removed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import Cli

from benchmark import api
from benchmark.records.folder import Records
from benchmark.run.executors import Job, cluster, executor_of
from benchmark.run.executors.board import Board, BoardProgress, News, ray_library, ray_messages
from benchmark.run.executors.cluster import Ray
from benchmark.run.executors.remote import EncoderJob, Report, keep, work
from benchmark.run.executors.shares import Memory, Share, gpu_memory, memory_bytes, said_shares
from benchmark.run.options import RunOptions
from zoo.errors import MissingError, UsageError, ZooError
from zoo.progress import Bar, Progress

GB = 1 << 30


def words(tiny_bert: Path, out: Path, methods: str, seeds: int, *more: object) -> list[str]:
    line = f"run --methods {methods} --backbone {tiny_bert} --seeds {seeds} --train-sentences 64 --tasks pocket-pairs"
    return [*line.split(), "--precision", "fp32", "--results", str(out), *map(str, more)]


def records(folder: Path) -> dict[str, tuple[Any, Any]]:
    """What was measured, by key, without what differs between two runs."""
    found = {}
    for path in (folder / "records").rglob("*.json"):
        record = json.loads(path.read_text("utf-8"))
        training = record["training"] or {}
        found[record["key"]] = (record["scores"], training.get("final_loss"), record["pairs"])
    return found


class Handle:
    """A board's method as an actor's handle has it."""

    def __init__(self, method: Any) -> None:
        self.remote = method


def handles(board: Board) -> Any:
    class Actor:
        say, at, take, save = Handle(board.say), Handle(board.at), Handle(board.take), Handle(board.save)

    return Actor()


def job_of(options: RunOptions, row: str, key: str, cells: frozenset[str], mark: tuple[str, str]) -> EncoderJob:
    return EncoderJob(
        job=Job(options=options),
        row=row,
        called=row,
        key=key,
        cells=cells,
        number=(1, 2),
        plugins=(),
        mark=mark,
        folder=str(Path.cwd()),
        threads=1,
    )


@pytest.mark.slow
@pytest.mark.flaky(reruns=2)
def test_a_worker_without_the_folder_gives_its_records_back(cli: Cli, fakes: None, tmp_path: Path) -> None:
    """The body of a task, without Ray: first where the mark is found, then where it is not."""
    methods = RunOptions(
        methods="fitted,bag", tasks="pocket-words", limit=20, precision="fp32", seeds=1, results=tmp_path / "one"
    )
    line = "run --methods fitted,bag --tasks pocket-words --limit 20 --precision fp32 --seeds 1 --results".split()
    assert cli(*line, tmp_path / "one").code == 0
    plan = api.prepare(methods).plan
    board, mark = Board(), ("mark", "text")
    for folder, marked in (("shared", True), ("apart", False)):
        out = tmp_path / folder
        out.mkdir()
        if marked:
            (out / "mark").write_text("text")
        options = RunOptions(**{**vars(methods), "results": out})
        for encoder in plan.encoders:
            cells = frozenset(cell.key for cell in encoder.cells)
            report = work(job_of(options, encoder.name, encoder.key, cells, mark), handles(board))
            assert report.outcome.measured == 1 and bool(report.records) != marked
            keep(Records(out), report)
            of_fit = Records(out).encoder_folder(encoder.name, encoder.key) / "fit.json"
            assert of_fit.is_file() == (encoder.name == "fitted")  # its weights came back as well
        assert records(out) == records(tmp_path / "one") and len(records(out)) == 2
        stored = Records(out)
        for record in stored.all():
            assert np.array_equal(stored.pair_scores(record), Records(tmp_path / "one").pair_scores(record))
    lines = board.take().lines
    assert any("[1/2] fitted, seed 0: 1 task" in line for line in lines) and board.take().lines == []


def test_a_worker_that_would_measure_something_else_says_so(fakes: None, tmp_path: Path) -> None:
    options = RunOptions(methods="bag", tasks="pocket-words", limit=20, precision="fp32", results=tmp_path)
    job = job_of(options, "bag", "0" * 64, frozenset({"k"}), ("m", "t"))
    with pytest.raises(ZooError, match="plans another run: its data, weights or code differ"):
        work(job, handles(Board()))
    with pytest.raises(ZooError, match=r"has zoo-bench .* and the command 0\.0: install one everywhere"):
        work(EncoderJob(**{**vars(job), "version": "0.0"}), handles(Board()))


@pytest.mark.flaky(reruns=2)
def test_a_bar_tells_where_it_is_now_and_then() -> None:
    board = Board()
    with BoardProgress(handles(board), "key", "host-1: ").bar("training", 9) as bar:
        bar.update(1, "loss 2")
        bar.update(2, "loss 1")
    assert board.take() == News([], {"key": "training 1/9, loss 2"}, {}, [])


def test_files_of_an_earlier_checkpoint_are_deleted(tmp_path: Path) -> None:
    """Those of the same encoder that did not come again; not those of another encoder, and no log."""
    one, other = "encoders/a-1/training", "encoders/b-2/training"
    names = [f"{one}/checkpoint.safetensors", f"{one}/best-3.safetensors", f"{one}/log.jsonl"]
    first = Report(files={name: np.frombuffer(b"before", np.uint8) for name in [*names, f"{other}/best-1.safetensors"]})
    keep(Records(tmp_path), first)
    keep(Records(tmp_path), Report(files={names[0]: np.frombuffer(b"now", np.uint8), names[2]: np.zeros(0, np.uint8)}))
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {names[0], names[2], f"{other}/best-1.safetensors"}
    assert (tmp_path / names[0]).read_bytes() == b"now"


@pytest.mark.parametrize(
    ("nodes", "device", "encoders", "expected"),
    [
        ([{"CPU": 2.0, "memory": 8.0 * GB}], "auto", 12, Share(1, 0, 2 * GB)),
        ([{"CPU": 64.0, "memory": 8.0 * GB}], "auto", 4, Share(16, 0, 2 * GB)),
        ([{"CPU": 8.0, "memory": 8.0 * GB}, {"CPU": 2.0, "memory": 1.0 * GB}], "cpu", 1, Share(2, 0, GB)),
        ([{"CPU": 16.0, "GPU": 4.0, "memory": 64.0 * GB}, {"CPU": 64.0}], "auto", 9, Share(4, 1, 2 * GB)),
        ([{"CPU": 16.0, "GPU": 4.0, "memory": 64.0 * GB}], "cpu", 16, Share(1, 0, 2 * GB)),
    ],
)
def test_each_machine_can_hold_an_encoder(
    nodes: list[dict[str, float]], device: str, encoders: int, expected: Share
) -> None:
    assert Share.of(nodes, device, encoders, Memory(2 * GB)) == Share(
        expected.cpus,
        expected.gpus,
        pytest.approx(expected.memory, abs=99),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("need", "gpu", "encoders", "cores", "expected"),
    [
        (2 * GB, 80 * GB, 500, 64.0, 1 / 8),  # no more than eight at once
        (20 * GB, 80 * GB, 500, 64.0, 1 / 4),
        (30 * GB, 80 * GB, 500, 64.0, 1 / 2),
        (41 * GB, 80 * GB, 500, 64.0, 1.0),
        (90 * GB, 80 * GB, 500, 64.0, 1.0),  # it is tried, and its own error names the memory
        (2 * GB, 80 * GB, 16, 64.0, 1 / 2),  # 16 encoders on 8 GPUs: every GPU has work
        (2 * GB, 80 * GB, 8, 64.0, 1.0),
        (2 * GB, 80 * GB, 500, 16.0, 1 / 2),  # two cores for each GPU
        (2 * GB, None, 500, 64.0, 1.0),  # the memory of the GPU is unknown
    ],
)
def test_small_encoders_share_a_gpu(need: int, gpu: int | None, encoders: int, cores: float, expected: float) -> None:
    node = {"CPU": cores, "GPU": 8.0, "memory": 512.0 * GB}
    share = Share.of([node], "auto", encoders, Memory(GB, need - GB), gpu)
    assert (share.gpus == expected and share.cpus * 8 / share.gpus <= cores) or encoders == 8


def test_the_memory_of_an_encoder_is_counted_from_its_model() -> None:
    base = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    assert memory_bytes(440_000_000, {}, 64, 32) == (GB + 6 * 440_000_000, 0)
    trained = memory_bytes(440_000_000, base, 64, 32)
    assert trained == (GB + 6 * 440_000_000, 3 * 64 * 32 * 12 * (68 * 768 + 10 * 12 * 32))
    assert memory_bytes(440_000_000, base, 128, 32).activations == 2 * trained.activations
    assert memory_bytes(440_000_000, base).process == GB + 440_000_000  # encoding alone


def test_activations_are_reserved_where_they_are() -> None:
    """On the GPU they take none of the machine's memory; without a GPU they do."""
    need = Memory(2 * GB, 6 * GB)
    node = {"CPU": 16.0, "memory": 64.0 * GB}
    assert Share.of([node], "cpu", 4, need).memory == 8 * GB
    assert Share.of([{**node, "GPU": 2.0}], "auto", 8, need, 80 * GB) == Share(2, 0.25, 2 * GB)


def test_what_the_encoders_have_is_said() -> None:
    shares = [Share(2, 0.125, 2 * GB), Share(16, 1.0, 40 * GB)]
    assert said_shares(shares) == "an encoder has 2 to 16 cores, 1/8 or 1 GPU and 2.0 to 40.0 GiB"
    assert said_shares([Share(1, 0, 2 * GB)]) == "an encoder has 1 core and 2.0 GiB"
    assert gpu_memory("81559\n40960\n") == 40960 << 20 and gpu_memory("[N/A]\n") is None


def test_a_cluster_with_nothing_to_compute_with_is_refused() -> None:
    with pytest.raises(UsageError, match="has a GPU"):
        Share.of([{"CPU": 2.0}], "cuda", 1, Memory(0))
    with pytest.raises(UsageError, match="offers a CPU"):
        Share.of([{"memory": 1.0}], "auto", 1, Memory(0))


@pytest.mark.parametrize(
    ("executor", "told"),
    [
        ("slurm", "--executor slurm: there is none of this name. Known: here, processes, ray;"),
        ("ray://", "give ray, or ray://HOST:PORT"),
        ("ray:1", "--executor ray:1: there is none of this name. Did you mean 'ray'?"),
        ("", "executor is empty"),
        ("here://h", "Here takes no address"),
    ],
)
def test_another_executor_is_refused(executor: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        executor_of(RunOptions(methods="cls", executor=executor))


def test_an_address_names_a_cluster() -> None:
    for name, address in (("ray", None), ("ray://h:1", "ray://h:1")):
        ray = executor_of(RunOptions(methods="cls", executor=name))
        assert isinstance(ray, Ray) and ray.address == address


def test_without_ray_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingError, match=re.escape("pip install 'zoo-bench[ray]'")):
        ray_library()


@pytest.mark.parametrize(("said", "calls"), [("Initialization failure from server: ...", 3), ("connection timeout", 1)])
def test_a_client_that_does_not_start_is_started_again(said: str, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def init(address: str, **_: object) -> None:
        tried.append(address)
        raise ConnectionError(said)

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init))
    with pytest.raises(MissingError, match=f"{said}.*set RAY_AUTH_MODE=token"), cluster.connected("ray://h:1"):
        pass
    assert tried == ["ray://h:1"] * calls


class SlowRay:
    """Ray whose first answer is late."""

    class exceptions:
        class RayError(Exception):
            pass

        class GetTimeoutError(RayError, TimeoutError):
            pass

    def __init__(self) -> None:
        self.late = True

    def get(self, answer: Any, timeout: float) -> Any:
        if self.late:
            self.late = False
            raise self.exceptions.GetTimeoutError
        return answer


def test_lines_that_come_late_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    board, driver = Board(), cluster._Driver.__new__(cluster._Driver)
    driver.ray, driver.running, driver.jobs, driver.asked = SlowRay(), {}, {}, None
    driver.progress, driver.board = Progress(), handles(board)
    board.say("first")
    driver._tell(Bar(), 1)
    board.say("second")
    driver._tell(Bar(), 1)
    driver._tell(Bar(), 1)
    assert capsys.readouterr().err.splitlines() == ["first", "second"]


def test_rays_own_messages_are_one_line_and_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    with ray_messages(Progress()):
        print(
            "\x1b[33m(raylet)\x1b[0m The node is lost. "
            + "Why it is. " * 99
            + "\n    [state-dump] 1\n    [state-dump] 2\n"
        )
        print("(raylet, ip=10.0.0.2) Task work failed.")
        print('{"a": 1}')
    said = capsys.readouterr()
    assert said.out == '{"a": 1}\n'
    lost, failed = said.err.splitlines()
    assert lost.startswith("Ray: The node is lost. Why it is.") and lost.endswith(" ...") and len(lost) < 250
    assert failed == "Ray: Task work failed."


@pytest.mark.slow
@pytest.mark.flaky(reruns=2)
def test_the_encoder_of_a_killed_worker_is_measured_by_another(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="pip install 'zoo-bench[ray]'")
    methods = "simcse:batch_size=4:epochs=20:eval_every=999"  # long beside the time that a line takes to come here
    command = [sys.executable, "-m", "benchmark", *words(tiny_bert, tmp_path / "ray", methods, 2, "--executor", "ray")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local"}
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    assert child.stderr is not None
    reader = threading.Thread(target=lambda: said.extend(child.stderr or []))
    reader.start()
    try:
        deadline, victim = time.monotonic() + 150, None
        while time.monotonic() < deadline and victim is None and child.poll() is None:
            told = re.search(r"-(\d+): \[1/2\] simcse", "".join(said))
            if told and list((tmp_path / "ray").glob("encoders/*/training/log.jsonl")):
                victim = int(told[1])
                os.kill(victim, signal.SIGKILL)
            time.sleep(0.02)
        code = child.wait(timeout=200)
        if "no cluster answers" in "".join(said):
            pytest.skip(f"Ray cannot start a cluster here: {''.join(said)[-300:]}")
        assert code == 0, "".join(said)
    finally:
        child.kill()
        reader.join()
    text = "".join(said)
    assert "2 cells measured, 0 kept from before, 0 failed, 0 n/a" in text
    began = re.findall(r"-(\d+): \[1/2\] simcse[^\n]*", text)
    assert len(began) == 2 and began[1] != str(victim), text
    assert cli(*words(tiny_bert, tmp_path / "one", methods, 2)).code == 0
    assert records(tmp_path / "ray") == records(tmp_path / "one")
    assert not list((tmp_path / "ray").glob(".shared-*"))


def in_training(results: Path, raylet: int, said: str, apart: bool) -> int | None:
    """The process of the node of this raylet whose training has a checkpoint in the results; None: there is none.

    Of workers without access to the results, both have to have sent one.
    """
    saved = {path.parents[1] for path in results.glob("encoders/*/training/checkpoint.safetensors")}
    processes = re.findall(r"-(\d+): \[\d/2\] simcse", said) if apart and len(saved) == 2 else []
    with suppress(OSError, ValueError):  # one has ended since
        marks = (mark for mark in results.glob("encoders/*.begun") if mark.with_suffix("") in saved)
        processes += [json.loads(mark.read_text("utf-8"))["process"] for mark in marks]
        for process in map(int, processes):
            if int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]) == raylet:
                return process
    return None


@pytest.mark.slow
@pytest.mark.flaky(reruns=2)
@pytest.mark.parametrize(("graceful", "apart"), [(False, True), (True, False)], ids=["lost", "stopped"])
def test_the_encoder_of_a_removed_node_is_measured_on_another(
    graceful: bool, apart: bool, cli: Cli, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apart, workers find no mark in the results and work in folders of their own; a training goes on all the same."""
    pytest.importorskip("ray", reason="pip install 'zoo-bench[ray]'")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_worker_niceness", "0")  # workers that wait for all else on the machine would take minutes
    place: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 1 << 27}
    machines = Cluster(initialize_head=True, head_node_args={**place, "include_dashboard": False})
    child, removed = None, None
    try:
        node = machines.add_node(**place)
        raylet = node.all_processes["raylet"][0].process.pid
        methods = "simcse:batch_size=4:epochs=60:eval_every=100"
        often = tmp_path / "often.py"
        often.write_text(
            "import functools\n"
            "from benchmark.run.executors import here\n"
            "here.Runner = functools.partial(here.Runner, run_options={'checkpoint_steps': 20})\n"
        )
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_ADDRESS": machines.address}
        line = words(tiny_bert, tmp_path / "ray", methods, 2, "--executor", "ray", "--json", "--plugin", often)
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmark", *line],
            env=environment,
            stdout=(tmp_path / "out").open("w"),
            stderr=(tmp_path / "err").open("w"),
        )
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and removed is None and child.poll() is None:
            for mark in (tmp_path / "ray").glob(".shared-*") if apart else ():
                mark.unlink(missing_ok=True)
            removed = in_training(tmp_path / "ray", raylet, (tmp_path / "err").read_text("utf-8"), apart)
            time.sleep(0.05)
        if removed is not None:
            machines.remove_node(node, allow_graceful=graceful)
        code = child.wait(timeout=200)
    finally:
        if child is not None:
            child.kill()
        machines.shutdown()
    text = (tmp_path / "err").read_text("utf-8")
    assert removed is not None and code == 0, text
    assert "Ray: 2 nodes" in text and "2 cells measured, 0 kept from before, 0 failed, 0 n/a" in text
    assert re.search(r"^Ray: .*node", text, re.MULTILINE) and "state-dump" not in text
    begun = re.findall(r"-(\d+): \[(\d)/2\] simcse", text)  # what is said while machines are lost may be lost too
    numbers = [number for _, number in begun]
    (lost,) = [number for process, number in begun if int(process) == removed][-1:]
    again = [int(process) for process, number in begun if number == lost]
    assert again[0] == removed and removed not in again[1:] and len(again) == 2, text
    assert all(numbers.count(number) == 1 for number in set(numbers) - {lost}), text
    (step,) = re.findall(rf"-{again[1]}: .*resuming at step (\d+) of 960", text)
    assert int(step) > 0 and int(step) % 20 == 0
    json.loads((tmp_path / "out").read_text("utf-8"))
    assert cli(*words(tiny_bert, tmp_path / "one", methods, 2)).code == 0
    assert records(tmp_path / "ray") == records(tmp_path / "one")
