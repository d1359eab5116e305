"""Rooms of the four packages, the floors on which they lie, and what imports what.

A room is a folder of a package; the files beside the folders are one room too. All imports count, those inside
functions and those for the type checker alone as well. `python -m tools.rooms` draws them and counts what each has.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

# The checkout: what is installed may lack a module.
ROOT = Path(__file__).parents[1]

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
    "choose": [["choose.commands"], ["choose"]],
    "benchmark": [
        ["benchmark.__main__"],
        ["benchmark.cli"],
        ["benchmark"],
        ["benchmark.api", "benchmark.evaluation"],
        ["benchmark.checking", "benchmark.interop"],
        ["benchmark.report"],
        ["benchmark.run"],
        ["benchmark.stats"],
        ["benchmark.records"],
        ["benchmark.keys"],
        ["benchmark.tasks"],
        ["benchmark.metrics"],
        ["benchmark.data"],
        ["benchmark.reasons"],
    ],
}

# Packages from the top down, each with the folder it is in.
PACKAGES = {"zoo_bench_papers": ROOT / "papers", "choose": ROOT, "benchmark": ROOT, "zoo": ROOT}


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


def counted(package: str) -> dict[str, Counter[str]]:
    """Return the files, lines and classes of each room of a package."""
    rooms: dict[str, Counter[str]] = {}
    for module, path in modules_of(PACKAGES[package], package).items():
        text = path.read_text(encoding="utf-8")
        classes = sum(isinstance(node, ast.ClassDef) for node in ast.walk(ast.parse(text)))
        of_file = {"files": 1, "lines": text.count("\n"), "classes": classes}
        rooms.setdefault(room_of(module, FLOORS[package]), Counter()).update(of_file)
    return rooms


def drawn() -> str:
    """Return the house as text: packages and their floors from the top down, rooms beside each other on a line."""
    lines = []
    for package, folder in PACKAGES.items():
        name = f"{(folder / package).relative_to(ROOT)}/"
        for number, floor in enumerate(FLOORS[package]):
            names = ("(its own files)" if room == package else room.removeprefix(f"{package}.") for room in floor)
            lines.append(f"{'' if number else name:<26}{', '.join(names)}")
    return "\n".join(lines)


def main() -> None:
    """Print the house, the counts of each room, and their sums by package."""
    print(f"{drawn()}\n")
    for package in PACKAGES:
        rooms = counted(package)
        for name, counts in [*sorted(rooms.items()), (f"{package} in all", sum(rooms.values(), Counter()))]:
            print(f"{name:36}" + "".join(f"{counts[what]:8,} {what}" for what in ("files", "lines", "classes")))


if __name__ == "__main__":
    main()
