"""Encoders, probes and training on a GPU; on a machine without one the tensors of a pretended GPU hold CPU data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from server import run
from torch.utils import backend_registration

from tools.on_gpu import RECIPES
from zoo.recipes import all_recipes

ROOT = Path(__file__).resolve().parent.parent
SHARES = [list(all_recipes())[i::6] for i in range(6)]
REAL = torch.cuda.is_available()
pytestmark = pytest.mark.skipif(
    not (REAL or hasattr(backend_registration, "_setup_privateuseone_for_python_backend")),
    reason="neither a CUDA device nor a torch in which one can be pretended",
)


def results(part: str, folder: Path, *more: str) -> dict[str, Any]:
    """What a part found on either device; in a process of its own, for pretending changes torch."""
    command = [sys.executable, "-m", "tools.on_gpu", part, str(folder), *more]
    done = run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    content: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return content


@pytest.mark.slow
@pytest.mark.parametrize("share", range(5))
def test_every_method_passes_the_check(share: int, tmp_path: Path) -> None:
    names = RECIPES[share::5]
    content = results("check", tmp_path, " ".join(names))
    assert content["gpu"] == {name: {} for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("part", ["probes", "training"])
def test_the_numbers_are_the_cpu_s(part: str, tmp_path: Path) -> None:
    """Kernels differ in their last bits; where all of a GPU is real, a fit may stop an evaluation earlier."""
    content = results(part, tmp_path)
    assert content["gpu"].keys() == content["cpu"].keys()
    for name, values in content["gpu"].items():
        assert values == pytest.approx(content["cpu"][name], rel=0.05 if REAL else 1e-3, abs=3.0 if REAL else 1e-4), (
            name
        )


@pytest.mark.slow
def test_what_fails_on_a_gpu_fails_here(tmp_path: Path) -> None:
    content = results("faults", tmp_path)
    assert content["gpu"] == {"failed": [True] * 5, "dtypes": ["torch.bfloat16", "torch.float32"]}
    assert content["cpu"]["failed"] == [False] * 5


@pytest.mark.slow
@pytest.mark.skipif(REAL, reason="CUDA has float64")
def test_a_device_without_float64_has_the_numbers_of_the_cpu(tmp_path: Path) -> None:
    sides = results("narrow", tmp_path)
    assert sides["gpu"].pop("refused") and sides["cpu"].pop("refused")
    assert len(sides["gpu"]) >= 10
    for name, values in sides["gpu"].items():
        assert values == pytest.approx(sides["cpu"][name], rel=1e-3, abs=1e-4), name
    assert all(values[-1] >= 10 for name, values in sides["gpu"].items() if name.startswith("simcse"))


@pytest.mark.skipif(REAL, reason="waits are counted on the pretended device")
@pytest.mark.parametrize(
    ("names", "least"),
    [
        (["simcse-mlm", "cot-bert", "cosent"], 3),
        *(pytest.param(SHARES[i], 8, marks=pytest.mark.slow) for i in range(6)),
    ],
    ids=["some", *map(str, range(6))],
)
def test_a_step_of_a_training_waits_for_nothing(names: list[str], least: int, tmp_path: Path) -> None:
    """At most 0.2 waits a step, of which every tenth step has one to read the losses."""
    waits = results("waits", tmp_path, " ".join(names))["gpu"]
    assert waits.pop("kinds") == [1] * 8 + [0] * 4
    # Only CUDA has the kernel of InferSent's LSTM.
    counted = {name: waits for name, waits in waits.items() if not name.startswith("infersent")}
    # For the mask of a decoder that sees both ways the library asks once whether anything is padded.
    most = {name: 1.0 if name.startswith("llm2vec") else 0.1 for name in counted}
    assert {
        name: waits for name, waits in counted.items() if not (isinstance(waits, float) and waits <= most[name])
    } == {}
    assert len(counted) >= least


@pytest.mark.slow
def test_captured_steps_have_the_losses_of_ordinary_ones(tmp_path: Path) -> None:
    losses = results("captured", tmp_path)["gpu"]
    assert losses.keys() == {"simcse", "promptbert", "ptbert"}
    for name, values in losses.items():
        ordinary, captured = values["losses"]
        assert captured == pytest.approx(ordinary, rel=1e-2 if REAL else 1e-3) and len(captured) == 20, name
        assert values["captured"] >= 5, name


@pytest.mark.slow
def test_an_encoder_moves_with_all_its_parts(tmp_path: Path) -> None:
    moves = results("moves", tmp_path)["gpu"]
    assert len(moves) == 7
    for name, (off, device) in moves.items():
        assert off < (1e-4 if REAL else 3e-6) and device != "cpu", name
