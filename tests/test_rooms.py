"""Rooms of the three packages: every import points down, and no modules import each other in a circle.

A room is a folder of a package; the files beside the folders are one room too. All imports count, those inside
functions and those for the type checker alone as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]  # the checkout; what is installed may lack a module

# From the top down; rooms on one line may import each other, in one direction.
FLOORS = {
    "zoo_bench_papers": [
        ["zoo_bench_papers.commands"],
        ["zoo_bench_papers"],
        ["zoo_bench_papers.analysis", "zoo_bench_papers.pretraining", "zoo_bench_papers.template_search"],
    ],
    "zoo": [
        ["zoo.methods"],
        ["zoo.formats"],
        ["zoo.training", "zoo.modules", "zoo.srl"],
        ["zoo.engine"],
        ["zoo"],
    ],
    "benchmark": [
        ["benchmark.__main__"],
        ["benchmark.cli"],
        ["benchmark"],
        ["benchmark.api", "benchmark.evaluation"],
        ["benchmark.choosing", "benchmark.tuning"],
        ["benchmark.analysis", "benchmark.interop"],
        ["benchmark.report"],
        ["benchmark.run"],
        ["benchmark.stats"],
        ["benchmark.records"],
        ["benchmark.identity"],
        ["benchmark.tasks"],
        ["benchmark.metrics"],
        ["benchmark.data"],
    ],
}

# Packages from the top down, each with the folder it is in.
PACKAGES = {"zoo_bench_papers": ROOT / "papers", "benchmark": ROOT, "zoo": ROOT}


def modules_of(root: Path, package: str) -> dict[str, Path]:
    """Return the modules of a package by their dotted name."""
    modules = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def imports_of(path: Path, modules: Iterable[str]) -> set[str]:
    """Return which of `modules` a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in modules else str(node.module) for name in inner.values()}
    return names & set(modules)


def arrows_of(root: Path, package: str) -> dict[str, set[str]]:
    """Return what each module of a package imports of the same package."""
    modules = modules_of(root, package)
    return {name: imports_of(path, modules) - {name} for name, path in modules.items()}


def room_of(module: str, floors: list[list[str]]) -> str:
    """Return the room of a module: the file where it has a floor of its own, its folder, or the package."""
    rooms = {room for floor in floors for room in floor}
    parts = module.split(".")
    return module if module in rooms else ".".join(parts[:2]) if len(parts) > 2 else parts[0]


def uphill(arrows: Mapping[str, set[str]], floors: list[list[str]]) -> set[tuple[str, str]]:
    """Return the imports of a room by one below it; raises KeyError for a room that has no floor."""
    height = {room: -number for number, floor in enumerate(floors) for room in floor}
    place = {module: height[room_of(module, floors)] for module in arrows}
    return {(module, other) for module, others in arrows.items() for other in others if place[other] > place[module]}


def circles(arrows: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the groups of names that reach each other."""
    reached: dict[str, set[str]] = {}
    for start in arrows:
        seen, open_ends = set[str](), [start]
        while open_ends:
            new = arrows[open_ends.pop()] - seen
            seen |= new
            open_ends += new
        reached[start] = seen
    groups = [frozenset(b for b in reached[a] if a in reached[b]) for a in arrows if a in reached[a]]
    return [set(group) for group in dict.fromkeys(groups)]


def between_rooms(arrows: Mapping[str, set[str]], floors: list[list[str]]) -> dict[str, set[str]]:
    """Return which rooms each room imports."""
    rooms: dict[str, set[str]] = {}
    for module, others in arrows.items():
        room = room_of(module, floors)
        rooms.setdefault(room, set()).update({room_of(other, floors) for other in others} - {room})
    return rooms


@pytest.mark.parametrize("package", FLOORS)
def test_no_import_points_up_and_none_in_a_circle(package: str) -> None:
    floors, arrows = FLOORS[package], arrows_of(PACKAGES[package], package)
    assert {room for floor in floors for room in floor} <= {room_of(module, floors) for module in arrows}
    unplaced = {room_of(module, floors) for module in arrows} - {room for floor in floors for room in floor}
    assert not unplaced, "rooms without a floor; give each its place in FLOORS"
    rooms, up, round_about = between_rooms(arrows, floors), uphill(arrows, floors), circles(arrows)
    print(f"{package}: {len(rooms)} rooms, {len(up)} uphill arrows, {len(round_about)} circles")
    assert (up, round_about, circles(rooms)) == (set(), [], [])


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_imports_one_above_it(package: str) -> None:
    above = list(PACKAGES)[: list(PACKAGES).index(package)]
    names = {name for other in above for name in modules_of(PACKAGES[other], other)}
    files = modules_of(PACKAGES[package], package).values()
    assert [path for path in files if imports_of(path, names)] == []


def test_uphill_imports_and_circles_are_seen(tmp_path: Path) -> None:
    """In functions and for the type checker too."""
    files = {
        "high/a.py": "import house.low.b\n",
        "low/b.py": "def f():\n    from house.high import a\n",
        "low/c.py": "from house.low.d import name\n",
        "low/d.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.low.c import other\n",
        "low/e.py": "from house.low import d\nimport house.base\n",
        "base.py": "",
    }
    for name, text in files.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    floors, arrows = [["house.high"], ["house.low"], ["house"]], arrows_of(tmp_path, "house")
    assert uphill(arrows, floors) == {("house.low.b", "house.high.a")}
    assert circles(arrows) == [{"house.high.a", "house.low.b"}, {"house.low.c", "house.low.d"}]
    assert circles(between_rooms(arrows, floors)) == [{"house.high", "house.low"}]
    with pytest.raises(KeyError, match=r"house\.low"):
        uphill(arrows, [["house.high"], ["house"]])
