"""The list of mutations is of lines that are there and of tests that are there, in all rooms."""

from __future__ import annotations

import re

from tools.mutations import MUTATIONS, ROOT, place_of


def test_every_line_stands_once_and_every_test_exists() -> None:
    """A list whose lines have moved on would catch nothing: each must be found, and differ from what replaces it."""
    for mutation in MUTATIONS:
        assert place_of(mutation).is_file()
        assert mutation.instead != mutation.line
        file, _, words = mutation.tests.partition(" -k ")
        file, _, case = file.partition("::")
        words = words or case.partition("[")[0]
        # Of tests by their functions, and of cases by their names.
        names = re.findall(r"^def (test_\w+)|^    \"(.+)\": ", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        assert any(words in name or words in named for name, named in names), mutation.tests


def test_lines_of_all_rooms_are_held() -> None:
    """A room is a folder of modules; one whose mistakes no line makes is not known to have tests that notice any."""
    assert len({(one.file, one.line) for one in MUTATIONS}) >= 120
    files = [path for house in ("zoo", "benchmark", "choose", "papers") for path in (ROOT / house).rglob("*.py")]
    rooms = {path.parent.relative_to(ROOT).as_posix() for path in files if path.name != "__init__.py"}
    core = [mutation for mutation in MUTATIONS if mutation.core]
    assert len(core) == 50
    assert rooms - {mutation.file.rpartition("/")[0] for mutation in core} == set()
