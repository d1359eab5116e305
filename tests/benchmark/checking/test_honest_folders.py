"""Results that nobody edited are verified, however their folder came to be; `test_bound` has what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

import benchmark
from benchmark.checking.verify import verify
from benchmark.records.folder import Records
from benchmark.records.pack import pack
from zoo.files import read_signed, write_signed

TASKS = "pocket-pairs,pocket-topics"
TRAINED = "simcse:batch_size=8:steps=2:learning_rate=1e-2"
PLUGIN = '''"""A method of one's own."""
from zoo import register_method
from zoo.methods.pooled import Average


@register_method("lead-five")
class LeadFive(Average):
    """The average of the first five words of a text."""

    def encode(self, texts):
        return super().encode([" ".join(text.split()[:5]) for text in texts])
'''


def measured(folder: Path, backbone: Path, methods: str = f"random:dim=64,{TRAINED}", tasks: str = TASKS) -> Path:
    """Measure a random and a trained row of two seeds, on a backbone that is given by its folder."""
    options: dict[str, Any] = {"backbone": str(backbone), "train_sentences": 40, "limit": 40, "seeds": 2}
    benchmark.evaluate(methods, tasks=tasks, results=folder, quiet=True, device="cpu", **options)
    return folder


def fresh(folder: Path, backbone: Path) -> Path:
    return measured(folder, backbone)


def resumed(folder: Path, backbone: Path) -> Path:
    """The second task is measured later, with the encoders that were kept."""
    measured(folder, backbone, tasks="pocket-pairs")
    return measured(folder, backbone)


def packed(folder: Path, backbone: Path) -> Path:
    pack(measured(folder, backbone))
    return folder


def of_two_machines(folder: Path, backbone: Path) -> Path:
    parts = [measured(folder / name, backbone, methods) for name, methods in (("a", "random:dim=64"), ("b", TRAINED))]
    for part in parts:
        shutil.copytree(part, folder / "both", dirs_exist_ok=True)
    return folder / "both"


def joined(folder: Path, backbone: Path) -> Path:
    """The records of one run beside the encoders of another, whose trainings took another time."""
    first, second = (measured(folder / name, backbone) for name in "ab")
    shutil.rmtree(first / "encoders")
    shutil.copytree(second / "encoders", first / "encoders")
    for path in (first / "encoders").glob("*/fit.json"):
        fit = read_signed(path)
        write_signed(path, {**fit, "training": {**fit["training"], "seconds": fit["training"]["seconds"] + 1}})
    return first


def collapsed(folder: Path, backbone: Path) -> Path:
    """An encoder that gives most texts nearly one vector: rounding decides how many are equal."""
    return measured(folder, backbone, f"random:dim=64,{TRAINED.replace('1e-2', '3')}:pooler=avg")


@pytest.mark.slow
@pytest.mark.parametrize("measure", [fresh, resumed, packed, of_two_machines, joined, collapsed])
def test_a_folder_that_nobody_edited_is_verified(measure: Any, tmp_path: Path, tiny_bert: Path) -> None:
    verified = verify(measure(tmp_path / "results", tiny_bert), weights=[tiny_bert])
    assert {verdict.word for verdict in verified.verdicts} == {"verified"}, str(verified)
    assert verified.exit_code() == 0 and len(verified.verdicts) == 8


def test_a_plugins_row_is_verified_with_the_plugin(cli: Cli, tmp_path: Path) -> None:
    plugin = tmp_path / "lead_five.py"
    plugin.write_text(PLUGIN, encoding="utf-8")
    results = tmp_path / "results"
    words = ("--plugin", plugin, "--methods", "lead-five", "--tasks", "pocket-pairs", "--limit", "40", "--no-controls")
    assert cli("run", *words, "--results", results).code == 0
    assert cli("verify", results, "--plugin", plugin).code == 0


# The seeds and tasks of one run, then of another one into the same folder.
@pytest.mark.parametrize(
    "runs",
    [
        [("pocket-pairs", 3), ("pocket-pairs,pocket-words", 2)],
        [("pocket-pairs", 2), ("pocket-words", 3)],
        [("pocket-pairs", 2), ("pocket-pairs,pocket-words", 3)],
        [("pocket-pairs,pocket-words", 1), ("pocket-pairs", 3)],
    ],
)
@pytest.mark.parametrize("typed", [True, False], ids=["command", "python"])
def test_a_run_promises_the_seeds_of_its_own_tasks(
    runs: list[tuple[str, int]], typed: bool, cli: Cli, tmp_path: Path
) -> None:
    for tasks, seeds in runs:
        if typed:
            words = ("--methods", "random:dim=64", "--no-controls", "--limit", "40", "--tasks", tasks, "--seeds", seeds)
            assert cli("run", *words, "--results", tmp_path).code == 0
        else:
            options: dict[str, Any] = {"seeds": seeds, "limit": 40, "controls": False}
            benchmark.evaluate("random:dim=64", tasks=tasks, results=tmp_path, quiet=True, **options)
    assert "missing" not in str(verify(tmp_path)) and verify(tmp_path).exit_code() == 0
    if typed:
        # The last seed is missed, also of a task whose other records are of a run with fewer seeds.
        last = max(
            Records(tmp_path).all(), key=lambda record: (record["seed"] or 0, record["task"]["name"] < "pocket-q")
        )
        Records(tmp_path).path(last["method"]["name"], last["task"]["name"], last["key"]).unlink()
        (lost,) = (verdict for verdict in verify(tmp_path).verdicts if verdict.word == "missing")
        assert f"on {last['task']['name']}, seed {last['seed']}" in lost.cell
