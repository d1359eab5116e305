"""The groups and examples of --help: every command has its place, and every example is a command that is understood."""

from __future__ import annotations

import shlex

import click
import pytest

from benchmark.cli.closing import next_command
from benchmark.cli.examples import EXAMPLES, GROUPS
from benchmark.cli.main import COMMANDS, PAPERS, main_group

PLACED = [name for names in GROUPS.values() for name in names]


def test_each_command_stands_in_one_group() -> None:
    assert sorted(PLACED) == sorted({*COMMANDS, *PAPERS})


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_a_command_that_is_understood(line: str) -> None:
    """Its words are read by the command's own parser; a wrong option or a missing argument fails."""
    _, name, *words = shlex.split(line)
    command = main_group.get_command(click.Context(main_group), name)
    assert command is not None and line in (command.epilog or line)
    while isinstance(command, click.Group):
        command, words = command.get_command(click.Context(command), words[0]), words[1:]
        assert command is not None
    if "--help" not in words:
        command.make_context(name, words)


@pytest.mark.parametrize(
    ("words", "following", "expected"),
    [
        (["--results", "my results"], ["compare", "a", "b"], "zoo-bench compare a b --results 'my results'"),
        (["--pairs", "nli"], ["compare", "a", "b"], "zoo-bench compare a b"),  # there it is a number
        (
            ["--out", "x", "--plugin", "m.py", "--plugin", "n.py"],
            ["run", "--methods", "a"],
            "zoo-bench run --methods a --results x --plugin m.py --plugin n.py",
        ),
        (["--dev", "STS-B"], ["run", "--methods", "a", "--dev", "SICK-R"], "zoo-bench run --methods a --dev SICK-R"),
        ([], ["run", "--methods", "a"], "zoo-bench run --methods a"),
    ],
)
def test_a_next_command_carries_what_was_typed(words: list[str], following: list[str], expected: str) -> None:
    """The options that both have, in one meaning; no defaults, and nothing that the next command states itself."""
    run = main_group.get_command(click.Context(main_group), "run")
    assert run is not None
    with run.make_context("run", ["--methods", "cls", *words]):
        assert next_command(*following) == expected
