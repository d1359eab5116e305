"""The Python reference: what it lists has a description of every parameter, which the handbook shows as a table."""

import doctest
import importlib
import inspect
import re
from pathlib import Path
from types import FunctionType

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")


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


@pytest.mark.slow
@pytest.mark.parametrize("place", [place for place, function in listed().items() if ">>>" in (function.__doc__ or "")])
def test_each_example_gives_what_it_shows(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder().find(listed()[place], globs=dict(vars(inspect.getmodule(listed()[place]))))
    assert doctest.DocTestRunner().run(example) == (0, len(example.examples))
