"""The package beside the core: what it ships, the commands that it adds, and what the core says without it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from fakes import Cli

from benchmark.cli import main
from zoo import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text(encoding="utf-8"))
POINTS = PROJECT["project"]["entry-points"]["zoo_bench.commands"]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The entry points of the group `zoo_bench.commands`; a test fills them in before it calls a command."""
    points: dict[str, str] = {}
    every = importlib.metadata.entry_points

    def entry_points(group: str) -> EntryPoints:
        ours = EntryPoints(EntryPoint(name, value, group) for name, value in points.items())
        return ours if group == "zoo_bench.commands" else every(group=group)

    main.commands.cache_clear()
    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    yield points
    main.commands.cache_clear()


def test_every_config_is_in_a_wheel_and_the_versions_are_equal() -> None:
    for folder in (ROOT, ROOT / "papers"):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        shipped = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
        assert {f"configs/{path.name}" for path in (folder / "configs").iterdir()} <= set(shipped), folder
    assert PROJECT["project"]["version"] == __version__


def test_commands_are_in_the_list_without_an_import(cli: Cli, installed: dict[str, str]) -> None:
    installed |= POINTS
    assert tuple(sorted(installed)) == main.PAPERS
    for name in installed:
        command = main.main_group.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None and command.name == name
        assert main.help_line(name) == (command.help or "").strip().partition("\n")[0]
    program = "import sys; from benchmark.cli.main import main_group as g; g(['--help'], standalone_mode=False);"
    program += "print({name.partition('.')[0] for name in sys.modules} & {'torch', 'zoo_bench_papers', 'pandas'})"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "reproduce" in child.stdout and child.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("name", main.PAPERS)
def test_without_the_package_a_sentence_has_the_remedy(cli: Cli, installed: dict[str, str], name: str) -> None:
    answer = cli(name, "--list")
    assert answer.code != 0 and answer.err.count("\n") == 1
    assert f"`zoo-bench {name}`" in answer.err and "`pip install ./papers`" in answer.err
    assert name not in cli("--help").out


def test_a_command_of_any_package(
    cli: Cli, installed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module, a package, one that has no docstring, one that does not parse, one that lacks the name."""
    head = "import click\nimport no_such_library\n"
    command = "import click\n\n\n@click.command()\ndef greet() -> int:\n    {}\n    click.echo('hello')\n    return 3\n"
    files = {
        "greeter_one.py": command.format('"""Say hello.\n\n    And more.\n    """'),
        "greeter_pack/__init__.py": "raise RuntimeError('imported')\n",
        "greeter_pack/inner/__init__.py": command.format('"""Say hello inside."""'),
        "greeter_bare.py": command.format("pass"),
        "greeter_cut.py": "def greet(:\n",
        "greeter_lacking.py": head,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed |= {
        "hello": "greeter_one:greet",
        "inside": "greeter_pack.inner:greet",
        "bare": "greeter_bare:greet",
        "cut": "greeter_cut:greet",
        "lacking": "greeter_lacking:greet",
        "gone": "no_such_module.at_all:greet",
        "run": "greeter_one:greet",
    }
    lines = {name: main.help_line(name) for name in installed}
    assert lines["hello"] == "Say hello." and lines["inside"] == "Say hello inside."
    assert (lines["bare"], lines["cut"], lines["gone"]) == ("greeter_bare", "greeter_cut", "no_such_module.at_all")
    assert lines["run"] == main.COMMANDS["run"], "no package replaces a command of ours"
    listed = cli("--help")
    assert listed.code == 0 and "Say hello inside." in listed.out
    answer = cli("hello")
    assert (answer.code, answer.out) == (3, "hello\n")
    broken = {"lacking": "no_such_library", "gone": "no_such_module", "inside": "imported", "cut": "syntax"}
    for name, reason in broken.items():
        answer = cli(name)
        assert answer.code != 0 and reason in answer.err and answer.err.count("\n") == 1
