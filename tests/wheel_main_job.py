"""Install the project into an empty virtual environment and run the README's main job in an empty folder, then papers/.

Run by `tox -e wheel`, which trains on a part of the sentences. Usage: python tests/wheel_main_job.py FOLDER [--whole];
with `--whole` the job is the README's to the letter, and its time is checked too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The README promises about four minutes on two cores; a machine without bfloat16, or one that others share, may take
# nearly four times as long.
LIMIT_SECONDS = 900
PART = ["--train-sentences", "192"]  # three steps of each training


def arguments(full: bool) -> list[str]:
    """Return the words of the main job."""
    return ["run", "--methods", "ptbert,simcse", *([] if full else PART)]


def papers_beside(scripts: Path, work: Path, environment: dict[str, str]) -> None:
    """Ask for `claims`, which the core alone has not; install papers/ from a wheel and ask again."""
    command = [scripts / "zoo-bench", "claims", "--results", "zoo-bench-results"]
    refused = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    assert refused.returncode != 0 and refused.stderr.count("\n") == 1, refused.stderr
    assert "pip install ./papers" in refused.stderr, refused.stderr
    install = [scripts / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", ROOT / "papers"]
    subprocess.run(install, check=True, cwd=work)
    subprocess.run(command, cwd=work, env=environment, check=True)
    assert (work / "zoo-bench-results" / "claims.json").is_file()
    listed = subprocess.run(
        [scripts / "zoo-bench", "reproduce", "--list"], cwd=work, env=environment, capture_output=True, text=True
    )
    assert listed.returncode == 0 and "ptbert-table3" in listed.stdout, listed.stderr


def main(folder: Path, full: bool) -> None:
    """Build, install, run, and look at what was written."""
    shutil.rmtree(folder, ignore_errors=True)
    work = folder / "empty"
    work.mkdir(parents=True)
    venv.create(folder / "venv", with_pip=True)
    scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run(
        [scripts / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", ROOT], check=True, cwd=work
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "ZOO_BENCH_CACHE": str(folder / "cache")}
    environment.pop("PYTHONPATH", None)
    started = time.monotonic()
    result = subprocess.run(
        [scripts / "zoo-bench", *arguments(full)],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds = time.monotonic() - started
    print(result.stdout)
    table = json.loads((work / "zoo-bench-results" / "pocket.json").read_text(encoding="utf-8"))
    methods = {row["method"]: row for row in table["rows"]}
    assert set(methods) == {"ptbert", "simcse", "random", "cls"}, methods
    trained = [methods["ptbert"]["average"], methods["simcse"]["average"]]
    assert all(average["seeds"] == 3 and average["sd"] is not None for average in trained)
    assert "ptbert" in result.stdout and "index.html" in result.stdout, "the table and its place are missing"
    assert "Gained by training against cls: " in result.stdout
    for name in ("ptbert", "simcse"):  # its gain over the vectors that it starts from, with the interval
        gain = rf"{name} [+-]\d+\.\d \([+-]?\d+\.\d to [+-]?\d+\.\d\)"
        assert re.search(gain, result.stdout), f"nothing is said of the gain of {name}"
    papers_beside(scripts, work, environment)
    print(f"main job: {seconds:.0f} s from an installed wheel in an empty folder")
    assert not full or seconds < LIMIT_SECONDS, f"the main job took {seconds:.0f} s, more than {LIMIT_SECONDS}"


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), "--whole" in sys.argv[2:])
