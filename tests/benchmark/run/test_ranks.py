"""`run` in the processes of torchrun: one plans, measures and writes, all train, and one that dies ends the others."""

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

from benchmark.run.executors.ranks import check_shared
from benchmark.run.plan import EncoderPlan, Plan
from zoo.encoder import Encoder, Traits
from zoo.errors import UsageError
from zoo.training.team import Team

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
# PromptBERT takes a template's bias once per length of a process's own rows: with dropout these would be other masks.
TRAINED = [
    "promptbert:dropout=0:batch_size=16:eval_every=2",
    "ct:dropout=0.1:batch_size=16:epochs=1:eval_every=99",
    "simcse:batch_size=16:eval_every=2",
    "ptbert:batch_size=16:eval_every=2",
]


def words(tiny_bert: Path, out: Path, methods: str) -> list[str]:
    line = f"run --methods {methods} --backbone {tiny_bert} --seeds 1 --train-sentences 64 --tasks pocket-pairs"
    return [*line.split(), "--precision", "fp32", "--results", str(out)]


def start(arguments: list[str]) -> subprocess.Popen[str]:
    command = [*TORCHRUN, "-m", "benchmark", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def records(folder: Path) -> dict[str, dict[str, Any]]:
    found = [json.loads(path.read_text("utf-8")) for path in (folder / "records").rglob("*.json")]
    return {record["key"]: record for record in found}


def rank_pid(launcher: int, rank: int) -> int:
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if f"\0RANK={rank}\0" in "\0" + Path(f"/proc/{child}/environ").read_text():
            return int(child)
    raise AssertionError(f"torchrun has no process of rank {rank}")


@pytest.mark.slow
def test_two_processes_write_the_records_of_one(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    """In float32, up to the order in which numbers are added; the masks of dropout are those of one process."""
    methods = ",".join([*TRAINED, "cls"])
    child = start(words(tiny_bert, tmp_path / "two", methods))
    assert cli(*words(tiny_bert, tmp_path / "one", methods)).code == 0
    out, err = child.communicate(timeout=200)
    assert child.returncode == 0, err
    assert err.count("5 cells measured, 0 kept from before, 0 failed, 0 n/a") == 1 and out.count("written:") == 1
    assert err.count("cls: 1 task") == 1, "one process tells"
    one, two = records(tmp_path / "one"), records(tmp_path / "two")
    assert one.keys() == two.keys() and len(one) == 5
    for key, record in one.items():
        other = two[key]
        assert other["status"] == "ok" and other["row_key"] == record["row_key"]
        if record["training"] is None:
            assert other["scores"] == record["scores"]
            continue
        assert other["training"]["processes"] == 2 and "processes" not in record["training"]
        for name in ("steps", "sentences", "corpus", "best_step"):
            assert other["training"][name] == record["training"][name]
        assert other["training"]["final_loss"] == pytest.approx(record["training"]["final_loss"], rel=1e-4)
        assert other["scores"]["main"] == pytest.approx(record["scores"]["main"], abs=1e-4)


@pytest.mark.slow
@pytest.mark.flaky(reruns=2)
def test_a_rank_that_dies_ends_the_other_with_a_sentence(tiny_bert: Path, tmp_path: Path) -> None:
    victim = 0  # the one that plans and writes
    child = start(words(tiny_bert, tmp_path, "simcse:batch_size=4:epochs=400"))
    try:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("encoders/*/training/log.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(rank_pid(child.pid, victim), signal.SIGKILL)
        killed = time.monotonic()
        _, err = child.communicate(timeout=120)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode != 0 and time.monotonic() - killed < 60
    assert err.count("ended or is silent, and nothing is trained without it") == 1, err
    assert f"process {1 - victim} of 2: process {victim} ended" in err and "failed, " not in err
    assert not records(tmp_path), "a training that lost a process is no failed cell"


def encoder_plan(**traits: Any) -> Plan:
    plan = EncoderPlan(
        name="a", cls=Encoder, recipe=None, traits=Traits(**traits), seed=0, key="k", row_key="r", code="c", cells=()
    )
    return Plan([plan])


def test_what_several_processes_cannot_train_is_refused() -> None:
    check_shared(encoder_plan(training_passes=1.0, shares_batches=True), 2)
    check_shared(encoder_plan(needs_corpus=True), 2)  # a whitening, say: one process fits it
    with pytest.raises(UsageError, match="a is trained by one process, and 2 were started"):
        check_shared(encoder_plan(training_passes=1.0), 2)


def test_a_team_takes_its_variables_out_of_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert Team.found() is None
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="RANK, MASTER_ADDR or MASTER_PORT is missing"):
        Team.found()
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    team = Team.found()
    assert team is not None and not team.leads and team.size == 2 and team.local_rank == 1
    assert "WORLD_SIZE" not in os.environ and "RANK" not in os.environ
