"""Each `pip install ...` that code and pages print goes with the versions that are tested."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmark.run.tracking import _PACKAGES, known_trackers
from zoo.formats.word_vectors import GLOVE_PACKAGE
from zoo.selection import LABELLED_PACKAGES

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("zoo", "benchmark", "choose", "papers", "docs", "examples", "tools", "speed")
# What the code puts into the place of a name.
FILLED = {
    "{GLOVE_PACKAGE}": [GLOVE_PACKAGE],
    "{name}": [*LABELLED_PACKAGES],
    "{package}": [_PACKAGES.get(name, name) for name in known_trackers()],
}
OURS = {"zoo-bench": ".", "zoo-bench-papers": "./papers", "papers": "./papers"}
# The index of PyTorch, and an action that names the version of a release.
OPTIONS = re.compile(r"(-c +\S+|-e|--extra-index-url +\S+) +")


def commands() -> Iterator[str]:
    """Yield what stands behind `pip install`, up to the end of the command."""
    pages = [page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md"]
    files = [*pages, *(path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in (".py", ".md"))]
    for path in files:
        for match in re.finditer(r"pip install +([^`\"\n]+)", path.read_text(encoding="utf-8", errors="replace")):
            command = OPTIONS.sub("", re.split(r" &&| +#|, or | adds ", match[1])[0]).strip()
            yield re.sub(r"(?<=\S)[.,;)]+$", "", command)


def requirements() -> dict[str, list[str]]:
    """Return each printed command as the arguments that a clone gives pip."""
    known: dict[str, list[str]] = {}
    for command in commands():
        for filled in FILLED.get(command, [command]):
            parts = []
            for part in shlex.split(filled):
                name, bracket, extra = re.sub(r"==0\.1\.0$", "", part).partition("[")
                parts.append(OURS.get(name, name) + bracket + extra)
            known[" ".join(parts)] = parts
    return known


def test_every_command_is_understood() -> None:
    """No placeholder is left, and what lies in this clone is there."""
    known = requirements()
    assert len(known) >= 15 and {".", ".[onnx]", ".[mteb]", "./papers", GLOVE_PACKAGE} <= known.keys()
    for parts in known.values():
        for part in parts:
            assert re.fullmatch(r"\.{0,2}[\w./-]+(\[[\w,-]+\])?", part) or part == ".", part
            if part.startswith("./"):
                assert (ROOT / part / "pyproject.toml").is_file(), part


@pytest.mark.slow
@pytest.mark.parametrize("parts", requirements().values(), ids=" ".join)
def test_it_resolves_with_the_tested_versions(parts: list[str]) -> None:
    words = [sys.executable, "-m", "pip", "install", "--dry-run", "-q", "-c", "constraints.txt", *parts]
    # A clone's own packages need each other.
    words += ["."] if parts[0].startswith("./") else []
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    if re.search(
        r"Temporary failure in name resolution|Connection|No matching distribution found for hatchling", done.stderr
    ):
        pytest.skip("the registry cannot be reached")
    assert done.returncode == 0, done.stderr[-2000:]
