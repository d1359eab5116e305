"""The Python reference: what it lists has a description of every parameter, which the handbook shows as a table."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")


def listed() -> dict[str, FunctionType]:
    """Return the functions of the page by their place; a module without `members` is listed with its `__all__`."""
    functions = {}
    for name, members in re.findall(r"::: (\S+)\n    options: \{(?: members: \[(.+?)\])?", PAGE):
        module = importlib.import_module(name)
        for member in members.split(", ") if members else module.__all__:
            if isinstance(value := getattr(module, member), FunctionType):
                functions[f"{name}.{member}"] = value
    return functions


@pytest.mark.parametrize("place", listed())
def test_each_parameter_is_described(place: str) -> None:
    function = listed()[place]
    code = function.__code__  # the signature of `evaluate` has the options of a run too
    args = (inspect.getdoc(function) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    described = re.findall(r"(?m)^    (\w+): \S", args)
    assert described == list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


@pytest.mark.parametrize("place", listed())
def test_an_example_is_a_section_of_code(place: str) -> None:
    # Under "Example:" the handbook would show a box of prose.
    text = inspect.getdoc(listed()[place]) or ""
    assert (">>>" in text) == ("\nExamples:\n    >>>" in text)


def with_examples() -> list[str]:
    """Return the modules that show an example."""
    files = [file for room in ("zoo", "benchmark", "choose") for file in sorted((ROOT / room).rglob("*.py"))]
    shown = [file for file in files if ">>> " in file.read_text(encoding="utf-8")]
    return [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in shown]


SCRIPT = """
import doctest, importlib, sys
runner = doctest.DocTestRunner()
for example in doctest.DocTestFinder().find(importlib.import_module(sys.argv[1])):
    if "FOLDER_OR_HUB_ID" not in example.docstring:
        runner.run(example)
sys.exit(runner.failures)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", with_examples())
def test_each_example_gives_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, because the tests set another default backbone."""
    monkeypatch.delenv("ZOO_BENCH_BACKBONE")
    child = subprocess.run([sys.executable, "-c", SCRIPT, name], cwd=tmp_path, capture_output=True, text=True)
    assert child.returncode == 0, child.stdout + child.stderr
