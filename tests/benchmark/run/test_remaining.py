"""How long the rest of a run takes: what it is made of, and that a run says it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes import Cli

from benchmark.run.estimate import Remaining

NAMES = {"a0": "a", "a1": "a", "b0": "b", "c0": "c"}


def test_seeds_take_as_long_as_those_before() -> None:
    """a's second seed takes what its first took; b and c are longer than estimated in the same ratio."""
    left = Remaining(expected={"a0": 10.0, "a1": 10.0, "b0": 40.0, "c0": 0.0}, names=NAMES)
    assert (left.seconds(), left.text()) == (None, "")
    left.done("a0", 30.0)
    assert left.seconds() == pytest.approx(30 + 40 * 3)
    assert left.text() == ", about 2:30 left in all"
    left.done("a1", 50.0)
    assert left.seconds() == pytest.approx(40 * 80 / 20)
    left.done("b0", 1.0)
    left.done("c0", 1.0)
    assert left.seconds() == 0


def test_an_estimate_by_the_machine_is_said_at_once() -> None:
    """It moves towards what is measured as measuring goes on; what is kept from before takes no time."""
    left = Remaining(expected={"a0": 0.0, "b0": 300.0, "c0": 300.0}, names=NAMES, timed=True)
    assert left.seconds() == pytest.approx(600)
    left.done("a0", 5.0)
    assert left.seconds() == pytest.approx(600)
    left.done("b0", 630.0)
    assert left.seconds() == pytest.approx(300 * (630 + 30) / (300 + 30))


@pytest.mark.usefixtures("fakes")
def test_a_run_says_it_from_its_second_encoder(cli: Cli, tmp_path: Path) -> None:
    words = ("run", "--methods", "bag,bag:salt=1,bag:salt=2", "--tasks", "pocket-words", "--results", tmp_path)
    lines = cli(*words, "--precision", "fp32", "--limit", 20).err.splitlines()
    told = [bool(re.search(r"1 task, about \d+:\d\d left in all$", line)) for line in lines if line.startswith("[")]
    assert told == [False, True, True]
