"""Run files: YAML that states the options of a run under their command-line names; typed options override the file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import Any

from benchmark.run.options import OPTIONS, NamedRunFile, check_values
from zoo.errors import UsageError, did_you_mean
from zoo.files import read_yaml
from zoo.paths import is_file, resource_folder, user_path
from zoo.recipes import all_recipes, build
from zoo.selection import parts_of

_LISTS = [name for name, one in OPTIONS.items() if one.metadata["several"]]  # a list, or one text with commas
_PATHS = [name for name, one in OPTIONS.items() if str(one.type).startswith("Path")]


def _checked(content: object) -> None:
    try:
        check_values(content)
    except UsageError as error:
        raise ValueError(str(error)) from error  # `build` adds the file's name


# The keys of a run file: `about`, which nothing reads, the options of `zoo-bench run` (`suites` is --suite), plugins.
_OPTIONS = [
    (name, "str" if name in _PATHS else str(one.type).removesuffix(" | None"))
    for name, one in OPTIONS.items()
    if name != "shard"  # the jobs of an array share a file
]
_Content = make_dataclass(
    "_Content",
    [(name, f"{kind} | None", None) for name, kind in [("about", "str"), *_OPTIONS, ("plugins", "tuple[str, ...]")]],
    namespace={"__post_init__": _checked},
    frozen=True,
    kw_only=True,
)


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
    given: Any = build(_Content, values, str(path))
    options = {f.name: getattr(given, f.name) for f in fields(given) if getattr(given, f.name) is not None}
    options.pop("about", None)
    if "plugins" in options:
        options["plugins"] = tuple(user_path(one) for one in options["plugins"])
    for key in _PATHS:
        if key in options:
            options[key] = user_path(options[key])
    return options, NamedRunFile(name=name, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def _joined(value: object) -> object:
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


def overlaid(chosen: Mapping[str, object], typed: set[str], stated: Mapping[str, object]) -> dict[str, object]:
    """Return the options of a run; typed options override the file's, and these override the defaults."""
    left = {key: value for key, value in stated.items() if key not in typed}
    if "methods" in typed:
        left.pop("label", None)  # the names are those of the file's methods
    return {**chosen, **left}
