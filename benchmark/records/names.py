"""Printed row names: the last part of a folder, file or model instead of its whole path.

A row's identity remains the name in its records; the printed name contains no path of this machine.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from benchmark.records.record import MethodPart, Record
from zoo.paths import own_name
from zoo.progress import clean_line
from zoo.recipes import SOURCES
from zoo.selection import parts_of, split_overrides

# The beginning of a path that cannot be a hub id.
_ELSEWHERE = re.compile(r"[/~]|\.{1,2}[\\/]|[A-Za-z]:[\\/]|\\\\")

Row = TypeVar("Row")
DIGITS = 8  # of a key, a digest or a revision


def natural(name: str) -> list[tuple[int, float, str]]:
    """Return a key to sort the numbers in names, such as settings, by value.

    Examples:
        >>> sorted(["sif:a=0.1", "sif:a=1e-3", "whitening:k=128", "whitening:k=64"], key=natural)
        ['sif:a=1e-3', 'sif:a=0.1', 'whitening:k=64', 'whitening:k=128']
    """
    parts = re.split(r"((?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w]))", name)
    return [(0, 0.0, part) if place % 2 == 0 else (1, float(part), "") for place, part in enumerate(parts)]


def recipe_of(method: MethodPart) -> tuple[str, Mapping[str, Any]]:
    """Return recipe and typed settings, without the places of weights."""
    return method["recipe_name"], _own_settings(method["overrides"])


def typed_label(method: MethodPart) -> str:
    """Return the recipe behind a label, "" for rows without --label."""
    return method.get("typed", "")


def plugins_of(record: Record) -> str:
    """Return the remedy for a name that is unknown here: the plugins of the record's own command."""
    words = record["command"]
    files = [word for option, word in itertools.pairwise(words) if option == "--plugin"]
    files += [word.removeprefix("--plugin=") for word in words if word.startswith("--plugin=")]
    typed = shlex.join(part for file in dict.fromkeys(files) for part in ("--plugin", clean_line(file)))
    return f" Its run had {typed}." if typed else " --plugin FILE names a method of somebody's own."


def with_recipe(printed: str, method: MethodPart) -> str:
    """Return a printed name, and behind a label the recipe in brackets."""
    typed = typed_label(method)
    return printed if typed in ("", method["name"]) else f"{printed} ({short_name(typed)})"


@functools.cache
def typed_recipe(name: str) -> tuple[str, Mapping[str, Any]]:
    base, overrides = split_overrides(name, "row")
    return base, _own_settings(overrides)


def _own_settings(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in overrides.items() if key not in ("backbone", "revision")}


def printed_names(names: Iterable[str]) -> dict[str, str]:
    """Return distinct printed names; a clash adds more path or a digest's start."""
    every = list(dict.fromkeys(names))
    shown = {name: short_name(name) for name in every}
    for parts in (2, 3):
        shown |= {name: short_name(name, parts) for name in _alike(shown)}
    return shown | {name: f"{short_name(name)} ~{_digest(name)}" for name in _alike(shown) if name != shown[name]}


def short_name(name: str, parts: int = 1) -> str:
    """Return a printed name: each path and hub id is cut to its last `parts` parts.

    `pretrained:model=/data/models/all-MiniLM-L6-v2` is `pretrained:all-MiniLM-L6-v2`: `model=` is left out.
    """
    base, settings = parts_of(name)
    shown = [base]
    for key, value in settings:
        text = value.strip("'\"")
        is_place = key in SOURCES or _ELSEWHERE.match(text) is not None
        text = own_name(text, parts) if is_place else value
        shown.append(text if key == "model" else f"{key}={text}")
    return clean_line(":".join(shown))


def distinctions(record: Record) -> list[str]:
    backbone: Mapping[str, Any] = record["method"]["sources"].get("backbone") or {}
    training: Mapping[str, Any] = record["training"] or {}
    text: Mapping[str, Any] = training.get("corpus") or {}
    size = text.get("pairs") or text.get("sentences")
    named = (backbone.get("name"), text.get("name"), training.get("dev_task"))
    return [
        str(named[0] or ""),
        f"{named[0]}@{content_of(backbone)}" if named[0] else "",
        record["precision"],
        f"{size:,} of {named[1]}" if size else "",
        f"{named[1]}@{content_of(text)}" if named[1] else "",
        f"dev {named[2]}" if named[2] else "",
        record["row_key"][:DIGITS],
    ]


def superseded(rows: Sequence[Sequence[Record]]) -> dict[int, int]:
    """Return the row of the newest version of its method, by the number of each row of an older one.

    The rows have one name, settings, weights, texts and precision.
    """
    alike: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        finished = next((record for record in row if record["status"] == "ok"), row[0])
        method = finished["method"]
        conditions = [method["name"], typed_label(method), method["recipe"], *distinctions(finished)[:-1]]
        alike[repr(conditions)].append(number)
    older: dict[int, int] = {}
    for numbers in alike.values():
        newest = max(numbers, key=lambda number: version_of(rows[number][0]))
        older |= {n: newest for n in numbers if version_of(rows[n][0]) < version_of(rows[newest][0])}
    return older


def version_of(record: Record) -> int:
    return record["method"]["version"]


def content_of(source: Mapping[str, Any]) -> str:
    """Return the hub revision of weights, else the start of a sha256."""
    return str(source.get("revision") or source.get("sha256") or "")[:DIGITS]


def brackets_of(records: Mapping[Row, Record]) -> dict[Row, str]:
    """Return each row's first unique distinction, for brackets."""
    kinds = zip(*map(distinctions, records.values()), strict=True)
    alone = (texts for texts in kinds if all(texts) and len(set(texts)) == len(texts))
    return dict(
        zip(records, next(alone, tuple(record["row_key"][:DIGITS] for record in records.values())), strict=True)
    )


def _alike(printed: Mapping[str, str]) -> list[str]:
    counted = Counter(printed.values())
    return [name for name, shown in printed.items() if counted[shown] > 1]


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
