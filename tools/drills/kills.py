"""Kill with SIGKILL at random instants and before random file operations: what is done again ends as if unbroken.

Killed are a run that trains, a pretraining, the packing of records, and the making of tables.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.drills.common import (
    ROOT,
    Verdict,
    command,
    differences,
    forked,
    preload,
    results_of,
    tiny_bert,
    training_run,
    workplace,
)

_EVENTS = ("open", "os.", "shutil.", "tempfile.")


def file_operations(
    folder: Path, work: Callable[[], object], *, kill_before: int | None, tell: Path
) -> Callable[[], object]:
    """Return the work with each file operation below a folder counted into `tell`; before one of them it is killed."""

    def watched() -> object:
        inside = str(folder)
        count = 0

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal count
            if not event.startswith(_EVENTS) or not arguments:
                return
            if not any(isinstance(argument, str) and argument.startswith(inside) for argument in arguments[:2]):
                return
            count += 1
            if count == kill_before:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            return work()
        finally:
            tell.write_text(str(count), encoding="utf-8")

    return watched


@dataclass(frozen=True)
class Work:
    """What is killed: the work on a folder, what is compared of the folder at its end, and what lies in it before."""

    do: Callable[[Path], Callable[[], object]]
    results: Callable[[Path], Any]
    before: Path | None = None


def works(folder: Path, model: Path) -> dict[str, Work]:
    """Return what can be killed, by name."""
    kept = folder / "rehearsal"

    def packed(out: Path) -> Any:
        from benchmark.records.folder import Records

        store = Records(out)
        records = store.all()
        scores = [store.pair_scores(record)[0].tolist() for record in records if store.has_pairs(record)]
        return [[record["key"] for record in records], scores, [reason for _, reason in store.corrupt]]

    def pretraining(out: Path) -> Callable[[], object]:
        def train() -> None:
            from tests.papers.pretraining.small_pretraining import SMALL
            from tests.papers.pretraining.small_pretraining import train as pretrain

            pretrain(out / "model", SMALL, every=3)

        return train

    def weights(out: Path) -> Any:
        from zoo.tensors import read_tensors

        return {name: tensor.tolist() for name, tensor in read_tensors(out / "model" / "model.safetensors")[0].items()}

    def tables(out: Path) -> Any:
        from zoo.files import TEMPORARY_NAME

        # What a killed write had begun stays for an hour, hidden, under a name that nothing reads.
        written = (path for path in sorted(out.glob("*.*")) if not TEMPORARY_NAME.fullmatch(path.name))
        return {path.name: path.read_text(encoding="utf-8") for path in written if path.is_file()}

    return {
        "run": Work(lambda out: command(*training_run(model, out), checkpoint_steps=1), results_of),
        "pretrain": Work(pretraining, weights),
        "pack": Work(lambda out: command("pack", "--results", out), packed, kept),
        "leaderboard": Work(lambda out: command("leaderboard", "--results", out), tables, kept),
    }


def kills(counts: dict[str, int], seed: int) -> int:
    """Kill each work so many times; what then ends must have the results of the unbroken one."""
    sys.path.insert(0, str(ROOT / "tests" / "papers" / "pretraining"))
    with workplace() as folder:
        preload(folder / "first")
        model = tiny_bert(folder / "model")
        preload(folder / "first", command(*training_run(model, folder / "rehearsal")))
        every = works(folder, model)
        return max(_kill(what, every[what], count, seed, folder / what) for what, count in counts.items())


def _kill(what: str, work: Work, count: int, seed: int, folder: Path) -> int:
    verdict, rng = Verdict(f"kills of {what}"), random.Random(seed)
    logs, full, cut = folder / "logs", folder / "whole", folder / "cut"
    folder.mkdir()
    tell = folder / "operations"

    def run(out: Path, kill_before: int | None = None, kill_after: float | None = None):  # type: ignore[no-untyped-def]
        if work.before is not None and not out.exists():
            shutil.copytree(work.before, out)
        watched = file_operations(out, work.do(out), kill_before=kill_before, tell=tell)
        return forked(watched, logs, kill_after=kill_after)

    first = run(full)
    if first.code != 0:
        verdict.fault(f"the unbroken run failed: {first.err[-1000:]}")
        return verdict.end()
    wanted, operations = work.results(full), int(tell.read_text(encoding="utf-8"))
    print(f"unbroken: {operations} file operations in its folder, {first.seconds:.1f} s", flush=True)
    rounds, seconds = 0, first.seconds
    while verdict.tried < count:
        by_time = rng.random() < 0.3
        ended = (
            run(cut, kill_after=rng.uniform(0.05, 1.1) * seconds)
            if by_time
            else run(cut, kill_before=rng.randint(1, operations))
        )
        for fault in ended.faults():
            verdict.fault(f"after {verdict.tried} kills: {fault}")
        if ended.code == -signal.SIGKILL:
            verdict.tried += 1
            verdict.count("at a random instant" if by_time else "before a file operation")
            continue
        rounds += 1
        # The first is slow where it imports, or beside other work.
        seconds = min(seconds, ended.seconds)
        _compare(verdict, cut, wanted, work, ended.code, ended.err)
        shutil.rmtree(cut, ignore_errors=True)
    last = run(cut)
    _compare(verdict, cut, wanted, work, last.code, last.err)
    verdict.notes["runs ended and compared"] = rounds + 1
    return verdict.end()


def _compare(verdict: Verdict, cut: Path, wanted: Any, work: Work, code: int, errors: str) -> None:
    if code != 0:
        verdict.fault(f"a resumed run failed with exit code {code}: {errors[-1000:]}")
    gaps = differences(wanted, work.results(cut))
    if gaps:
        verdict.fault("results differ: " + "; ".join(gaps[:5]))
    remains = [path for path in cut.rglob("*") if path.suffix == ".corrupt" or path.name.endswith(".damaged")]
    if remains:
        verdict.fault(f"a kill damaged a file: {remains}")
