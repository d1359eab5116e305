"""Spellings of before: they work, a line on standard error says what they are called now, and no help shows them."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from fakes import Cli

from benchmark.cli.main import COMMANDS, main_group

FAST = ("--precision", "fp32", "--limit", "20", "--tasks", "pocket-words")


def commands() -> list[tuple[str, click.Command]]:
    """Every command, those of groups too, by how it is called."""
    context = click.Context(main_group)
    found: list[tuple[str, click.Command]] = []
    for name in COMMANDS:
        command = main_group.get_command(context, name)
        assert command is not None
        inner = command.commands if isinstance(command, click.Group) else {}
        found += [(f"{name} {key}", one) for key, one in inner.items()] or [(name, command)]
    return found


def test_one_word_for_one_thing() -> None:
    """--results is a folder of results and --out is not; tasks are --tasks; suites are --suite; nothing is --task."""
    for name, command in commands():
        options = {one: parameter for parameter in command.params for one in parameter.opts if one.startswith("--")}
        assert not {"--task", "--suites", "--method"} & set(options), name
        if "--results" in options:
            assert "esults folder" in str(getattr(options["--results"], "help", "")), name
        if "--out" in options:
            assert options["--out"].name == "out", name


@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_run_and_compare_take_out_for_results(cli: Cli, tmp_path: Path) -> None:
    answer = cli("run", "--methods", "bag,bag:salt=1", "--out", tmp_path, *FAST)
    assert answer.code == 0
    assert answer.err.count("--out is now --results") == 1
    assert "--out is now" not in answer.out
    assert cli("run", "--methods", "bag", "--results", tmp_path, *FAST).err.count("is now") == 0
    words = ("compare", "bag", "bag:salt=1", "--json", "--resamples", "100")
    old = cli(*words, "--out", tmp_path, "--task", "pocket-words")
    new = cli(*words, "--results", tmp_path, "--tasks", "pocket-words")
    assert (old.code, new.code) == (0, 0)
    assert json.loads(old.out) == json.loads(new.out)
    assert "--task is now --tasks" in old.err and "--out is now --results" in old.err and new.err == ""
    assert "--out" not in cli("run", "--help").out


@pytest.mark.usefixtures("fakes")
def test_the_new_spelling_wins_over_the_old(cli: Cli, tmp_path: Path) -> None:
    words = ("run", "--methods", "bag", "--out", tmp_path / "old", "--results", tmp_path / "new", *FAST)
    assert cli(*words).code == 0
    assert (tmp_path / "new" / "records").is_dir() and not (tmp_path / "old").exists()
