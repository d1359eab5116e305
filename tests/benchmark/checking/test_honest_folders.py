"""Results that nobody edited are verified, however their folder came to be; `test_bound*` has what is refused."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

import benchmark
from benchmark.checking.verify import verify
from benchmark.cli.main import main
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


# Without a training, of random vectors, fitted to texts, trained; the last one collapses at a large rate.
METHODS = f"bag-of-words:dim=64,random:dim=64,whitening:k=8,{TRAINED}"
COLLAPSED = METHODS.replace("1e-2", "3:pooler=avg")


@dataclass(frozen=True)
class World:
    """A backbone that is given by its folder, rows of two seeds, and the precision that they are measured in."""

    folder: Path
    backbone: Path
    methods: str = METHODS
    precision: str = "fp32"

    def measure(self, name: str = "results", methods: str = "", tasks: str = TASKS, **more: Any) -> Path:
        options: dict[str, Any] = {"backbone": str(self.backbone), "train_sentences": 40, "limit": 40, "seeds": 2}
        options |= {"results": self.folder / name, "precision": self.precision, "device": "cpu", "quiet": True, **more}
        benchmark.evaluate(methods or self.methods, tasks=tasks, **options)
        return self.folder / name


def fresh(world: World) -> Path:
    return world.measure()


def resumed(world: World) -> Path:
    """The second task is measured later, with the encoders that were kept."""
    world.measure(tasks="pocket-pairs")
    return world.measure()


def packed(world: World) -> Path:
    """Twice: of a folder that was packed, and goes on."""
    pack(world.measure(tasks="pocket-pairs"))
    pack(world.measure())
    return world.folder / "results"


def moved(world: World) -> Path:
    """To another folder, with a name of its own, as somebody unpacks it."""
    return shutil.move(world.measure(), world.folder / "sent by somebody")


def of_two_machines(world: World) -> Path:
    names = world.methods.split(",")
    for name, methods in (("a", names[:2]), ("b", names[2:])):
        shutil.copytree(world.measure(name, ",".join(methods)), world.folder / "both", dirs_exist_ok=True)
    return world.folder / "both"


def sharded(world: World) -> Path:
    """Each part of the encoders in a folder of its own; then they are joined and packed."""
    for part in ("1/2", "2/2"):
        words = ["run", "--methods", world.methods, "--tasks", TASKS, "--backbone", str(world.backbone), "--seeds", "2"]
        words += ["--train-sentences", "40", "--limit", "40", "--precision", world.precision, "--device", "cpu"]
        words += ["--no-controls", "--shard", part, "--results", str(world.folder / part[0])]
        with pytest.raises(SystemExit, match=r"^0$"):
            main(words)
        shutil.copytree(world.folder / part[0], world.folder / "both", dirs_exist_ok=True)
    pack(world.folder / "both")
    return world.folder / "both"


def cached(world: World) -> Path:
    """Vectors of the first folder are those of the second, whose encoders are its own."""
    world.measure("first", embedding_cache=1.0)
    return world.measure(embedding_cache=1.0)


def joined(world: World) -> Path:
    """The records of one run beside the encoders of another, whose trainings took another time."""
    first, second = (world.measure(name) for name in "ab")
    shutil.rmtree(first / "encoders")
    shutil.copytree(second / "encoders", first / "encoders")
    for path in (first / "encoders").glob("*/fit.json"):
        fit = read_signed(path)
        write_signed(path, {**fit, "training": {**fit["training"], "seconds": fit["training"]["seconds"] + 1}})
    return first


WAYS = (fresh, resumed, packed, moved, of_two_machines, sharded, cached, joined)
PRODUCT = [*itertools.product(WAYS, ("fp32", "bf16"), (METHODS, COLLAPSED))]
# One of each value of each dimension is quick.
QUICK = [(moved, "bf16", METHODS), (packed, "fp32", COLLAPSED)]


@pytest.mark.parametrize(
    ("way", "precision", "methods"),
    [
        pytest.param(
            *case,
            id=f"{case[0].__name__}-{case[1]}-{'collapsed' if case[2] == COLLAPSED else 'trained'}",
            marks=[] if case in QUICK else pytest.mark.slow,
        )
        for case in PRODUCT
    ],
)
def test_a_folder_that_nobody_edited_is_verified(
    way: Callable[[World], Path], precision: str, methods: str, tmp_path: Path, tiny_bert: Path
) -> None:
    """Whatever its rows are, whichever precision they have, and however it came to be: no accusation."""
    verified = verify(way(World(tmp_path, tiny_bert, methods, precision)), weights=[tiny_bert])
    assert {verdict.word for verdict in verified.verdicts} == {"verified"}, str(verified)
    assert verified.exit_code() == 0 and len(verified.verdicts) == 2 * (1 + 2 + 1 + 2)


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
