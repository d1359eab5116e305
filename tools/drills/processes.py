"""Several processes work on one results folder and one cache at the same time, and some are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
from pathlib import Path

from tools.drills.common import (
    Ended,
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

AT_ONCE = 4


def processes(rounds: int, seed: int) -> int:
    """Each round: four processes on an empty folder, one of them killed; then one run that must find all done."""
    verdict = Verdict("processes")
    rng = random.Random(seed)
    with workplace() as folder:
        preload(folder / "first")
        model = tiny_bert(folder / "model")
        words = training_run(model, folder / "whole")
        preload(folder / "first", command(*training_run(model, folder / "rehearsal")))
        first = forked(command(*words, checkpoint_steps=1), folder / "logs")
        if first.code != 0:
            verdict.fault(f"the undisturbed run failed: {first.err[-1000:]}")
            return verdict.end()
        wanted = results_of(folder / "whole")
        for number in range(rounds):
            verdict.tried += 1
            out = folder / f"shared-{number}"
            os.environ["ZOO_BENCH_CACHE"] = str(folder / f"cache-{number}")
            doomed = rng.randrange(AT_ONCE) if number % 2 else None
            for ended, was_doomed in _together(folder, model, out, first.seconds, doomed, rng):
                for fault in ended.faults():
                    verdict.fault(f"round {number}: {fault}")
                verdict.count("killed" if ended.code == -signal.SIGKILL else "ended")
                if ended.code != 0 and not was_doomed:
                    verdict.fault(f"round {number}: exit code {ended.code}: {ended.err[-500:]}")
            last = forked(command(*training_run(model, out)), folder / "logs")
            if last.code != 0:
                verdict.fault(f"round {number}: the run after them failed: {last.err[-500:]}")
            gaps = differences(wanted, results_of(out))
            if gaps:
                verdict.fault(f"round {number}: results differ: {'; '.join(gaps[:3])}")
            shutil.rmtree(out)
    return verdict.end()


def _together(
    folder: Path, model: Path, out: Path, seconds: float, doomed: int | None, rng: random.Random
) -> list[tuple[Ended, bool]]:
    """Start the same command in several processes at once; return how each ended, and whether it was to be killed."""
    # So the threads that wait for the processes are not forked again.
    starter = os.fork()
    if starter == 0:
        ended: dict[int, Ended] = {}
        moments = [rng.uniform(0.1, 2.0) * seconds if number == doomed else None for number in range(AT_ONCE)]

        def run_number(number: int) -> None:
            work = command(*training_run(model, out), checkpoint_steps=1)
            ended[number] = forked(work, folder / f"process-{number}", kill_after=moments[number])

        threads = [threading.Thread(target=run_number, args=(number,)) for number in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = [f"{number} {ended[number].code}" for number in range(AT_ONCE)]
        (folder / "codes").write_text("\n".join(lines), encoding="utf-8")
        os._exit(0)
    os.waitpid(starter, 0)
    answers = []
    for line in (folder / "codes").read_text(encoding="utf-8").splitlines():
        number, code = map(int, line.split())
        logs = folder / f"process-{number}"
        last = len(list(logs.glob("out-*"))) - 1
        texts = [(logs / f"{kind}-{last}").read_text(encoding="utf-8", errors="replace") for kind in ("out", "err")]
        answers.append((Ended(code, texts[0], texts[1], 0.0, 0.0), number == doomed))
    return answers
