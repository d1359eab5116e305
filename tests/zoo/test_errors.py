"""What a person reads is a sentence on one line, whatever it quotes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from benchmark.tasks.suites import read_suite
from zoo.errors import CorruptError, Interrupted, UsageError, ZooError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a  b.", "a  b."),
        ("", ""),
        ("a\n\n  b\r\nc\u2028d\n", "a b c d"),
        ("\n", ""),
    ],
)
def test_line_ends_of_what_is_quoted_go(text: str, shown: str) -> None:
    for kind in (ZooError, UsageError, CorruptError, Interrupted):
        assert str(kind(text)) == shown
    again = pickle.loads(pickle.dumps(UsageError(text, 3)))  # noqa: S301 - of this test
    assert again.args == (shown, 3)


def test_a_name_of_several_lines_in_a_suite_is_told_on_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("title: x\ntasks: [STS12, STS13]\nmeans: {both: [STS12, S\n\n\n\nTS13]}\n")
    with pytest.raises(UsageError, match=r"means: S TS13 is no task of the suite\.$"):
        read_suite(path)
