"""YAML of plain values; a duplicate key is an error with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import read_text

_WRONG_VALUES = (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError)


class _UniqueKeys(yaml.constructor.SafeConstructor):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key.value!r}", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Loader(_UniqueKeys, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader (libyaml's, ten times as fast, where PyYAML has it) that refuses duplicate keys."""


def one_line(problem: object) -> str:
    """Return the message of a parser, which may quote several lines of text, on one line."""
    return " ".join(str(problem).split())[:300].rstrip(".")


def parse_yaml(text: str, where: str) -> Any:
    """Parse one safe YAML document; raises UsageError with `where` and the line."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506  # a safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{where}{line}: {one_line(getattr(error, 'problem', None) or error)}.") from error
    except _WRONG_VALUES as error:  # for example an impossible date, a list as a key, or `!!bool x`
        raise UsageError(f"{where}: a value cannot be read ({type(error).__name__}: {one_line(error)}).") from error


def read_yaml(path: Path) -> Any:
    """Read a YAML file (see `parse_yaml`)."""
    try:
        return parse_yaml(read_text(path), str(path))
    except MissingError as error:
        raise UsageError(str(error)) from error
    except CorruptError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
