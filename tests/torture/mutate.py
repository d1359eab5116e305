"""Inputs that are nearly right: a good one with bytes, fields or values changed, by Hypothesis or by plain draws."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Make = Callable[[Any], bytes]
"""A value -> the bytes of a file that holds it."""

WORDS = (
    b"", b"nan", b"inf", b"-inf", b"1e999", b"-0", b"9" * 30, b"9" * 5000, b"1_0", b"0x10", b"\xff", b"\xed\xa0\x80",
    b"\0", b"\x1b[2J", b"\xef\xbb\xbf", b"\r", b"\n", b"\n\n", b"\t", b"\t\t\t\t", b"\x85", b"\xe2\x80\xa8", b"|||",
    b" ||| ", b"<b>", b"</b>", b"=cmd()", b"{", b"[" * 60, b"[[", b"}", b"]", b'"', b"'", b"\\", b"null", b"true",
    b"{}", b"[]", b"&a ", b"*a", b"!!python/name:os.system ", b"!!bool x", b"!!timestamp 9", b"? ", b": ", b"- ", b"~",
    b"~nouser/x", b"../../etc/passwd", b"2001-13-45", b"%", b"@", b"`", b"#", b"---\n", b"...\n", b"<<: ", b"\\ud800",
    b'"\\ud800"', b"5 5\n", b"0 0\n", b"-1", b"99999999 99999999\n", "\a\u0661\u00b2\uff11".encode(),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 10**20, 10**400, 0.5, -1e300, 1e308, "", "nan", "1e999", "\ud800", "\0", "\x1b[2J",
    "a" * 3000, "../..", "/etc/passwd", "~nouser/x", [], {}, [[]], [None], {"": None}, {"a": {"b": []}}, ["x"] * 50,
    "2020-01-01", "float32", [1, 2, 3], [-1], {"__metadata__": 5},
)  # fmt: skip
_EDITS = ("flip", "cut", "insert", "field", "field", "field", "line", "end")
_VALUE_EDITS = ("set", "set", "set", "drop", "rename", "add")
_FIELD = re.compile(rb"[^\t\n ,:|\"{}\[\]]+")


def changed_bytes(good: bytes) -> st.SearchStrategy[bytes]:
    """Bytes that differ from good ones in one to four places, or are any bytes at all."""
    place = st.floats(0, 1, exclude_max=True)
    edit = st.tuples(
        st.sampled_from(_EDITS),
        place,
        st.sampled_from(WORDS),
        st.integers(0, 7),
    )
    near = st.lists(edit, min_size=1, max_size=4).map(lambda edits: _edited(good, edits))
    return st.one_of(near, near, near, near, st.binary(max_size=60))


def drawn_bytes(good: bytes, draw: random.Random) -> bytes:
    """Draw from the same changes without Hypothesis, whose own work takes longer than most readers."""
    if draw.random() < 0.2:
        return draw.randbytes(draw.randrange(61))
    edits = [
        (draw.choice(_EDITS), draw.random(), draw.choice(WORDS), draw.randrange(8)) for _ in range(draw.randint(1, 4))
    ]
    return _edited(good, edits)


def _edited(good: bytes, edits: list[tuple[str, float, bytes, int]]) -> bytes:
    content = good
    for kind, share, word, number in edits:
        at = int(share * len(content))
        if kind == "flip" and content:
            content = content[:at] + bytes([content[at] ^ 1 << number]) + content[at + 1 :]
        elif kind == "cut":
            content = content[:at] + content[at + 1 + number * number :]
        elif kind == "insert":
            content = content[:at] + word + content[at:]
        elif kind == "end":
            content = content[:at]
        elif kind == "line":
            lines = content.split(b"\n")
            row = int(share * len(lines))
            lines[row:row] = [lines[number % len(lines)]] * (number + 1)
            content = b"\n".join(lines)
        elif kind == "field":
            fields = list(_FIELD.finditer(content))
            if fields:
                start, end = fields[int(share * len(fields))].span()
                content = content[:start] + word + content[end:]
    return content


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in inner for place in _places(child, (*path, key)))]


def changed_value(good: Any) -> st.SearchStrategy[Any]:
    """A plain value that differs from a good one in one to three places: other values, keys that are new or gone."""
    edit = st.tuples(
        st.sampled_from(_VALUE_EDITS),
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(VALUES),
    )

    return st.lists(edit, min_size=1, max_size=3).map(lambda edits: _value_edited(good, edits))


def drawn_value(good: Any, draw: random.Random) -> Any:
    """Draw from the same changes of a plain value without Hypothesis."""
    edits = [(draw.choice(_VALUE_EDITS), draw.random(), draw.choice(VALUES)) for _ in range(draw.randint(1, 3))]
    return _value_edited(good, edits)


def _value_edited(good: Any, edits: list[tuple[str, float, Any]]) -> Any:
    value = [copy.deepcopy(good)]
    for kind, share, new in edits:
        places = _places(value)
        *above, last = places[1 + int(share * (len(places) - 1))] if len(places) > 1 else (0,)
        parent: Any = value
        for key in above:
            parent = parent[key]
        if kind == "set" or parent is value:
            parent[last] = copy.deepcopy(new)
        elif kind == "drop":
            del parent[last]
        elif isinstance(parent, dict):
            kept = parent.pop(last) if kind == "rename" else parent[last]
            parent[str(new)[:50] if kind == "rename" else f"{last}x"] = kept
        else:
            parent.insert(last, copy.deepcopy(new))
        if not value:
            value = [None]
    return value[0]


def as_json(value: Any) -> bytes:
    """A value as JSON, with what JSON does not have as well: such files exist."""
    return json.dumps(value).encode()


def as_json_lines(value: Any) -> bytes:
    """The items of a list as JSON, one a line."""
    return b"\n".join(as_json(one) for one in value) + b"\n" if isinstance(value, list) else as_json(value)
