"""Does a test notice when an important line is wrong? `python -m tools.mutations [core | NUMBER ...]`.

Each mutation of mutations.yaml replaces part of a line by a plausible mistake, in a copy of the project, and runs the
tests named beside it there: they pass without it and one of them must fail with it. Prints a line per mutation; exit
code 1 where a mistake survived. `core` are fifty, at least one of each room: what a change of the house is tried with.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.server import run

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Mutation:
    """A part of a line that stands once in `file`, what stands there instead, and the tests that must notice."""

    file: str
    line: str
    instead: str
    tests: str
    what: str
    core: bool = False


MUTATIONS = [Mutation(**one) for one in yaml.safe_load((ROOT / "tools/mutations.yaml").read_text(encoding="utf-8"))]


def place_of(mutation: Mutation, root: Path = ROOT) -> Path:
    """Return the file of a mutation; raises ValueError unless its line stands there once."""
    path = root / mutation.file
    count = path.read_text(encoding="utf-8").count(mutation.line)
    if count != 1:
        raise ValueError(f"{mutation.file}: {mutation.line!r} stands there {count} times instead of once")
    return path


def passes(tests: str, copy: Path) -> bool:
    """Return whether the tests named pass in a copy of the project; raises ValueError where none is run."""
    command = [sys.executable, *"-m pytest -q -x -p no:cacheprovider -p pytest_timeout".split(), *tests.split()]
    done = run(command, cwd=copy, env={**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'papers'}"})
    if done.returncode not in (0, 1):
        raise ValueError(f"pytest {tests}: not all tests were run: {done.stdout[-300:]}")
    return done.returncode == 0


@functools.cache
def check_unbroken(tests: str, copy: Path) -> None:
    """Raise ValueError where the tests fail without any mutation."""
    if not passes(tests, copy):
        raise ValueError(f"pytest {tests}: fails without any mutation")


def caught(mutation: Mutation, copy: Path) -> bool:
    """Return whether the tests of a mutation pass without it and fail with it."""
    path = place_of(mutation, copy)
    before = path.read_text(encoding="utf-8")
    check_unbroken(mutation.tests, copy)
    path.write_text(before.replace(mutation.line, mutation.instead), encoding="utf-8")
    try:
        return not passes(mutation.tests, copy)
    finally:
        path.write_text(before, encoding="utf-8")


def _not_copied(folder: str, names: list[str]) -> list[str]:
    """Return what of a folder the tests named here do not need; compiled modules are copied with their times."""
    left_out = {".git"}
    if Path(folder).parent.name == "leaderboards":
        left_out |= {"records", "records.parquet", "pairs.parquet"}
    return [name for name in names if name in left_out or name.endswith("_cache")]


def main(numbers: list[int]) -> int:
    """Run the mutations with these numbers (from 1), or all; returns 1 where a mistake survived, else 0."""
    chosen = [(n, one) for n, one in enumerate(MUTATIONS, 1) if not numbers or n in numbers]
    survivors = 0
    # No compiled module is of a mutation, which may have the size and the second of the next one; fewer plugins.
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=_not_copied)
        if (ROOT.parent / "shared").is_dir():
            (copy.parent / "shared").symlink_to((ROOT.parent / "shared").resolve())
        for number, mutation in chosen:
            started = time.monotonic()
            alive = not caught(mutation, copy)
            survivors += alive
            seconds = time.monotonic() - started
            print(f"{number:2} {'SURVIVED' if alive else 'caught  '} {seconds:5.1f} s  {mutation.what}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutations are caught")
    return min(survivors, 1)


if __name__ == "__main__":
    core = [number for number, mutation in enumerate(MUTATIONS, 1) if mutation.core]
    raise SystemExit(main(core if sys.argv[1:] == ["core"] else [int(word) for word in sys.argv[1:]]))
