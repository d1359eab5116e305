"""Several processes share a plan: workers of one command, two commands on one folder, shards of an array job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

from benchmark.run.executors.claims import Claims
from benchmark.run.options import RunOptions
from zoo.errors import UsageError

pytestmark = pytest.mark.slow

VARIES = ("started", "seconds", "command", "encoding", "environment", "code", "sha256")


def words(tiny_bert: Path, out: Path, *more: object) -> list[str]:
    """Four small trainings on one task."""
    methods = "simcse:batch_size=16:eval_every=99,whitening:k=8,cls"
    line = f"run --methods {methods} --backbone {tiny_bert} --seeds 2 --train-sentences 64 --tasks pocket-pairs"
    return [*line.split(), "--precision", "fp32", "--results", str(out), *map(str, more)]


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """Records by their key, without what differs between two runs."""
    found = {}
    for path in (folder / "records").rglob("*.json"):
        record = json.loads(path.read_text("utf-8"))
        training = record["training"] and {k: v for k, v in record["training"].items() if "second" not in k}
        for name in ("peak_memory_mb", "peak_from_mb"):
            training and training.pop(name, None)
        found[record["key"]] = {k: v for k, v in record.items() if k not in VARIES} | {"training": training}
    return found


def start(arguments: list[str]) -> subprocess.Popen[str]:
    """Start zoo-bench in a process of its own."""
    command = [sys.executable, "-m", "benchmark", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_workers_write_the_records_of_one_process(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    assert cli(*words(tiny_bert, tmp_path / "one")).code == 0
    child = start(words(tiny_bert, tmp_path / "two", "--workers", 2))
    out, err = child.communicate(timeout=300)
    assert child.returncode == 0, err
    assert "4 cells measured, 0 kept from before, 0 failed, 0 n/a" in err
    assert "worker 0" in err and "worker 1" in err and out.count("written:") == 1
    assert records(tmp_path / "one") == records(tmp_path / "two") != {}


@pytest.mark.flaky(reruns=2)
def test_a_killed_workers_cells_are_named_and_measured_next(tiny_bert: Path, tmp_path: Path) -> None:
    long = words(tiny_bert, tmp_path, "--workers", 2)
    long[long.index("--methods") + 1] = "simcse:batch_size=4:epochs=60"
    child = start(long)
    deadline, victims = time.monotonic() + 120, []
    while time.monotonic() < deadline and not victims:
        if list(tmp_path.glob("encoders/*/training/log.jsonl")):
            children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
            victims = [int(pid) for pid in children if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]
        time.sleep(0.02)
    os.kill(victims[0], signal.SIGKILL)
    _, err = child.communicate(timeout=300)
    assert child.returncode == 1 and "Traceback" not in err
    assert "ended with code -9; the same command measures what it left" in err
    again = start(long)
    _, err = again.communicate(timeout=300)
    assert again.returncode == 0, err
    assert len(records(tmp_path)) == 2


def test_two_commands_on_one_folder_share_the_work(tiny_bert: Path, tmp_path: Path) -> None:
    children = [start(words(tiny_bert, tmp_path)) for _ in range(2)]
    said = [child.communicate(timeout=300)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    assert len(records(tmp_path)) == 4
    counts = [[int(part.split()[0]) for part in text.split("cells measured")[0].splitlines()[-1:]] for text in said]
    assert sum(count for (count,) in counts) == 4


def test_shards_are_parts_of_the_plan(cli: Cli, fakes: None, tmp_path: Path) -> None:
    line = "run --methods bag,fitted --seeds 3 --tasks pocket-words --limit 20 --precision fp32 --results".split()
    found = []
    for number in (1, 2):
        answer = cli(*line, tmp_path, "--shard", f"{number}/2")
        assert answer.code == 0 and "2 cells measured" in answer.err
        found.append(len(records(tmp_path)))
    assert found == [2, 4]


@pytest.mark.parametrize("shard", ["0/2", "3/2", "2", "a/b", "1/-2", "/"])
def test_a_wrong_shard_is_refused(shard: str) -> None:
    with pytest.raises(UsageError, match="give i/n"):
        RunOptions(methods="cls", shard=shard).part()


def test_an_encoder_is_claimed_once(tmp_path: Path) -> None:
    assert Claims(tmp_path).take("a" * 64)
    assert not Claims(tmp_path).take("a" * 64)
    assert Claims(tmp_path).take("b" * 64)
