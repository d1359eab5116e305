"""Several processes share a plan: workers of one command, two commands on one folder, shards of an array job."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

from benchmark.run import estimate
from benchmark.run.executors import workers
from benchmark.run.executors.claims import Claims
from benchmark.run.options import RunOptions
from benchmark.run.plan import EncoderPlan, Plan
from benchmark.run.runner import Outcome
from zoo.encoder import Encoder, Runtime, Traits
from zoo.errors import UsageError

pytestmark = pytest.mark.slow

TWO = ("--workers", 2, "--executor", "processes")
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
    child = start(words(tiny_bert, tmp_path / "two", *TWO))
    out, err = child.communicate(timeout=300)
    assert child.returncode == 0, err
    assert "4 cells measured, 0 kept from before, 0 failed, 0 n/a" in err
    assert "worker 0" in err and "worker 1" in err and out.count("written:") == 1
    assert records(tmp_path / "one") == records(tmp_path / "two") != {}


def workers_of(process: int) -> list[int]:
    """The worker processes of a command, in the order of their start."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(pid) for pid in children if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


def killed(child: subprocess.Popen[str], results: Path, times: int) -> str:
    """Kill the process that trains an encoder with -9, so many times; return what the command said."""
    victims: set[int] = set()
    deadline = time.monotonic() + 200
    while len(victims) < times and child.poll() is None and time.monotonic() < deadline:
        for mark in results.glob("encoders/*.begun"):
            with contextlib.suppress(OSError, ValueError):  # it has ended since
                process = int(json.loads(mark.read_text("utf-8"))["process"])
                training = (mark.with_suffix("") / "training" / "log.jsonl").is_file()
                if training and process not in victims and len(victims) < times:
                    os.kill(process, signal.SIGKILL)
                    victims.add(process)
        time.sleep(0.02)
    assert len(victims) == times
    return child.communicate(timeout=300)[1]


def test_a_killed_workers_encoder_is_taken_in_the_same_run(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    """Exit code 0, every cell measured, and the records are those of a run of which nothing was killed."""
    long = words(tiny_bert, tmp_path / "two", *TWO)
    long[long.index("--methods") + 1] = "simcse:batch_size=4:epochs=20:eval_every=999"
    child = start(long)
    err = killed(child, tmp_path / "two", 1)
    assert child.returncode == 0 and "Traceback" not in err, err
    assert "2 cells measured, 0 kept from before, 0 failed, 0 n/a" in err
    told = re.search(r"worker (\d) ended with code -9 while it worked on simcse\S*, seed (\d); worker (\d) starts", err)
    assert told is not None and int(told[3]) == int(told[1]) + 2, err
    assert cli(*long[: -len(TWO)], "--results", tmp_path / "one").code == 0
    assert records(tmp_path / "two") == records(tmp_path / "one") != {}


def test_an_encoder_that_costs_three_workers_has_failed(tmp_path: Path) -> None:
    """A plugin that ends its process: its cells are named, those of the other methods are measured."""
    plugin = tmp_path / "deadly.py"
    plugin.write_text(
        "import os, signal\n"
        "from zoo.registry import register_method\n"
        "from zoo.methods.randomvectors import RandomVectors\n"
        "@register_method('deadly')\n"
        "class Deadly(RandomVectors):\n"
        "    def fit(self, corpus, *, dev_score=None, run):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    line = f"run --methods deadly,random --plugin {plugin} --seeds 1 --tasks pocket-words --results {tmp_path}".split()
    child = start([*line, *map(str, TWO)])
    _, err = child.communicate(timeout=300)
    assert child.returncode == 1 and err.count("ended with code -9 while it worked on deadly, seed 0") == 3, err
    assert "1 cells measured, 0 kept from before, 1 failed, 0 n/a" in err
    assert [record["method"]["name"] for record in records(tmp_path).values()] == ["random"]


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
    first, second, key = Claims(tmp_path, 0), Claims(tmp_path, 1), "a" * 64
    assert first.take(key) and not second.take(key) and second.take("b" * 64)
    first.finish(key, {"measured": 3})
    assert not second.take(key) and Claims(tmp_path, 0).unfinished([key, "b" * 64]) == ([], {"measured": 3})


def test_a_dead_workers_claim_is_released(tmp_path: Path) -> None:
    dead, other, key = Claims(tmp_path, 0), Claims(tmp_path, 1), "a" * 64
    assert dead.take(key) and Claims(tmp_path, 0).unfinished([key]) == ([key], {})
    Claims(tmp_path, 0).release(key)
    assert other.take(key) and Claims(tmp_path, 0).unfinished([key]) == ([], {})


def test_what_is_finished_is_not_released(tmp_path: Path) -> None:
    """However many are finished: killed with the third in hand, and between the two files that finishing writes."""
    dead, keys = Claims(tmp_path, 0), ["a" * 64, "b" * 64, "c" * 64]
    for number, key in enumerate(keys, 1):
        assert dead.take(key) and Claims(tmp_path, 0).unfinished(keys)[0] == [key]
        dead.finish(key, {"measured": number})
        assert Claims(tmp_path, 0).unfinished(keys) == ([], {"measured": number})
    dead._claim(keys[2]).with_suffix(".done").unlink()
    assert Claims(tmp_path, 0).unfinished(keys) == ([], {"measured": 3})


@pytest.mark.parametrize(("shared", "chosen"), [(100.0, "here"), (95.0, "here"), (60.0, "workers")])
def test_one_process_is_chosen_where_it_is_as_fast(
    shared: float, chosen: str, cli: Cli, fakes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    monkeypatch.setattr(workers, "time_of_processes", lambda *_: (100.0, shared))
    monkeypatch.setattr(workers, "run_workers", lambda job, *_: started.append(job.options.workers) or Outcome())
    line = ["run", "--methods", "bag", "--tasks", "pocket-words", "--limit", 20, "--results", tmp_path, "--workers", 2]
    answer = cli(*line)
    said = "--workers 2: one process with all threads takes about 1:40" in answer.err
    assert (said, started) == ((True, []) if chosen == "here" else (False, [2]))
    assert ("one process" in cli(*line, "--dry-run").out) == (chosen == "here")
    cli(*line, "--executor", "processes")
    assert started[-1:] == [2]


def encoder_plan(key: str) -> EncoderPlan:
    return EncoderPlan(
        name=key, cls=Encoder, recipe=None, traits=Traits(), seed=0, key=key, row_key=key, code="c", cells=()
    )


def test_the_time_of_processes_counts_start_and_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three encoders of 30, 20 and 10 s: with half the speed each, two processes need as long and their start."""
    seconds = {"a": 30.0, "b": 20.0, "c": 10.0}
    monkeypatch.setattr(estimate, "estimate_seconds", lambda plan, *_: seconds[plan.key])
    monkeypatch.setattr(estimate.time, "process_time", lambda: 5.0)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    monkeypatch.setattr("torch.set_num_threads", lambda count: speeds.reverse())
    plan, runtime = Plan([encoder_plan(key) for key in seconds]), Runtime()
    speeds = [1.0, 1.0]
    monkeypatch.setattr("zoo.hardware.matrix_speed", lambda *_: speeds[0])
    for factor, shared in ((2.0, 65.0), (1.0, 35.0)):
        speeds[:] = [factor, 1.0]
        assert estimate.time_of_processes(plan, tmp_path, runtime, 2, 1) == (60.0, shared)
    assert estimate.time_of_processes(plan, tmp_path, Runtime(device="cuda"), 2, 1) is None
