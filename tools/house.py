"""Counts of the code, and a walk through a run: how much there is, and how much of it a reader meets.

    python -m tools.house              # lines, files, rooms, long functions, Any, names used once, late imports
    python -m tools.house walk         # also which files and functions of the project a small run enters
    python -m tools.house names        # the private functions that are used once, shortest first

Nothing is judged here; two commits are compared by running the same file on both.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import groupby
from pathlib import Path

from tools.rooms import FLOORS, PACKAGES, ROOT, arrows_of, between_rooms, circles, uphill

LONG = 50
SHORT = 6
Function = ast.FunctionDef | ast.AsyncFunctionDef

# Runs a command in a process whose every call is watched; prints the project's files and functions in order.
WATCHED = """
import sys, threading
from pathlib import Path
root, codes, seen = Path(sys.argv[1]), set(), {}
def watch(frame, event, argument):
    code = frame.f_code
    if event != "call" or code in codes:
        return
    codes.add(code)
    file = Path(code.co_filename)
    if code.co_flags & 1 and not code.co_name.startswith("<") and root in file.parents:  # no class body, no lambda
        place = file.relative_to(root)
        if place.parts[0] in ("zoo", "benchmark", "choose"):
            seen[place.as_posix(), code.co_qualname] = None
threading.setprofile(watch)
sys.setprofile(watch)
"""
COMMAND = "run --methods avg-last --suite pocket --backbone zoo-mini --no-controls --results".split()


def sources() -> dict[Path, ast.Module]:
    """Return the syntax tree of every file of the packages."""
    paths = [path for package, folder in PACKAGES.items() for path in sorted((folder / package).rglob("*.py"))]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def used_once(trees: dict[Path, ast.Module]) -> list[tuple[int, str]]:
    """Return (lines, place) of the private functions and methods whose name stands in one place beside its own."""
    words = Counter(word for path in trees for word in re.findall(r"\w+", path.read_text(encoding="utf-8")))
    sizes = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, Function):
                continue
            private = node.name.startswith("_") and not node.name.endswith("__")
            if private and words[node.name] == 2:
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                sizes.append((lines, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"))
    return sorted(sizes)


def counts() -> dict[str, object]:
    """Return the figures by what they count."""
    trees = sources()
    functions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, Function)]
    long = [f for f in functions if (f.end_lineno or f.lineno) - f.lineno + 1 > LONG]
    once = used_once(trees)
    late = sum(
        isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FLOORS
        for function in functions
        for node in ast.walk(function)
    )
    names = [node.id for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Name)]
    rooms, arrows, up, rings = 0, 0, 0, 0
    for package, floors in FLOORS.items():
        within = arrows_of(PACKAGES[package], package)
        between = between_rooms(within, floors)
        rooms, arrows = rooms + len(between), arrows + sum(map(len, between.values()))
        up, rings = up + len(uphill(within, floors)), rings + len(circles(within))
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in trees}
    every = [node for tree in trees.values() for node in ast.walk(tree)]
    thousands = sum(lines.values()) / 1000
    return {
        "files of zoo, benchmark and papers": len(trees),
        "their lines": sum(lines.values()),
        "raise per 1,000 lines": round(sum(isinstance(node, ast.Raise) for node in every) / thousands, 1),
        "except per 1,000 lines": round(sum(isinstance(node, ast.ExceptHandler) for node in every) / thousands, 1),
        "lines of the longest file": max(lines.values()),
        "lines of tests": sum(path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "tests").rglob("*.py")),
        "rooms": rooms,
        "arrows between rooms": arrows,
        "imports that point up": up,
        "circles": rings,
        "functions": len(functions),
        f"functions over {LONG} lines": f"{len(long)} ({len(long) / len(functions):.1%})",
        "Any": names.count("Any"),
        "private functions used once": len(once),
        f"of them at most {SHORT} lines": sum(size <= SHORT for size, _ in once),
        "own imports inside functions": late,
    }


def walk() -> dict[str, int]:
    """Return how many files and functions of the project a small run enters, and how often it changes rooms."""
    with tempfile.TemporaryDirectory() as folder:
        program = (
            f"{WATCHED}\nfrom benchmark.cli.main import main\ntry:\n    main({[*COMMAND, folder]!r})\n"
            "except SystemExit as end:\n    assert not end.code, end\n"
            "print('\\n'.join('@' + '\\t'.join(place) for place in seen))"
        )
        # Vectors in the cache would shorten the way.
        environment = {**os.environ, "ZOO_BENCH_CACHE": folder}
        done = subprocess.run(
            [sys.executable, "-c", program, str(ROOT)], cwd=ROOT, capture_output=True, text=True, env=environment
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    places = [tuple(line[1:].split("\t")) for line in done.stdout.splitlines() if line.startswith("@")]
    files = [file for file, _ in places]
    tables = [file for file in files if file.startswith("benchmark/report/")]
    first = files.index(tables[0]) if tables else len(files)
    return {
        "files that a run enters": len(set(files)),
        "functions that it enters": len(places),
        "files before its tables": len(set(files[:first])),
        "functions before its tables": first,
        "stays before its tables (in files, in the order of first calls)": sum(1 for _ in groupby(files[:first])),
        "functions of benchmark/report": len(tables),
    }


def main(*words: str) -> None:
    """Print the figures."""
    if words == ("names",):
        for size, place in used_once(sources()):
            print(f"{size:4} {place}")
        return
    for name, value in {**counts(), **(walk() if words == ("walk",) else {})}.items():
        print(f"{value!s:>12}  {name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
