"""Kill a run with SIGKILL at random instants and before random file operations; resumed, it ends as if unbroken."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.torture.common import (
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
            if not any(isinstance(one, str) and one.startswith(inside) for one in arguments[:2]):
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


def kills(count: int, seed: int) -> int:
    """Kill `count` times; every run that then ends must have the results of the unbroken one."""
    verdict = Verdict("kills")
    rng = random.Random(seed)
    with workplace() as folder:
        preload(folder / "first")
        model = tiny_bert(folder / "model")
        preload(folder / "first", command(*training_run(model, folder / "rehearsal")))
        logs, whole, cut = folder / "logs", folder / "whole", folder / "cut"
        tell = folder / "operations"

        def run(out: Path, kill_before: int | None = None, kill_after: float | None = None):  # type: ignore[no-untyped-def]
            work = command(*training_run(model, out), checkpoint_steps=1)
            work = file_operations(out, work, kill_before=kill_before, tell=tell)
            return forked(work, logs, kill_after=kill_after)

        first = run(whole)
        if first.code != 0:
            verdict.fault(f"the unbroken run failed: {first.err[-1000:]}")
            return verdict.end()
        wanted, operations = results_of(whole), int(tell.read_text(encoding="utf-8"))
        print(f"the unbroken run: {operations} file operations in its folder, {first.seconds:.1f} s", flush=True)
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
            seconds = min(seconds, ended.seconds)  # the first is slow where it imports, or beside other work
            _compare(verdict, cut, wanted, ended.code, ended.err)
            shutil.rmtree(cut, ignore_errors=True)
        last = run(cut)
        _compare(verdict, cut, wanted, last.code, last.err)
        verdict.notes["runs ended and compared"] = rounds + 1
    return verdict.end()


def _compare(verdict: Verdict, cut: Path, wanted: object, code: int, errors: str) -> None:
    if code != 0:
        verdict.fault(f"a resumed run failed with exit code {code}: {errors[-1000:]}")
    found = differences(wanted, results_of(cut))
    if found:
        verdict.fault("results differ: " + "; ".join(found[:5]))
    left = [path for path in cut.rglob("*") if path.suffix == ".corrupt" or path.name.endswith(".damaged")]
    if left:
        verdict.fault(f"a kill damaged a file: {left}")
