"""Comments of recipes: those beside the fields of recipe dataclasses, and the notes at the top of recipe files."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import io
import re
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.recipes import RecipeSpec

_FIELD = re.compile(r"^    (\w+)\s*:")
_TO_LINTERS = re.compile(r"#\s*(noqa|type: ignore)[^#]*")


def reasons(recipe: type[Any]) -> dict[str, str]:
    """Return the comment of each field of a recipe and its bases, behind the field on its line or directly above it."""
    found: dict[str, str] = {}
    for cls in reversed(recipe.__mro__):
        if dataclasses.is_dataclass(cls):
            found |= _of_class(cls)
    return {field.name: found[field.name] for field in dataclasses.fields(recipe) if found.get(field.name)}


@functools.cache
def _of_class(cls: type[Any]) -> Mapping[str, str]:
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):  # a class without a source file, as in a notebook
        return {}
    comments = {
        token.start[0]: (_TO_LINTERS.sub("", token.string).lstrip("# ").strip(), token.line.lstrip().startswith("#"))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    lines = source.splitlines()
    found = {}
    for number, line in enumerate(lines, 1):
        field = _FIELD.match(line)
        if field is None:
            continue
        above = number - 1
        while comments.get(above, ("", False))[1]:
            above -= 1
        texts = [comments[at][0] for at in range(above + 1, number + 1) if at in comments]
        found[field[1]] = " ".join(texts)
    return found


def notes(spec: RecipeSpec) -> list[tuple[str, str]]:
    """Return (recipe, text) for the notes at the top of a recipe's file and of the recipes that it extends."""
    found = []
    path: Path | None = Path(spec.origin) if spec.origin.endswith((".yaml", ".yml")) else None
    seen: set[Path] = set()
    while path is not None and path.is_file() and path not in seen:
        seen.add(path)
        text = path.read_text(encoding="utf-8")
        head = []
        for line in text.splitlines():
            if not line.startswith("#"):
                break
            head.append(line.lstrip("#").strip())
        if head:
            found.append((path.stem, " ".join(head)))
        parent = re.search(r"^extends:\s*([\w.-]+)", text, re.MULTILINE)
        path = None if parent is None else _file(path, parent[1])
    return found


def _file(child: Path, name: str) -> Path:
    """Return the file of the recipe `name` that `child` extends: the one beside it, or else the shipped one."""
    beside = child.with_name(f"{name}.yaml")
    if beside.is_file() and beside != child:
        return beside
    from zoo.recipes import all_recipes

    return Path(all_recipes()[name].origin) if name in all_recipes() else beside
