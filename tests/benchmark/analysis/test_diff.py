"""`diff`: which cells of two results folders differ, by what, and whether that is more than noise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import benchmark
from benchmark.analysis.diff import diff, made_by
from benchmark.cli.main import main
from benchmark.records.folder import Records
from zoo.errors import MissingError


def bag(noise: float) -> Callable[[list[str]], np.ndarray]:
    """Return an encoder of words' letters, with noise that depends on the text."""

    def encode(texts: list[str]) -> np.ndarray:
        found = np.zeros((len(texts), 64), np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in text.lower().split():
                row[int.from_bytes(hashlib.sha256(word.strip(".,").encode()).digest()[:4]) % 64] += 1
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
            row += noise * np.random.default_rng(seed).normal(size=64)
        return found

    return encode


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return folders of one encoder: as it is, much worse, and hardly changed but with one task less."""
    places = [tmp_path_factory.mktemp(name) for name in ("good", "worse", "near")]
    for place, noise in zip(places, (0.0, 20.0, 0.001), strict=True):
        tasks = "pocket-pairs" if noise == 0.001 else "pocket-pairs,pocket-topics"
        encoders = {"mine": bag(noise), "other": bag(0.0)} if noise < 20 else {"mine": bag(noise)}
        benchmark.evaluate(encoders, tasks=tasks, results=place, controls=False, quiet=True)
    return places


def test_a_fall_beyond_noise_is_told_from_a_move_within_it(folders: list[Path]) -> None:
    good, worse, near = folders
    cells = {(cell.row, cell.task): cell for cell in diff(good, worse).cells}
    fallen = cells["mine", "pocket-pairs"]
    assert fallen.worse and fallen.high is not None and fallen.high < 0
    topics = cells["mine", "pocket-topics"]
    assert topics.low is not None and topics.low < topics.b - topics.a < topics.high  # by its items
    assert cells["other", "pocket-pairs"].state == "gone"
    small = {(cell.row, cell.task): cell for cell in diff(good, near).cells}
    assert small["mine", "pocket-pairs"].beyond_noise is False
    assert diff(good, good).cells == [] and diff(good, good).equal == 4


def test_what_made_a_cell_differ_is_named(folders: list[Path]) -> None:
    record = Records(folders[0]).all()[0]
    changed = {**record, "precision": "bf16", "version": "9.9.9"}
    changed["environment"] = {**record["environment"], "packages": {**record["environment"]["packages"], "torch": "1"}}
    said = made_by(record, changed)  # type: ignore[arg-type]
    assert [text.split(" (")[0] for text in said] == ["version", "precision", "library torch"]
    assert made_by(record, record) == []


@pytest.mark.parametrize(("place", "code"), [(1, 1), (2, 0)])
def test_the_command_fails_only_where_a_score_is_worse(
    folders: list[Path], place: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["diff", str(folders[0]), str(folders[place]), "--fail-if-worse"])
    assert end.value.code == code
    assert "mine on pocket-pairs" in capsys.readouterr().out


def test_a_commit_without_records_is_named(folders: list[Path]) -> None:
    with pytest.raises(MissingError, match="@0000"):
        diff(f"{folders[0]}@0000", folders[1])
