"""Strict YAML: one document of plain values; an alias, a duplicate key and deep nesting are errors with their line."""

from __future__ import annotations

import contextlib
import functools
import re
from pathlib import Path
from typing import Any

import yaml

from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import read_text

_DEEPEST = 50  # levels of nesting; a recipe has four
_WRONG_VALUES = (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


class _UniqueKeys(yaml.constructor.SafeConstructor):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key.value!r}", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _StrictLoader(_UniqueKeys, yaml.SafeLoader):
    """SafeLoader that refuses aliases ("billion laughs" attacks) and duplicate keys."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            event: Any = self.get_event()  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "aliases (*name) are not allowed", event.start_mark)
        return super().compose_node(parent, index)


@functools.cache
def _fast_loader() -> Any:
    return type("_FastLoader", (_UniqueKeys, yaml.CSafeLoader), {})


def _parse_fast(text: str) -> Any:
    """Parse with libyaml (ten times as fast), which accepts aliases and words errors differently."""
    loader = _fast_loader()(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _depth_bound(text: str) -> int:
    """Return an upper bound of a YAML text's nesting depth: opening brackets plus the deepest indentation."""
    columns = map(len, re.findall(r"(?:^|[\r\n\x85\u2028\u2029])[-?: \t]+", text))
    return text.count("[") + text.count("{") + max(columns, default=0)


def _check_depth(text: str, where: str) -> None:
    """Raise UsageError for nesting so deep that a recursive parser would crash."""
    if _depth_bound(text) <= _DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            line = getattr(event.start_mark, "line", 0) + 1
            raise UsageError(f"{where}:{line}: nested more than {_DEEPEST} deep.")


def one_line(problem: object) -> str:
    """Return the message of a parser, which may quote several lines of text, on one line."""
    return " ".join(str(problem).split())[:300].rstrip(".")


def parse_yaml(text: str, where: str) -> Any:
    """Parse one safe YAML document; raises UsageError with `where` and the line."""
    with contextlib.suppress(yaml.YAMLError, ValueError):  # reported below
        _check_depth(text, where)
    if yaml.__with_libyaml__ and not re.search(r"&\S", text):  # no anchor, so no alias either
        with contextlib.suppress(yaml.YAMLError, *_WRONG_VALUES):  # the strict loader reports it
            return _parse_fast(text)
    loader = None
    try:
        loader = _StrictLoader(text)
        return loader.get_single_data()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{where}{line}: {one_line(getattr(error, 'problem', None) or error)}.") from error
    except _WRONG_VALUES as error:  # for example an impossible date, a list as a key, or `!!bool x`
        raise UsageError(f"{where}: a value cannot be read ({type(error).__name__}: {one_line(error)}).") from error
    finally:
        if loader is not None:
            loader.dispose()


def read_yaml(path: Path) -> Any:
    """Read a YAML file strictly (see `parse_yaml`)."""
    try:
        return parse_yaml(read_text(path), str(path))
    except MissingError as error:
        raise UsageError(str(error)) from error
    except CorruptError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
