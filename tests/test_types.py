"""A misspelt name is an error of the type checker, not a failure in the middle of a run."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from zoo.encoder import Encoder
from zoo.registry import METHODS

pytestmark = pytest.mark.slow

# The checkout, not the installed package: there is no setting of mypy beside that one.
ROOT = Path(__file__).parents[1]
CLASSES: list[type[Encoder]] = [
    cls for _, cls in METHODS.load_all() if cls is not None and cls.__module__.startswith("zoo.methods.")
]

FILES = {
    "recipe_field": """
from zoo.methods.simcse import SimCSE
def read(encoder: SimCSE) -> object:
    return encoder.recipe.{name}
""",
    "run_option": """
from benchmark.run.options import RunOptions
def read(options: RunOptions) -> object:
    return options.{name}
""",
    "record_key": """
from benchmark.records.record import Record
def read(record: Record) -> object:
    return record["{name}"]
""",
    "condition_of_a_row": """
from benchmark.leaderboard.rows import Row
def read(row: Row) -> object:
    return row.about["{name}"]
""",
    "part_of_a_measurement": """
from benchmark.run.measure import Measured
def read(measured: Measured) -> object:
    return measured.more["{name}"]
""",
    "score_of_a_task": """
from benchmark.tasks import Scores
scores: Scores = {{"{name}": 0.5, "main_metric": "accuracy", "reason": None}}
""",
}
RIGHT = {"recipe_field": "temperature", "run_option": "suites", "record_key": "task"}
RIGHT |= {"condition_of_a_row": "backbone", "part_of_a_measurement": "scores", "score_of_a_task": "main"}
WRONG = {
    "recipe_field": ("temprature", '"SimCSERecipe" has no attribute "temprature"'),
    "run_option": ("suite_nmaes", '"RunOptions" has no attribute "suite_nmaes"'),
    "record_key": ("tsak", 'TypedDict "Record" has no key "tsak"'),
    "condition_of_a_row": ("bakcbone", 'TypedDict "About" has no key "bakcbone"'),
    "score_of_a_task": ("mian", 'Extra key "mian" for TypedDict "Scores"'),
    "part_of_a_measurement": ("scroes", 'TypedDict "MeasuredPart" has no key "scroes"'),
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy, with this project's settings, says of small files: its errors by the name of the file."""
    folder = tmp_path_factory.mktemp("typed")
    for kind, text in FILES.items():
        (folder / f"right_{kind}.py").write_text(text.format(name=RIGHT[kind]), encoding="utf-8")
        (folder / f"wrong_{kind}.py").write_text(text.format(name=WRONG[kind][0]), encoding="utf-8")
    lines = [f"from {cls.__module__} import {cls.__name__}" for cls in CLASSES]
    for number, cls in enumerate(CLASSES):
        lines += [f"def read_{number}(encoder: {cls.__name__}) -> None:", "    print(encoder.recipe.nothing)"]
    (folder / "methods.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--no-color-output", *map(str, folder.iterdir())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found = defaultdict(list)
    for line in done.stdout.splitlines():
        if ": error: " in line:
            found[Path(line.split(":")[0]).stem].append(line)
    return dict(found)


@pytest.mark.parametrize("kind", FILES)
def test_a_misspelt_name_is_a_type_error(kind: str, errors: dict[str, list[str]]) -> None:
    """A recipe field, an option of a run, a key of a record: once misspelt, once as it is."""
    assert any(WRONG[kind][1] in line for line in errors[f"wrong_{kind}"])
    assert f"right_{kind}" not in errors


def test_every_method_names_its_recipe_in_its_base(errors: dict[str, list[str]]) -> None:
    """So that a misspelt field is an error for every method that is built in."""
    found = errors["methods"]
    unseen = [cls for cls in CLASSES if not any(f'"{cls.Recipe.__name__}" has no' in line for line in found)]
    assert not unseen, "write class Mine(Encoder[MyRecipe])"
    assert len(found) == len(CLASSES) >= 23
