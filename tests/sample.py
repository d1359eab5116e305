"""`pytest --sample`: of the slow tests a sixteenth, another one each week, and at least one of each kind.

A kind is a function with its cases (recipes, keys, architectures), or the other functions of a file; a function with
quick cases has shown its kind. Always run are cases that name a method or a recipe whose code the last commits changed,
and tests that quote a text which they changed.
"""

from __future__ import annotations

import ast
import datetime
import inspect
import re
import subprocess
import textwrap
import zlib
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

import pytest

_SHARE = 16  # one case in sixteen
_CODE = ("zoo", "benchmark", "choose", "papers")
# Shorter texts are words that say little.
_LONG = 16


def changed(root: Path, *places: str) -> dict[Path, str]:
    """Return the files that the last ten commits at these places changed, with the former text; none without git."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout

    try:
        base = git("log", "-10", "--format=%H", "--", *places).split()[-1] + "^"
        names = git("diff", "--name-only", "--diff-filter=M", base, "--", *places).split()
        return {root / name: git("show", f"{base}:{name}") for name in names}
    except (OSError, subprocess.CalledProcessError, IndexError):
        return {}


def touched(root: Path) -> set[str]:
    """Return the names of methods and recipes whose code changed; docstrings and comments are no code."""
    former = changed(root, "zoo/methods", "configs/methods")
    return {path.stem for path, text in former.items() if code(text) != code(path.read_text())}


def gone(root: Path) -> set[str]:
    """Return the texts, from a length on, that the code had and has no more: messages, keys, options."""
    former = {path: text for path, text in changed(root, *_CODE).items() if path.suffix == ".py"}
    return {text for path, old in former.items() for text in _texts(old) - _texts(path.read_text())}


def _texts(source: str) -> set[str]:
    """Return the strings of code, parts of f-strings too, without docstrings."""
    tree = _without_docstrings(ast.parse(source))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if len(text) >= _LONG}


def quotes(source: str, texts: Collection[str]) -> bool:
    """True if a test quotes one of the texts, or a part of it; backslashes of patterns do not count."""
    parts = [text.replace("\\", "") for text in _texts(textwrap.dedent(source))]
    return any(part in text or text in part for part in parts for text in texts)


def code(text: str) -> str:
    """Return a module's code without docstrings and comments; another text as it is."""
    try:
        return ast.dump(_without_docstrings(ast.parse(text)))
    except SyntaxError:
        return text


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            del body[0]
    return tree


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
    texts = gone(root)
    slow_items = [item for item in items if item.get_closest_marker("slow") and isinstance(item, pytest.Function)]
    functions = {item.function: item.nodeid for item in slow_items}
    quoting = {name for function, name in functions.items() if quotes(inspect.getsource(function), texts)}
    away = set(slow) - drawn(slow, f"{year}-{number}", touched(root), quick) - quoting
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in away])
    items[:] = [item for item in items if item.nodeid not in away]
