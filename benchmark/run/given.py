"""Copies of a run's own recipes and suites in its results folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmark.run.plan import Request, Run
from zoo.files import sha256_file, write_text
from zoo.identity import code_files
from zoo.paths import user_path
from zoo.plugins import METHODS
from zoo.recipes import recipe_files
from zoo.selection import recipe_paths

FOLDER = "given"


def keep_given(request: Request) -> None:
    """Copy the files of recipes and suites that a run was given; of plugins, commands have the names and keys the code.

    A recipe lies in a folder of its own content, so that two contents of one name are both there.
    """
    place = request.options.results / FOLDER
    texts = [str(candidate) for _, candidate in request.objects if isinstance(candidate, str | Path)]
    for path in recipe_paths(",".join([request.options.methods, *texts])):
        files = recipe_files(path)
        for file in files:
            _copy(file, place / "recipes" / sha256_file(path)[:16] / file.name)
    for path in _suites(request.options.suites):
        _copy(path, place / "suites" / path.name)


def say_keys(run: Run) -> None:
    """Print which files the key of each plugin's method holds."""
    for cls in dict.fromkeys(plan.row.cls for plan in run.encoders if plan.row.given is None):
        if files := code_files(cls):
            names = ", ".join(file.name for file in files.values())
            run.runtime.progress.say(f"the key of {METHODS.name_of(cls)} holds {names}")


def _suites(names: str | None) -> Iterator[Path]:
    for name in (names or "").split(","):
        if name.strip().endswith((".yaml", ".yml")):
            yield user_path(name.strip())


def _copy(source: Path, target: Path) -> None:
    content = source.read_text(encoding="utf-8")
    if not target.is_file() or target.read_text(encoding="utf-8") != content:
        write_text(target, content)
