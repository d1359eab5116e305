"""Runs with their results on an S3 server (moto's): the records of a folder, many writers, a server that goes away."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import FITTED, Cli

moto_server = pytest.importorskip("moto.server", reason="pip install 'moto[s3]' flask flask-cors")
pytest.importorskip("s3fs", reason="pip install s3fs")


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
    """A client of the server, with the empty bucket `zoo`, which a run waits for at its end for 5 s."""
    import s3fs

    values = {"ENDPOINT_URL": f"http://127.0.0.1:{one_server.port}", "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}
    for name, value in {**values, "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ZOO_BENCH_WAIT", "5")
    one_server.post("reset", b"")
    files = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    files.mkdir("zoo")
    return files


def at(store: Any, address: str) -> dict[str, float]:
    """The score of each cell at an address, by its key."""
    paths = store.glob(f"{address}/records/*/*.json")
    found = [json.loads(store.cat_file(path)) for path in paths]
    assert len(store.glob(f"{address}/records/*/*.gz")) == len(found)
    return {record["key"]: record["scores"]["main"] for record in found}


@pytest.mark.slow
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
