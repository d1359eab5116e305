"""A misspelt name is an error of the type checker, not a failure in the middle of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import zoo
from zoo.registry import METHODS

ROOT = Path(zoo.__file__).parents[1]


def errors_of_mypy(file: Path, text: str) -> list[str]:
    """Return what mypy, with this project's settings, says of a file with this text, one line per error."""
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--no-color-output", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": error: " in line]


def test_a_misspelt_recipe_field_is_a_type_error(tmp_path: Path) -> None:
    """Of every method that is built in: each names its recipe's class in its base."""
    classes = [(name, cls) for name, cls in METHODS.load_all() if cls and cls.__module__.startswith("zoo.methods.")]
    lines = [f"from {cls.__module__} import {cls.__name__}" for _, cls in classes]
    for number, (_, cls) in enumerate(classes):
        lines += [f"def read_{number}(encoder: {cls.__name__}) -> None:", "    print(encoder.recipe.nothing)"]
    found = errors_of_mypy(tmp_path / "misspelt.py", "\n".join(lines) + "\n")
    assert len(classes) >= 23
    for _, cls in classes:
        assert any(f'"{cls.Recipe.__name__}" has no attribute "nothing"' in line for line in found), cls
    assert len(found) == len(classes), found


def test_the_type_check_passes_a_file_without_mistakes(tmp_path: Path) -> None:
    text = "from zoo.methods.simcse import SimCSE\n\n\ndef read(encoder: SimCSE) -> float:\n    return encoder.recipe."
    assert errors_of_mypy(tmp_path / "right.py", text + "temperature\n") == []
    assert "[return-value]" in str(errors_of_mypy(tmp_path / "wrong.py", text + "pooler\n"))
