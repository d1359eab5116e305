"""The list of mutations is of lines that are there and of tests that are there."""

from __future__ import annotations

import re

import pytest
from mutations import MUTATIONS, ROOT, Mutation, place_of


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.what)
def test_every_line_stands_once_and_every_test_exists(mutation: Mutation) -> None:
    """A list whose lines have moved on would catch nothing: each must be found, and differ from what replaces it."""
    assert place_of(mutation).is_file()
    assert mutation.instead != mutation.line
    file, _, words = mutation.tests.partition(" -k ")
    names = re.findall(r"^def (test_\w+)", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert any(words in name for name in names)


def test_twenty_lines_of_all_rooms_are_held() -> None:
    assert len({(one.file, one.line) for one in MUTATIONS}) >= 20
    rooms = {one.file.partition("/")[0] for one in MUTATIONS}
    assert rooms >= {"data", "leaderboard", "metrics", "records", "run", "tasks"}
