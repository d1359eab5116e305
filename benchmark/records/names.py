"""Row names as people read them: the own name of a folder, file or model in place of the path to it.

A row's identity stays the name that its records have; what is printed of it has no path of this machine.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from zoo.recipe import SOURCES, parts_of

_ELSEWHERE = re.compile(r"[/~]|\.{1,2}[\\/]|[A-Za-z]:[\\/]|\\\\")  # how a path begins that is no hub id
_CACHED = re.compile(r"models--.+?--(.+)")  # how the hub's cache calls the folder of a model
_GENERIC = re.compile(r"(0_Transformer|best|checkpoint[-_]?\d*|encoder|final|last|model|output|snapshots|step[-_]?\d+)")


def printed_names(names: Iterable[str]) -> dict[str, str]:
    """Return how each name is printed; no two alike: more of a path tells them apart, or else the start of a digest."""
    every = list(dict.fromkeys(names))
    found = {name: short_name(name) for name in every}
    for parts in (2, 3):
        found |= {name: short_name(name, parts) for name in _alike(found)}
    return found | {name: f"{short_name(name)} ~{_digest(name)}" for name in _alike(found) if name != found[name]}


def short_name(name: str, parts: int = 1) -> str:
    """Return a name as it is printed: paths and hub ids in it are cut to their last part, or to the last N parts.

    `pretrained:model=/data/models/all-MiniLM-L6-v2` is `pretrained:all-MiniLM-L6-v2`: a model stands for itself.
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
    """Return the last part of a path or hub id, with those before it that a name such as `checkpoint-500` needs."""
    steps = [step for step in re.split(r"[\\/]+", place) if step not in ("", ".", "..", "~")]
    for i, step in enumerate(steps):
        if (cached := _CACHED.fullmatch(step)) and steps[i + 1 : i + 2] == ["snapshots"]:
            steps = [*steps[:i], cached[1], *steps[i + 3 :]]  # a commit's folder says nothing
            break
    wanted = parts
    while wanted < len(steps) and _GENERIC.fullmatch(steps[-wanted]):
        wanted += 1
    return "/".join(steps[-wanted:]) or place


def _alike(found: Mapping[str, str]) -> list[str]:
    """Return the names that are printed like another one."""
    counted = Counter(found.values())
    return [name for name, shown in found.items() if counted[shown] > 1]


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
