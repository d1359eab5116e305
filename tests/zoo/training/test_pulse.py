"""Processes that train together end with a sentence when one of them is stopped, and only then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zoo.errors import UsageError
from zoo.training.pulse import Pulse, rank_timeout

pytestmark = pytest.mark.slow

PROGRAM = """
import os, sys, time
from pathlib import Path
import torch
from torch import nn
from zoo.encoder import Run, Runtime
from zoo.training.loop import Objective, train
from zoo.training.processes import own_process
from zoo.training.settings import TrainSettings

class Regression(Objective):
    mean_over_rows = True
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)
    def forward(self, x, y):
        time.sleep(0.01)
        return ((self.layer(x) - y) ** 2).mean()

folder, seconds_of_dev, steps = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
x, y, objective = torch.randn(32, 5), torch.randn(32, 3), Regression()
process = own_process(Runtime())
(folder / f"pid-{process.process_index}").write_text(str(os.getpid()))

def dev_score():
    if process.is_main_process and not (folder / "evaluated").exists():
        time.sleep(seconds_of_dev)
        (folder / "evaluated").touch()
    return 1.0

train(
    objective, lambda rows: (x[rows], y[rows]), len(x),
    TrainSettings(batch_size=8, learning_rate=0.05, epochs=steps // 4, eval_every=4, log_every=1),
    runtime=Runtime(), run=Run(folder, 0, checkpoint_steps=1), backbone=objective.layer, dev_score=dev_score,
)
"""


def start(folder: Path, *arguments: object, seconds: float) -> subprocess.Popen[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    many = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = [sys.executable, *many, str(program), str(folder), *map(str, arguments)]
    environment = {**os.environ, "ZOO_BENCH_RANK_TIMEOUT": str(seconds), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)


def steps_done(folder: Path) -> int:
    log = folder / "log.jsonl"
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.mark.flaky(reruns=2)
def test_a_stopped_rank_is_named_and_a_long_evaluation_is_none(tmp_path: Path) -> None:
    """The dev score takes rank 0 twice as long as the timeout: nothing ends. Then rank 1 is stopped."""
    running = start(tmp_path, 4, 100_000, seconds=2)
    try:
        until = time.monotonic() + 120
        while steps_done(tmp_path) < 6 and time.monotonic() < until:  # four steps, the dev score, and one more
            time.sleep(0.1)
        stopped, other = (int((tmp_path / f"pid-{which}").read_text()) for which in (1, 0))
        os.kill(stopped, signal.SIGSTOP)
        at = time.monotonic()
        while alive(other) and time.monotonic() < at + 60:
            time.sleep(0.1)
        seconds = time.monotonic() - at
        os.kill(stopped, signal.SIGKILL)  # torchrun itself would wait 30 s for it
        errors = running.communicate(timeout=60)[1]
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode != 0 and seconds < 30
    assert f"error: rank 1 of 2 (process {stopped} on " in errors and "no sign of life for 2 s" in errors
    assert errors.count("no sign of life") == 1
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert any("dev_score" in line for line in log) and log[-1]["step"] > 4
    assert (tmp_path / "checkpoint.safetensors").is_file(), "what was saved is kept"


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


class Memory:
    """A store in memory."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.texts: dict[str, str] = {}

    def add(self, key: str, amount: int) -> int:
        self.values[key] = self.values.get(key, 0) + amount
        return self.values[key]

    def set(self, key: str, value: str) -> object:
        self.texts[key] = value
        return None

    def get(self, key: str) -> bytes:
        return self.texts[key].encode()


@pytest.mark.flaky(reruns=2)
def test_who_leaves_is_not_missed_and_who_never_began_is() -> None:
    store, told = Memory(), []
    watching = Pulse(store, 0, 3, 0.2, told.append)
    other = Pulse(store, 1, 3, 0.2, told.append)
    other.begin()
    watching.begin()
    time.sleep(0.1)
    other.leave()
    until = time.monotonic() + 30
    while not told and time.monotonic() < until:
        time.sleep(0.05)
    watching.leave()
    assert told[0].startswith("rank 2 of 3 has given no sign of life for 2 s")


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("ZOO_BENCH_RANK_TIMEOUT", text)
    with pytest.raises(UsageError, match="ZOO_BENCH_RANK_TIMEOUT"):
        rank_timeout()


def test_the_timeout_has_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOO_BENCH_RANK_TIMEOUT", raising=False)
    assert rank_timeout() == 60
