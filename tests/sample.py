"""`pytest --sample`: of the slow tests a sixteenth, another one each week, and at least one of each kind.

A kind is a function with its cases (recipes, keys, architectures), or the other functions of a file; a function with
quick cases has shown its kind. Cases that name a method or a recipe whose code the last commits changed are always run.
"""

from __future__ import annotations

import ast
import datetime
import re
import subprocess
import zlib
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

import pytest

_SHARE = 16  # one case in sixteen


def touched(root: Path) -> set[str]:
    """Return the names of methods and recipes whose code changed in the last ten commits; none without git.

    Docstrings and comments are no code.
    """

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout

    places = ("--", "zoo/methods", "configs/methods")
    try:
        base = git("log", "-10", "--format=%H", *places).split()[-1] + "^"
        paths = [root / name for name in git("diff", "--name-only", "--diff-filter=M", base, *places).split()]
        return {
            path.stem
            for path in paths
            if code(git("show", f"{base}:{path.relative_to(root)}")) != code(path.read_text())
        }
    except (OSError, subprocess.CalledProcessError, IndexError):
        return set()


def code(text: str) -> str:
    """Return a module's code without docstrings and comments; another text as it is."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            del body[0]
    return ast.dump(tree)


def kind(name: str) -> str:
    """Return the function of a case, else the file."""
    return name.partition("[" if "[" in name else "::")[0]


def drawn(names: list[str], week: str, changed: set[str], quick: Collection[str] = ()) -> set[str]:
    """Return which of these test names run in a week: the same everywhere, also in each worker.

    Args:
        names: The slow tests.
        week: What the draw depends on.
        changed: Methods and recipes whose cases all run.
        quick: Functions with quick cases.
    """
    places = {name: zlib.crc32(f"{name} {week}".encode()) for name in names}
    kinds: dict[str, list[str]] = defaultdict(list)
    for name in names:
        kinds[kind(name)].append(name)
    first = {min(cases, key=places.__getitem__) for of, cases in kinds.items() if of not in quick}
    named = {name for name in names if changed & set(re.split(r"[\[\],: ]+", name.partition("[")[2]))}
    return first | named | {name for name, place in places.items() if place % _SHARE == 0}


def keep(config: pytest.Config, items: list[pytest.Item], root: Path) -> None:
    """Leave out the slow tests that are not drawn this week."""
    slow = [item.nodeid for item in items if item.get_closest_marker("slow")]
    quick = {kind(item.nodeid) for item in items if "[" in item.nodeid and not item.get_closest_marker("slow")}
    year, number, _ = datetime.date.today().isocalendar()
    away = set(slow) - drawn(slow, f"{year}-{number}", touched(root), quick)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in away])
    items[:] = [item for item in items if item.nodeid not in away]
