"""Killed while training, the same command goes on and ends as if nothing had happened; two processes do not collide."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

pytestmark = pytest.mark.slow

# The command line with a checkpoint every 5 steps instead of every minute.
_DRIVER = """
import functools, sys
from benchmark.cli.main import main
from benchmark.run.executors import here
here.Runner = functools.partial(here.Runner, run_options={"checkpoint_steps": 5})
main(sys.argv[1:])
"""


def arguments(tiny_bert: Path, out: Path) -> list[str]:
    """40 steps of SimCSE on pocket sentences, one task."""
    words = f"run --methods simcse:batch_size=16:eval_every=12 --backbone {tiny_bert} --seeds 1 --out {out}"
    return [*words.split(), *"--train-sentences 640 --tasks pocket-pairs --precision fp32".split()]


def start(words: list[str]) -> subprocess.Popen[str]:
    """Start zoo-bench in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", _DRIVER, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_training(child: subprocess.Popen[str], out: Path, steps: int) -> None:
    """Return once the training log says that so many steps are done."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and child.poll() is None:
        for log in out.glob("encoders/*/training/log.jsonl"):
            if f'"step": {steps},' in log.read_text(encoding="utf-8"):
                return
        time.sleep(0.005)
    raise AssertionError(f"no step {steps}: {child.communicate()[1] if child.poll() is not None else 'too slow'}")


def the_record(out: Path) -> dict[str, Any]:
    """Return the only record of a folder."""
    (path,) = (out / "records").rglob("*.json")
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """One thread here as in the child processes: the sums are the same, and a busy machine is no obstacle."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def unbroken(one_thread: None, tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The record of a run that nothing disturbs."""
    from benchmark.cli.main import main

    out = tmp_path_factory.mktemp("unbroken")
    with pytest.raises(SystemExit) as leaving:
        main(arguments(tiny_bert, out))
    assert leaving.value.code == 0
    return the_record(out)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)], ids=["SIGTERM", "SIGKILL"])
@pytest.mark.flaky(reruns=2)
def test_killed_training_goes_on_and_ends_the_same(
    number: int, code: int, tiny_bert: Path, tmp_path: Path, cli: Cli, unbroken: dict[str, Any]
) -> None:
    """The resumed run continues from a checkpoint; scores, losses and dev scores equal the unbroken run's."""
    words = arguments(tiny_bert, tmp_path)
    child = start(words)
    wait_for_training(child, tmp_path, 20)
    os.kill(child.pid, number)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == code, errors
    assert not list(tmp_path.glob("records/*/*.json"))
    if number == signal.SIGTERM:
        assert "same command" in errors
        assert "Traceback" not in errors

    answer = cli(*words)
    assert answer.code == 0
    resumed = re.search(r"resuming at step (\d+) of 40", answer.err)
    assert resumed is not None
    assert int(resumed[1]) >= 15
    record = the_record(tmp_path)
    assert record["scores"] == unbroken["scores"]
    for fact in ("steps", "final_loss", "dev_scores", "best_step", "corpus"):
        assert record["training"][fact] == unbroken["training"][fact]
    assert record["key"] == unbroken["key"]
    assert not list(tmp_path.rglob("checkpoint.safetensors"))


def test_two_processes_share_the_work(tiny_bert: Path, tmp_path: Path, unbroken: dict[str, Any]) -> None:
    """The same command twice at the same time trains once, measures once, and both end well."""
    children = [start(arguments(tiny_bert, tmp_path)) for _ in range(2)]
    errors = [child.communicate(timeout=120)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], errors
    counts = [int(re.search(r"(\d+) cells measured", text)[1]) for text in errors]  # type: ignore[index]
    assert sorted(counts) == [0, 1]
    assert the_record(tmp_path)["scores"] == unbroken["scores"]
    (log,) = tmp_path.glob("encoders/*/training/log.jsonl")
    steps = [json.loads(line)["step"] for line in log.read_text(encoding="utf-8").splitlines() if '"loss"' in line]
    assert steps == sorted(set(steps)), "trained twice into one log"
