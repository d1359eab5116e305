"""What stands beside the code and no other test reads: workflows, pre-commit, the environments of tox."""

import ast
import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import zoo

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_workflows_and_forms_are_yaml_and_name_environments_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert {"jobs", "body"} & yaml.safe_load(text).keys()
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    for name in re.findall(r"tox -e (\w+)", text):
        assert f"testenv:{name}" in tox, name


def test_the_release_reads_the_version_of_the_package() -> None:
    (line,) = re.findall(r"python -c '(.+)'\)\"", (ROOT / ".github" / "workflows" / "release.yml").read_text())
    shown: list[str] = []
    exec(line.replace("pathlib.Path(", f"pathlib.Path({str(ROOT)!r}, "), {"print": shown.append})
    assert shown == [zoo.__version__]


def test_pre_commit_has_the_ruff_of_the_tests() -> None:
    (hooks,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (pinned,) = re.findall(r"(?m)^ruff==(.+)$", (ROOT / "constraints.txt").read_text())
    assert hooks["rev"] == f"v{pinned}"


OLD = re.compile(r"may truly be|cannot be told whether|as its code has it")


def test_one_word_stands_for_one_thing() -> None:
    """Tied, undecided, beyond noise: docs/terms.md has the words, and what people read has no others."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "leaderboards").glob("*/README.md")]
    code = [path for folder in ("benchmark", "papers/zoo_bench_papers") for path in (ROOT / folder).rglob("*.py")]
    scripts = (ROOT / "benchmark/report/templates").glob("*.js")
    hits = [
        f"{path.relative_to(ROOT)}: {hit[0]}"
        for path in (*pages, *code, *scripts)
        for hit in OLD.finditer(path.read_text(encoding="utf-8"))
    ]
    assert hits == []


NO_NAMES = {"one", "found", "told", "said", "mine", "made", "whole", "left", "own"}


def bound_names(tree: ast.Module, spared: str = "one") -> Iterator[tuple[int, str]]:
    """Yield line and name of each definition, parameter, target and attribute, but not `spared` in a comprehension."""
    comprehensions = [node for node in ast.walk(tree) if isinstance(node, ast.comprehension)]
    free = {node for part in comprehensions for node in ast.walk(part.target) if getattr(node, "id", "") == spared}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in free:
            yield node.lineno, node.id


def test_names_say_what_they_hold() -> None:
    """`found` or `own` says nothing of a value; outside the core, the variable of a comprehension may be `one`."""
    folders = ("zoo", "benchmark", "choose", "papers", "tools", "tests")
    trees = {
        path: ast.parse(path.read_text("utf-8")) for name in folders for path in sorted((ROOT / name).rglob("*.py"))
    }
    words = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path, tree in trees.items()
        for line, name in bound_names(tree, "" if path.relative_to(ROOT).parts[0] in folders[:3] else "one")
        if name in NO_NAMES
    ]
    assert words == []


def test_each_way_to_bind_a_name_is_seen() -> None:
    code = """
def made(own, *said):
    found = left = [one for one in own]
    self.whole = (mine := 2)
    told: int
    for one in own: pass
"""
    names = [name for _, name in bound_names(ast.parse(code))]
    assert sorted(set(names) & NO_NAMES) == sorted(NO_NAMES) and names.count("one") == 1
