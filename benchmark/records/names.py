"""Row names as they are printed: the last part of a folder, file or model instead of its whole path.

A row's identity remains the name in its records; the printed name contains no path of this machine.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from benchmark.records.record import MethodPart
from zoo.recipes import SOURCES
from zoo.selection import parts_of, split_overrides

# The beginning of a path that cannot be a hub id; the name of a model's folder in the hub's cache.
_ELSEWHERE = re.compile(r"[/~]|\.{1,2}[\\/]|[A-Za-z]:[\\/]|\\\\")
_CACHED = re.compile(r"models--.+?--(.+)")
_GENERIC = re.compile(r"(0_Transformer|best|checkpoint[-_]?\d*|encoder|final|last|model|output|snapshots|step[-_]?\d+)")

# Names of recipes in older records.
FORMER = {f"moco-{how}repo": f"moco-{how}q320" for how in ("", "reorder-", "delete-", "duplicate-")}


def recipe_of(method: MethodPart) -> tuple[str, Mapping[str, Any]]:
    """Return a record's recipe and the settings typed behind its name, without those that say where weights are.

    Older records do not state them: theirs are read from the name.
    """
    if "overrides" not in method:
        return typed_recipe(method.get("recipe_name") or method["name"])
    return method["recipe_name"], _own_settings(method["overrides"])


def typed_label(method: MethodPart) -> str:
    """Return the recipe of a record whose row has a label (--label), as it was typed; "" for other rows."""
    return method.get("typed", "") if "overrides" in method else method.get("recipe_name", "")


@functools.cache
def typed_recipe(name: str) -> tuple[str, Mapping[str, Any]]:
    """Return the recipe and the settings of a name as it is typed: in older records, and in files of this project."""
    base, overrides = split_overrides(name, "row")
    return FORMER.get(base, base), _own_settings(overrides)


def _own_settings(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in overrides.items() if key not in ("backbone", "revision")}


def printed_names(names: Iterable[str]) -> dict[str, str]:
    """Return a distinct printed form for each name; clashing ones get more of their path or the start of a digest."""
    every = list(dict.fromkeys(names))
    shown = {name: short_name(name) for name in every}
    for parts in (2, 3):
        shown |= {name: short_name(name, parts) for name in _alike(shown)}
    return shown | {name: f"{short_name(name)} ~{_digest(name)}" for name in _alike(shown) if name != shown[name]}


def short_name(name: str, parts: int = 1) -> str:
    """Return a name as it is printed: each path and hub id in it is cut to its last `parts` parts.

    `pretrained:model=/data/models/all-MiniLM-L6-v2` is `pretrained:all-MiniLM-L6-v2`: `model=` is left out.
    """
    base, settings = parts_of(name)
    shown = [base]
    for key, value in settings:
        text = value.strip("'\"")
        is_place = key in SOURCES or _ELSEWHERE.match(text) is not None
        text = _own_name(text, parts) if is_place else value
        shown.append(text if key == "model" else f"{key}={text}")
    return ":".join(shown)


def _own_name(place: str, parts: int) -> str:
    """Return the last part of a path or hub id, and earlier parts where it is as general as `checkpoint-500`."""
    steps = [step for step in re.split(r"[\\/]+", place) if step not in ("", ".", "..", "~")]
    for i, step in enumerate(steps):
        if (cached := _CACHED.fullmatch(step)) and steps[i + 1 : i + 2] == ["snapshots"]:
            # Leaves out the folder named by a commit.
            steps = [*steps[:i], cached[1], *steps[i + 3 :]]
            break
    wanted = parts
    while wanted < len(steps) and _GENERIC.fullmatch(steps[-wanted]):
        wanted += 1
    return "/".join(steps[-wanted:]) or place


def _alike(printed: Mapping[str, str]) -> list[str]:
    """Return the names whose printed form is also that of another name."""
    counted = Counter(printed.values())
    return [name for name, shown in printed.items() if counted[shown] > 1]


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
