"""Every import points down, none in a circle; and files that are read again are written by zoo/files.py alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.rooms import (
    FLOORS,
    PACKAGES,
    ROOT,
    arrows_of,
    between_rooms,
    circles,
    drawn,
    imports_of,
    modules_of,
    room_of,
    uphill,
)


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


def test_the_house_is_drawn_as_it_is() -> None:
    assert f"```text\n{drawn()}\n```" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


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


_RAW = re.compile(
    r"\.write_text\(|\.write_bytes\(|open\([^)]*[\"'][wax]b?[\"']|json\.dump\(|np\.save|save_file\(|save_pretrained\("
    r"|shutil\.(copy|move)"
)
REASONS = {
    "zoo/files.py": "the primitive itself",
    "zoo/tensors.py": "inside atomic_path",
    "zoo/training/checkpoint.py": "a log for people, appended to while training",
    "zoo/engine/model_folder.py": "a sentence that names the command of transformers",
    "zoo/engine/backbone.py": "into a folder whose files zoo/api.py sums",
    "zoo/methods/textvectors.py": "an example in a docstring",
    "papers/zoo_bench_papers/pretraining/pretrain.py": "into a folder that write_sums sums",
    "zoo/srl/views.py": "inside atomic_path, with a sum in its first line",
    "zoo/conformance.py": "vectors, into a temporary folder that is read once",
    "zoo/machine.py": "a setting of the system",
    "benchmark/data/sources.py": "inside atomic_path; the catalog holds its sum",
    "benchmark/run/cluster.py": "plugins, into a temporary folder that is read once",
    "benchmark/run/objects.py": "a given model, into a temporary folder that is read once",
    "benchmark/run/cache.py": "inside atomic_path, with a sum in its metadata",
}


def test_no_other_file_writes_on_its_own() -> None:
    files = [file for room in ("zoo", "benchmark", "choose", "papers") for file in sorted((ROOT / room).rglob("*.py"))]
    raw = {str(f.relative_to(ROOT)) for f in files if _RAW.search(f.read_text(encoding="utf-8"))}
    assert raw == set(REASONS), raw ^ set(REASONS)
