"""Kill a run with SIGKILL at random moments, again and again; at the end its records equal those of an unbroken run.

python tests/kill_and_resume.py [KILLS] [SEED]     minutes; run by a person, not by the tests
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ARGUMENTS = [
    "run", "--methods", "simcse:batch_size=16:eval_every=8,moco-reorder:batch_size=16:eval_every=8:queue_size=64",
    "--suite", "pocket", "--seeds", "1", "--train-sentences", "512", "--precision", "fp32", "--no-controls",
]  # fmt: skip
# What two equal runs may differ in: clocks, memory, the folder's name, and how much a resumed run still had to encode.
DIFFERING = ("started", "seconds", "sentences_per_second", "peak_memory_mb", "peak_from_mb", "encoding", "command")


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start the run in a process of its own."""
    command = [sys.executable, "-c", "from benchmark.cli.main import main; main()", *ARGUMENTS, "--out", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def comparable(value: Any) -> Any:
    """Drop what two equal runs may differ in."""
    if isinstance(value, dict):
        return {k: comparable(v) for k, v in value.items() if k not in DIFFERING}
    return [comparable(v) for v in value] if isinstance(value, list) else value


def records(folder: Path) -> dict[str, Any]:
    """Return what is comparable of every record of a results folder."""
    files = sorted((folder / "records").rglob("*.json"))
    return {str(f.relative_to(folder)): comparable(json.loads(f.read_text())) for f in files}


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Return where two plain values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(one.keys() | other.keys())
        return [line for key in keys for line in differences(one.get(key), other.get(key), f"{where}/{key}")]
    return [] if one == other else [f"{where}: {one!r} and {other!r}"]


def main(kills: int = 20, seed: int = 0) -> int:
    """Return 0 when the killed run ended with the records of the unbroken one."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        whole, killed = Path(name) / "whole", Path(name) / "killed"
        started = time.monotonic()
        if start(whole).wait() != 0:
            print("the unbroken run failed")
            return 1
        length = time.monotonic() - started
        done = 0
        while done < kills:
            process = start(killed)
            # Early kills leave work for the later ones: a finished run cannot be killed.
            moment = rng.uniform(0.2, 1.0) * max(length / 3, 5.0)
            try:
                code = process.wait(timeout=moment)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                done += 1
                print(f"kill {done} after {moment:.1f} s", flush=True)
                continue
            if code != 0:
                print(f"a resumed run failed with exit code {code}")
                return 1
            print("the run finished before it could be killed; it starts again from nothing", flush=True)
            if records(killed) != records(whole):
                print("its records differ", *differences(records(whole), records(killed)), sep="\n")
                return 1
            subprocess.run(["rm", "-r", str(killed)], check=True)
        if start(killed).wait() != 0:
            print("the last resumed run failed")
            return 1
        same = records(killed) == records(whole)
        print(f"{done} kills; {len(records(whole))} records, {'all equal' if same else 'NOT EQUAL'}")
        print(*differences(records(whole), records(killed)), sep="\n")
        return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
