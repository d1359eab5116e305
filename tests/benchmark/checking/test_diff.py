"""`diff`: which cells of two results folders differ, by what, and whether that is more than noise."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import hexes, make_record

import benchmark
from benchmark.checking.diff import diff, made_by
from benchmark.cli.main import main
from benchmark.records.folder import Records
from benchmark.records.pack import pack
from benchmark.report.leaderboard import make_leaderboard
from benchmark.stats.marks import beyond_noise
from zoo.errors import MissingError


def bag(noise: float) -> Callable[[list[str]], np.ndarray]:
    """Return an encoder of words' letters, with noise that depends on the text."""

    def encode(texts: list[str]) -> np.ndarray:
        vectors = np.zeros((len(texts), 64), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.lower().split():
                row[int.from_bytes(hashlib.sha256(word.strip(".,").encode()).digest()[:4]) % 64] += 1
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
            row += noise * np.random.default_rng(seed).normal(size=64)
        return vectors

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
    causes = made_by(record, changed)  # type: ignore[arg-type]
    assert [text.split(" (")[0] for text in causes] == ["version", "precision", "library torch"]
    machine: Any = {**record, "environment": {**record["environment"], "instructions": "AVX2", "threads": 7}}
    machine["encoding"] = {**(record["encoding"] or {}), "texts": 3, "cached": 5}
    causes = [text.split(" (")[0] for text in made_by(record, machine)]
    assert causes == ["instructions", "threads", "texts encoded", "texts from the embedding cache"]
    assert made_by(record, record) == []


PROCESSORS = {
    "instructions (AVX512 to AVX2)": {"ATEN_CPU_CAPABILITY": "avx2"},
    "instructions (none more to OPENBLAS_CORETYPE=Haswell)": {"OPENBLAS_CORETYPE": "Haswell"},
    "precision (fp32 to bf16)": {},
}


@pytest.mark.slow
@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="other processors are simulated")
def test_another_processor_and_another_precision_are_named(tmp_path: Path) -> None:
    """Scores may be equal, since ranks are; the cosines' bits are not."""
    options = "--methods avg-last,whitening-target --tasks pocket-words,pocket-pairs --embedding-cache 0 --no-controls"

    def run(folder: Path, precision: str, variables: dict[str, str]) -> Path:
        command = [sys.executable, "-m", "benchmark", "run", *options.split(), "--precision", precision]
        # Libraries read these variables as they are imported.
        subprocess.run([*command, "--results", str(folder)], env={**os.environ, **variables}, check=True)
        return folder

    here = run(tmp_path / "here", "fp32", {})
    assert "pair scores" not in str(diff(here, here))
    for number, (cause, variables) in enumerate(PROCESSORS.items()):
        precision = "bf16" if "bf16" in cause else "fp32"
        result = diff(here, run(tmp_path / str(number), precision, variables))
        assert {*result.other_bits, *(text for cell in result.cells for text in cell.made_by)} == {cause}
        assert f"other: {cause}" in str(result)


@pytest.mark.parametrize(("place", "code"), [(1, 1), (2, 0)])
def test_the_command_fails_only_where_a_score_is_worse(
    folders: list[Path], place: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["diff", str(folders[0]), str(folders[place]), "--fail-if-worse"])
    assert end.value.code == code
    assert "mine on pocket-pairs" in capsys.readouterr().out


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a changed score": lambda path: path.write_text(path.read_text("utf-8").replace('"main": 0.51', '"main": 0.91')),
    "a cut file": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "set aside": lambda path: path.rename(path.with_name(path.name + ".corrupt")),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seeds", [[0, 1, 2], [None]], ids=["three seeds", "no seed"])
def test_a_damaged_record_is_named_and_no_move(damage: str, seeds: list[int | None], tmp_path: Path) -> None:
    """The means of two seeds and of three differ; neither they nor the table's cell say anything."""
    paths = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        for number, seed in enumerate(seeds):
            score = 0.51 + number / 10
            paths.append(Records(folder).write(make_record("bag", "pocket-words", seed, main=score, seeds=len(seeds))))
            paths.append(Records(folder).write(make_record("bag", "pocket-pairs", seed, main=score)))
    broken = paths[2 * len(seeds)]
    DAMAGES[damage](broken)
    for result in (diff(tmp_path / "a", tmp_path / "b"), diff(tmp_path / "b", tmp_path / "a")):
        (cell,) = result.cells
        assert (cell.state, cell.task, cell.a, cell.b, result.equal) == ("damaged", "pocket-words", None, None, 1)
        assert f"{tmp_path / 'b'}: records/bag/{broken.name}" in str(result) and "moved" not in str(result)
    with pytest.raises(SystemExit) as end:
        main(["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--fail-if-worse"])
    assert end.value.code == 1
    if len(seeds) == 3:
        text = make_leaderboard(tmp_path / "b").files["pocket.md"]
        assert f"2 of 3 seeds; records/bag/{broken.name}" in text and str(tmp_path) not in text


def test_another_rows_damaged_record_is_no_damage_of_a_whole_row(tmp_path: Path) -> None:
    """Of two rows of one name, in two precisions, one is whole."""
    rows = {precision: hexes(precision) for precision in ("fp32", "bf16")}
    paths = {
        (side, precision): Records(tmp_path / side).write(
            make_record("bag", "pocket-words", None, precision=precision, row_key=row, key=hexes(row), main=0.5)
        )
        for side in "ab"
        for precision, row in rows.items()
    }
    paths["b", "bf16"].write_text("{", encoding="utf-8")
    result = diff(tmp_path / "a", tmp_path / "b")
    assert [cell.state for cell in result.cells] == ["damaged"] and result.equal == 1


def test_damage_beside_the_same_record_packed_is_no_damage_of_the_cell(tmp_path: Path) -> None:
    for side in "ab":
        path = Records(tmp_path / side).write(make_record("bag", "pocket-words", main=0.5))
    pack(tmp_path / "b")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{", encoding="utf-8")
    result = diff(tmp_path / "a", tmp_path / "b")
    assert result.cells == [] and result.equal == 1


def test_a_code_without_records_is_named(folders: list[Path]) -> None:
    with pytest.raises(MissingError, match="@0000"):
        diff(f"{folders[0]}@0000", folders[1])


@pytest.mark.parametrize(
    ("values", "beyond"),
    [
        ({0: 0.03}, {0: True}),
        ({0: 0.02, 1: 0.03, 2: 0.9}, {0: False, 1: False, 2: False}),  # 3 * 0.02 is above 0.05
        ({0: 0.04, 1: 0.016, 2: 0.024}, {0: True, 1: True, 2: True}),  # 0.048, 0.048, 0.04
        ({0: 0.04, 1: 0.016, 2: 0.03}, {0: False, 1: True, 2: False}),  # 0.06 ends it, though 0.04 is below
    ],
)
def test_moves_are_judged_by_holm_s_procedure(values: dict[int, float], beyond: dict[int, bool]) -> None:
    assert beyond_noise(values) == beyond


def test_trials_are_not_compared(tmp_path: Path) -> None:
    for side, score in (("a", 0.5), ("b", 0.6)):
        Records(tmp_path / side).write(make_record("bag", "pocket-words", main=0.5))
        Records(tmp_path / side).write(make_record("bag", "pocket-pairs", limit=5, main=score))
    result = diff(tmp_path / "a", tmp_path / "b")
    assert result.cells == [] and result.equal == 1
