"""The smoke row: equal, within rounding, different, or another row; and the row itself."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from fakes import Cli

from benchmark.records.folder import Records
from benchmark.smoke import compared, smoke
from zoo.errors import MissingError

PUBLISHED = Path(__file__).parents[2] / "leaderboards" / "smoke"


class Kept:
    """A folder that keeps these cosines."""

    def __init__(self, cosines: np.ndarray) -> None:
        self.cosines = cosines

    def pair_scores(self, _: object) -> tuple[np.ndarray, np.ndarray]:
        return self.cosines, self.cosines


def test_the_sentence_and_whether_the_row_is_equal() -> None:
    store = Records(PUBLISHED)
    (theirs,) = store.all()
    cosines = store.pair_scores(theirs)[0]

    def outcome(moved: float, shift: float = 0.0, **more: object) -> tuple[bool, str]:
        ours = copy.deepcopy(theirs)
        ours["scores"]["main"] += moved / 100  # type: ignore[index,operator]
        ours.update(more)  # type: ignore[typeddict-item]
        outcome_of_row = compared(theirs, store, ours, Kept(cosines + np.float32(shift)))  # type: ignore[arg-type]
        return outcome_of_row.equal, outcome_of_row.text.partition(":")[0]

    assert outcome(0.0) == (True, "equal")
    assert outcome(0.0, 1e-6) == (True, "equal within 0.05")
    assert outcome(0.04, 1e-6) == outcome(-0.04, 1e-6) == (True, "equal within 0.05")
    assert outcome(0.06, 1e-6) == outcome(-0.06) == (False, "differs")
    assert outcome(0.0, key="0" * 64) == (False, "not the same row")


def test_a_folder_without_the_row_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="0 records in the place of the smoke row"):
        smoke(tmp_path)


@pytest.mark.slow
def test_the_published_row_is_made_again(cli: Cli) -> None:
    done = cli("smoke")
    assert done.out.startswith("equal")
