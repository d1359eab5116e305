"""python -m tests.torture: kills, processes, disk, flips, or all; exits with 1 if one gave way."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

PARTS = [
    *("kills 200", "kills 50 --of pretrain", "kills 50 --of pack", "kills 50 --of leaderboard"),
    *("flips 1000", "flips 1000 --seed 1", "disk 50", "processes 20"),
]
"""What `all` runs, one after the other; none takes more than half an hour on two cores."""


def all_parts(file: Path, minutes: float) -> int:
    """Run the parts that the file does not hold, each in a process, and add a line of JSON for each that ended.

    Ends after so many minutes; the same command goes on. Exit code 1 where a part did not hold.
    """
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []
    started, done = time.monotonic(), {line["part"] for line in lines}
    for part in PARTS:
        if part in done or time.monotonic() - started > 60 * minutes:
            continue
        begun = time.monotonic()
        command = [sys.executable, "-m", "tests.torture", *part.split()]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        said = ended.stdout.strip().splitlines()
        line = {"part": part, "code": ended.returncode, "seconds": round(time.monotonic() - begun), "said": said[-1:]}
        lines.append(line)
        with file.open("a", encoding="utf-8") as kept:
            kept.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)
    wrong = [line["part"] for line in lines if line["code"]]
    print(f"{len(lines)} of {len(PARTS)} parts, {len(wrong)} did not hold{': ' if wrong else ''}{', '.join(wrong)}")
    return int(bool(wrong) or len(lines) < len(PARTS))


def main(arguments: list[str] | None = None) -> int:
    """Run one torture."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description="Try to break zoo-bench.")
    commands = parser.add_subparsers(dest="what", required=True)
    for name, help_text, count in (
        ("kills", "SIGKILL at random instants, also between any two file operations", 200),
        ("processes", "several processes on one folder, some of them killed", 20),
        ("disk", "a full disk at so many sizes", 50),
        ("flips", "one flipped bit in any file that is read", 2000),
    ):
        one = commands.add_parser(name, help=help_text)
        one.add_argument("count", type=int, nargs="?", default=count)
        one.add_argument("--seed", type=int, default=0)
        if name == "kills":
            one.add_argument("--of", default="run", choices=["run", "pretrain", "pack", "leaderboard"])
        if name == "flips":
            one.add_argument("--only", help="only what has this in its name")
    every = commands.add_parser("all", help="all of it at full size, in parts that add up in a file")
    every.add_argument("--file", type=Path, default=Path("torture.jsonl"))
    every.add_argument("--minutes", type=float, default=1e9, help="begin no other part after so many")
    options = parser.parse_args(arguments)
    if options.what == "all":
        return all_parts(options.file, options.minutes)
    if options.what == "kills":
        from tests.torture.kills import kills

        return kills(options.count, options.seed, options.of)
    if options.what == "processes":
        from tests.torture.processes import processes

        return processes(options.count, options.seed)
    if options.what == "disk":
        from tests.torture.disk import disk

        return disk(options.count, options.seed)
    from tests.torture.flips import flips

    return flips(options.count, options.seed, options.only)


if __name__ == "__main__":
    sys.exit(main())
