"""Runs with their results on an S3 server (moto's): the records of a folder, many writers, a server that goes away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fakes import FITTED, Cli

from benchmark.records.folder import Records
from benchmark.records.remote import Remote
from benchmark.run.executors import Job
from benchmark.run.executors.here import runner_of, work
from benchmark.run.options import RunOptions
from benchmark.run.runner import Outcome, Runner
from zoo.progress import Progress

moto_server = pytest.importorskip("moto.server", reason="pip install 'moto[s3]' flask flask-cors")
pytest.importorskip("s3fs", reason="pip install s3fs")

FAST = ("--precision", "fp32", "--limit", "20", "--tasks", "pocket-pairs,pocket-words")


class Server:
    """An S3 server of this process, which keeps its objects while it is stopped."""

    def __init__(self) -> None:
        self.port = 0
        self.start()

    def start(self) -> None:
        self.running = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self.running.start()
        self.port = self.running.get_host_and_port()[1]

    def stop(self) -> None:
        self.running.stop()

    def post(self, path: str, data: bytes) -> None:
        url, plain = f"http://127.0.0.1:{self.port}/moto-api/{path}", {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(url, data, plain), timeout=10).close()


@pytest.fixture(scope="module")
def one_server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def store(one_server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A client of the server, with the empty bucket `zoo`; leases end after 3 s, and a run waits 5 s at its end."""
    import s3fs

    values = {"ENDPOINT_URL": f"http://127.0.0.1:{one_server.port}", "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}
    for name, value in {**values, "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ZOO_BENCH_LEASE", "3")
    monkeypatch.setenv("ZOO_BENCH_WAIT", "5")
    one_server.post("reset", b"")
    files = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    files.mkdir("zoo")
    return files


def job_at(machine: Path, methods: str) -> Job:
    """A job whose results are the mirror of s3://zoo/study that a machine has."""
    folder = machine / "addresses" / quote("s3://zoo/study", safe="")
    options = RunOptions(
        methods=methods,
        tasks="pocket-pairs,pocket-words",
        limit=20,
        precision="fp32",
        results=folder,
        embedding_cache=0,
    )
    return Job(options=options, progress=Progress.silent())


def at(store: Any, address: str) -> dict[str, float]:
    """The score of each cell at an address, by its key."""
    paths = store.glob(f"{address}/records/*/*.json")
    found = [json.loads(store.cat_file(path)) for path in paths]
    assert len(store.glob(f"{address}/records/*/*.gz")) == len(found) and not store.glob(f"{address}/leases/*")
    return {record["key"]: record["scores"]["main"] for record in found}


def in_folder(folder: Path) -> dict[str, float]:
    """The score of each cell in a folder, by its key."""
    return {record["key"]: record["scores"]["main"] for record in Records(folder).all()}


@pytest.mark.flaky(reruns=2)
@pytest.mark.usefixtures("fakes")
def test_a_stopped_and_started_server_has_a_folders_records(
    cli: Cli, one_server: Server, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", "--methods", ",".join(f"bag:salt={salt}" for salt in range(4)), *FAST, "--results")
    assert cli(*words, tmp_path / "folder").code == 0
    keep, kept = Runner._keep, []

    def stopping(*arguments: Any) -> None:
        keep(*arguments)
        kept.append(arguments)
        if len(kept) in (3, 7):
            (one_server.stop if len(kept) == 3 else one_server.start)()

    monkeypatch.setattr(Runner, "_keep", stopping)
    answer = cli(*words, "s3://zoo/study")
    assert answer.code == 0, answer.err
    assert "8 cells measured, 0 kept from before, 0 failed, 0 n/a" in answer.err
    assert "s3://zoo/study is away (" in answer.err and "s3://zoo/study is back" in answer.err
    assert at(store, "zoo/study") == in_folder(tmp_path / "folder") and store.glob("zoo/study/*.md")
    assert "--results s3://zoo/study" in answer.out


@pytest.mark.usefixtures("fakes")
def test_a_server_that_stays_away_loses_nothing(
    cli: Cli, one_server: Server, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_BENCH_WAIT", "0.3")
    words = ("run", "--methods", "bag", *FAST, "--results", "s3://zoo/study")
    keep = Runner._keep
    with monkeypatch.context() as patch:
        patch.setattr(Runner, "_keep", lambda *arguments: (one_server.stop(), keep(*arguments)))
        answer = cli(*words)
    one_server.start()
    assert answer.code == 1 and "2 cells measured" in answer.err and "bag" in answer.out
    assert "s3://zoo/study: 2 files could not be sent (" in answer.err
    assert not store.glob("zoo/study/records/*/*")
    assert "0 cells measured, 2 kept" in cli(*words).err and len(at(store, "zoo/study")) == 2


@pytest.mark.flaky(reruns=2)
@pytest.mark.usefixtures("fakes")
def test_two_runs_measure_every_cell_once(store: Any, tmp_path: Path) -> None:
    def run(machine: str, methods: str) -> None:
        job = job_at(tmp_path / machine, methods)
        outcomes[machine] = runner_of(prepared := job.prepare(), job).run(prepared.plan)

    outcomes: dict[str, Outcome] = {}
    methods = ",".join(f"bag:salt={salt}" for salt in range(8))
    threads = [threading.Thread(target=run, args=(machine, methods)) for machine in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    a, b = outcomes["a"], outcomes["b"]
    assert (a.measured + b.measured, a.kept + b.kept) == (16, 16) and a.measured and b.measured
    assert len(at(store, "zoo/study")) == 16


@pytest.mark.usefixtures("fakes")
def test_a_job_on_another_machine_has_a_mirror_of_its_own(store: Any, tmp_path: Path) -> None:
    outcome = Outcome(**work(job_at(tmp_path / "submitting", "bag")))
    assert (outcome.measured, outcome.failed) == (2, []) and len(at(store, "zoo/study")) == 2
    assert not (tmp_path / "submitting").exists()


def test_only_one_of_many_creates_a_lease(store: Any, tmp_path: Path) -> None:
    machines = [Remote(tmp_path / str(number), "s3://zoo/study") for number in range(4)]
    barrier, won = threading.Barrier(4), list[bool]()

    def take(machine: Remote) -> None:
        machine._leases = lambda: ({}, set())  # type: ignore[method-assign]  # all see it free
        barrier.wait()
        won.append(machine.take("bag-0123456789abcdef", last=True))

    threads = [threading.Thread(target=take, args=(machine,)) for machine in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False, False, False, True]


@pytest.mark.usefixtures("fakes")
def test_an_address_that_cannot_be_used_is_one_sentence(cli: Cli, one_server: Server, store: Any) -> None:
    def said(address: str, code: int = 1) -> str:
        answer = cli("run", "--methods", "bag", *FAST, "--results", address)
        assert (answer.code, answer.out, answer.err.count("\n")) == (code, "", 1), answer.err
        return answer.err

    assert "s3://nowhere/study cannot be written (no such bucket: " in said("s3://nowhere/study")
    one_server.post("reset-auth", b"0")  # from now on it asks for the rights of a key
    try:
        assert "s3://zoo/study cannot be read (no rights: " in said("s3://zoo/study")
    finally:
        one_server.post("reset-auth", b"inf")
    one_server.stop()
    try:
        assert "s3://zoo/study cannot be read (EndpointConnectionError: " in said("s3://zoo/study")
    finally:
        one_server.start()
    assert "ValueError: Protocol not known: nosuch" in said("nosuch://zoo/study", 2)


@pytest.mark.usefixtures("fakes")
def test_another_machine_has_the_trained_encoder(
    cli: Cli, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run on it adds a task without training again."""
    words = (
        "run",
        "--methods",
        "fitted",
        "--precision",
        "fp32",
        "--limit",
        "20",
        "--seeds",
        "1",
        "--results",
        "s3://zoo/study",
        "--tasks",
    )
    assert cli(*words, "pocket-pairs").code == 0
    (fit,) = store.glob("zoo/study/encoders/*/fit.json")
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "other"))
    FITTED.clear()
    answer = cli(*words, "pocket-pairs,pocket-words")
    assert answer.code == 0 and "1 cells measured, 1 kept" in answer.err and not FITTED and fit


@pytest.mark.slow
@pytest.mark.flaky(reruns=2)
def test_another_run_goes_on_where_one_was_killed(
    cli: Cli, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command is killed with -9 while it has a lease; the same command elsewhere waits until that has ended."""
    monkeypatch.setenv("ZOO_BENCH_LEASE", "10")
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        f"import os, sys, time\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})\nfrom fakes import Bag\n"
        "from zoo.registry import register_method\n"
        "@register_method('slow-bag')\nclass SlowBag(Bag):\n    def encode(self, texts):\n"
        "        time.sleep(float(os.environ.get('SLOW', '0')) * (len(texts) > 20))\n"
        "        return super().encode(texts)\n"
    )
    words = ["run", "--plugin", str(plugin), "--methods", "slow-bag:salt=1,slow-bag:salt=2,slow-bag:salt=3", *FAST]
    words += ["--results", "s3://zoo/study"]
    environment = {**os.environ, "ZOO_BENCH_CACHE": str(tmp_path / "other"), "SLOW": "0.4"}
    command = [sys.executable, "-m", "benchmark", *words]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while child.poll() is None and not store.glob("zoo/study/records/*/*.json"):
        time.sleep(0.05)
    child.kill()
    child.wait()
    leased = {Path(path).stem for path in store.glob("zoo/study/leases/slow-bag*")}
    sent = len(store.glob("zoo/study/records/*/*.json"))
    assert leased and 0 < sent < 6
    answer = cli(*words)
    assert answer.code == 0 and "left to another run" in answer.err
    assert f"{6 - sent} cells measured, {sent} kept" in answer.err
    store.rm(store.glob("zoo/study/leases/*"))  # the name of the one that was killed
    assert len(at(store, "zoo/study")) == 6
