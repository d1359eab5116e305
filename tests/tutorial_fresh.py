"""Follow docs/tutorial.md literally in a fresh environment: python tests/tutorial_fresh.py [FOLDER].

Builds the wheel, installs it into a new virtual environment, runs every command of the tutorial in an empty folder and
prints the seconds of each. Ends with exit code 1 and the output of the first command that fails. FOLDER (default: a
temporary one, removed at the end) must be new or empty.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r'^```(\w+)(?: title="(.+?)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)


def commands(page: Path, folder: Path) -> Iterator[str]:
    """Yield the command lines of a page in their order; a file that it shows before one is written into the folder."""
    for language, title, body in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            (folder / title).write_text(body, encoding="utf-8")
        elif language == "sh":
            yield from (line for line in body.splitlines() if line and not line.startswith("#"))


def timed(shown: str, command: list[str], cwd: Path, environment: dict[str, str]) -> float:
    """Run a command, print how long it took and return that; raises SystemExit with its output where it fails."""
    started = time.monotonic()
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    seconds = time.monotonic() - started
    print(f"{seconds:7.1f} s  {shown}", flush=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nexit code {done.returncode}: {shown}")
    return seconds


def follow(folder: Path) -> None:
    """Install and run everything in a folder that is new or empty."""
    work, wheels, scripts = (
        folder / "work",
        folder / "wheels",
        folder / "venv" / ("Scripts" if os.name == "nt" else "bin"),
    )
    for new in (folder, work, wheels):
        new.mkdir(parents=True, exist_ok=new == folder)
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1", "ZOO_BENCH_CACHE": str(folder / "cache")}
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "ZOO_BENCH_DATA", "ZOO_BENCH_RESULTS"):
        environment.pop(name, None)
    started = time.monotonic()
    venv.create(folder / "venv", with_pip=True)
    print(f"{time.monotonic() - started:7.1f} s  a new virtual environment", flush=True)
    pip = [str(scripts / "python"), "-m", "pip"]
    timed("pip wheel --no-deps .", [*pip, "wheel", "-q", "--no-deps", "-w", str(wheels), str(ROOT)], work, environment)
    (wheel,) = wheels.glob("*.whl")
    install = ["install", "-q", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    timed(f"pip install -c constraints.txt {wheel.name}", [*pip, *install], work, environment)
    lines = commands(ROOT / "docs" / "tutorial.md", work)
    tutorial = sum(timed(line, ["sh", "-c", line], work, environment) for line in lines)
    print(f"{tutorial:7.1f} s  the tutorial; {time.monotonic() - started:.1f} s with the installation")


if __name__ == "__main__":
    if any(one.startswith("-") for one in sys.argv[1:]):
        print(__doc__)
    elif len(sys.argv) > 1:
        follow(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            follow(Path(temporary))
