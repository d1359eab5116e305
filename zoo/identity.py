"""The code of a plugin: the file of a class, and of every module outside installed packages that it imports."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from zoo.files import sha256_file, sha256_json

_IN_HOUSE = ("zoo", "benchmark", "choose", "zoo_bench_papers")


def file_of(cls: type) -> Path | None:
    """Return the file of a class outside this project; None for a class of the project or of a terminal."""
    place = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return None if place is None or cls.__module__.partition(".")[0] in _IN_HOUSE else Path(place)


def code_files(cls: type) -> dict[str, Path]:
    """Return the file of a plugin's class and of the modules that it imports, by module, without installed packages.

    The package of the class counts as its own, installed or not. Imports are read from the text, those inside functions
    too, so that the result does not depend on what else is loaded.
    """
    file = file_of(cls)
    if file is None:
        return {}
    package = "" if cls.__module__.startswith("zoo_bench_plugin_") else cls.__module__
    files = {"": file}
    pending = [(package, file)]
    while pending:
        module, path = pending.pop()
        for name in _imported(path, module):
            if name in files or (place := _place(name)) is None or place in files.values():
                continue
            if name.partition(".")[0] == package.partition(".")[0] or not _installed(place):
                files[name] = place
                pending.append((name, place))
    return dict(sorted(files.items()))


def code_sha256(cls: type) -> str:
    """Return the sha256 of a plugin's code; of a single file its own, and "" for a class of this project."""
    files = code_files(cls)
    if len(files) < 2:
        return "".join(map(sha256_file, files.values()))
    return sha256_json({name: sha256_file(path) for name, path in files.items()})


def _imported(path: Path, module: str) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, OSError):
        return
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            before = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*before, *([node.module] if node.module else [])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            names = [str(node.args[0].value)] if called in ("import_module", "__import__") else []
        for name in names:
            parts = name.split(".")
            if parts[0] and parts[0] not in _IN_HOUSE:
                yield from (".".join(parts[: n + 1]) for n in range(len(parts)))


def _place(name: str) -> Path | None:
    """Return a module's file without importing it, or None."""
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if loaded is not None:
        return Path(loaded) if loaded.endswith(".py") else None
    search: Sequence[str] | None = None
    parts = name.split(".")
    for n in range(len(parts)):
        spec = PathFinder.find_spec(".".join(parts[: n + 1]), search)
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or ())
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def _installed(path: Path) -> bool:
    standard = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or any(map(path.is_relative_to, standard))
