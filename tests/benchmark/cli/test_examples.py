"""Examples of --help run; what a command prints on inputs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
from pathlib import Path

import click
import pytest
from fakes import Cli

from benchmark.cli.closing import next_command
from benchmark.cli.examples import EXAMPLES, GROUPS
from benchmark.cli.main import COMMANDS, PAPERS, main_group
from zoo.errors import UsageError
from zoo.files import parse_yaml

# The groups and examples of --help: every command has its place, and every example is a command that is understood.

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


# What is given as a file and is none, or has no bound, is one sentence at once: nothing waits or fills memory.

# Every place of a command that takes a file.
LINES = (
    "choose {} --encoders bag-of-words",
    "choose {table} --encoders {}",
    "choose {table} --encoders bag-of-words --prompts {}",
    "adapt {} --encoder {model} --out {out}",
    "adapt {table} --pairs {} --encoder {model} --out {out}",
    "run --methods {} --tasks pocket-words --results {out}",
    "run {} --results {out}",
    "run --methods random --suite {} --results {out}",
    "run --methods simcse --backbone {model} --corpus {} --tasks pocket-words --results {out}",
    "run --methods sbert --backbone {model} --pairs {} --tasks pocket-words --results {out}",
    "run --methods vectors:path={} --tasks pocket-words --results {out}",
    "run --methods glove:path={} --tasks pocket-words --results {out}",
    "run --methods avg-last --backbone {} --tasks pocket-words --results {out}",
    "run --plugin {} --methods random --tasks pocket-words --results {out}",
    "leaderboard --results {}",
    "pretrain tiny --text {} --steps 1 --out {out}",
)


@pytest.fixture
def places(tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "table.tsv"
    table.write_text("".join(f"a dog number {i} runs\ta cat number {i} sleeps\t{i % 5}\n" for i in range(40)))
    return {"table": table, "model": tiny_bert, "out": tmp_path / "out"}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", LINES)
def test_what_is_no_file_is_named(line: str, places: dict[str, Path], cli: Cli) -> None:
    os.mkfifo("pipe.yaml")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.csv")
        for given in ("./pipe.yaml", "/dev/zero", "./socket.csv"):
            answer = cli(*line.replace("{}", given).format(**places).split())
            assert answer.code in (1, 2), (given, answer.out, answer.err)
            assert Path(given).name in answer.err and "Traceback" not in answer.err, answer.err


@pytest.mark.parametrize("level", ["[{}]", "{{a: {}}}", "- {}", "[[], [{}]]"])
def test_no_settings_are_nested_without_end(level: str, places: dict[str, Path], cli: Cli) -> None:
    text = "1"
    for _ in range(2000):
        text = level.format(text)
    deep = Path("deep.yaml")
    deep.write_text(text, encoding="utf-8")
    for line in ("run --methods deep.yaml", "run deep.yaml", "run --methods random --suite deep.yaml"):
        answer = cli(*line.split(), "--dry-run")
        assert answer.code == 2 and "deep.yaml" in answer.err and len(answer.err) < 500, answer.err


def test_aliases_that_stand_for_more_than_memory_holds_are_refused() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30))]
    with pytest.raises(UsageError, match="here: nested too deeply, or too large"):
        parse_yaml("\n".join(lines), "here")
    assert parse_yaml("a: &a [1, 2]\nb: [*a, *a]", "here") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}


@pytest.mark.parametrize("sign", [",", "\t", ";"])
def test_a_table_of_very_many_columns_is_refused(sign: str, places: dict[str, Path], cli: Cli) -> None:
    Path("wide.csv").write_text("\n".join([sign.join(["x"] * 100_000)] * 3), encoding="utf-8")
    answer = cli("choose", "wide.csv", "--encoders", "bag-of-words")
    assert answer.code == 2 and "wide.csv: more than 10,000 columns" in answer.err, answer.err


@pytest.mark.parametrize("name", ["num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size"])
def test_a_model_that_its_weights_cannot_be_is_not_built(name: str, places: dict[str, Path], cli: Cli) -> None:
    shutil.copytree(places["model"], "large")
    config = json.loads(Path("large/config.json").read_text(encoding="utf-8"))
    Path("large/config.json").write_text(json.dumps({**config, name: 10**9}), encoding="utf-8")
    answer = cli("run", "--methods", "avg-last", "--backbone", "./large", "--tasks", "pocket-words", "--results", "out")
    assert answer.code != 0 and f"states {name} 1,000,000,000" in answer.err, answer.err
