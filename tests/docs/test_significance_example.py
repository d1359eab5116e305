"""The example of docs/significance.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/significance.md").read_text(encoding="utf-8")


def test_the_example_tells_two_methods_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """One of twice the noise is below the other, and is not among the best."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    numbers, best = capsys.readouterr().out.splitlines()
    low, high, p = map(float, numbers.split())
    assert 0 < low < high and p < 0.05
    assert best == "[ True False]"
