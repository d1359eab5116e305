"""Run files: YAML that states the options of a run under their command-line names; typed options override the file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from benchmark.run.options import NamedRunFile, check_values
from zoo.errors import UsageError, did_you_mean
from zoo.paths import is_file, resource_folder, user_path
from zoo.recipe import all_recipes, build, parts_of, read_yaml

# Given as a list of names or as one text with commas.
_LISTS = ("methods", "suites", "tasks", "label", "tracker", "until_told_apart")
_PATHS = ("results", "tracker_folder")


@dataclass(frozen=True, kw_only=True)
class _Content:
    """The keys of a run file; each except `about` is an option of `zoo-bench run` (`suites` is --suite)."""

    about: str | None = None  # what the run is for; nothing reads it
    methods: str | None = None
    suites: str | None = None
    tasks: str | None = None
    label: str | None = None
    controls: bool | None = None
    seeds: int | None = None
    until_told_apart: str | None = None
    seeds_at_most: int | None = None
    backbone: str | None = None
    revision: str | None = None
    corpus: str | None = None
    pairs: str | None = None
    dev: str | None = None
    train_sentences: int | None = None
    train_pairs: int | None = None
    data: str | None = None
    results: str | None = None
    device: str | None = None
    precision: str | None = None
    limit: int | None = None
    workers: int | None = None
    executor: str | None = None
    allow_missing: bool | None = None
    allow_pickle: bool | None = None
    fail_fast: bool | None = None
    remeasure: bool | None = None
    embedding_cache: float | None = None
    tracker: str | None = None
    tracker_folder: str | None = None
    plugins: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        try:
            check_values(self)
        except UsageError as error:
            raise ValueError(str(error)) from error  # `build` adds the file's name


def read_run_file(name: str) -> tuple[dict[str, Any], NamedRunFile]:
    """Return the options in a run file as fields of `RunOptions`, and the file's identity for records.

    `name` is a path, or the name of a shipped file (`sts-main`, `runs/sts-main.yaml`). Raises UsageError for a file
    that is not there, for an unknown key, and for a value of another kind.
    """
    path = run_file_path(name)
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UsageError(
            f"{path}: a run file is a mapping with the keys {', '.join(f.name for f in fields(_Content))}."
        )
    values = {key: _joined(value) if key in _LISTS else value for key, value in content.items()}
    given = build(_Content, values, str(path))
    options = {f.name: getattr(given, f.name) for f in fields(given) if getattr(given, f.name) is not None}
    options.pop("about", None)
    if "plugins" in options:
        options["plugins"] = tuple(user_path(one) for one in options["plugins"])
    for key in _PATHS:
        if key in options:
            options[key] = user_path(options[key])
    return options, NamedRunFile(name=name, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def _joined(value: object) -> Any:
    """Return a list of texts in the form of the command line: one text with commas."""
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return ",".join(value)
    return value


def run_file_path(name: str) -> Path:
    """Return the path of a run file: `name` itself if it exists, else the shipped file of that name."""
    path = user_path(name)
    if is_file(path):
        return path
    folder = resource_folder("benchmark", "configs") / "runs"
    shipped = {one.stem: one for one in sorted(folder.glob("*.yaml"))}
    plain = path.parent == Path() or path.parent.name == "runs"
    if plain and path.stem in shipped and path.suffix in ("", ".yaml"):
        return shipped[path.stem]
    if parts_of(name)[0].lower() in all_recipes():
        raise UsageError(f"{name} is a method, not a run file: `zoo-bench run --methods {name}`.")
    raise UsageError(
        f"there is no run file {name}.{did_you_mean(path.stem, shipped)} Shipped ones: {', '.join(shipped)}. Methods"
        " are named with --methods, separated by commas."
    )


def overlaid(chosen: Mapping[str, Any], typed: set[str], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run; typed options override the file's, and these override the defaults."""
    left = {key: value for key, value in stated.items() if key not in typed}
    if "methods" in typed:
        left.pop("label", None)  # the names are those of the file's methods
    return {**chosen, **left}
