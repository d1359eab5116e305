"""The speed harness measures what it says: both sides do the same work, and a step waits once in ten."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
from server import run
from transformers import AutoTokenizer

from benchmark.data.sources import DataSource
from benchmark.metrics.probe.protocol import FAST, FULL
from benchmark.tasks.loaded import load_tasks
from zoo.encoder import Runtime
from zoo.errors import UsageError
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

# Beside the packages, so that an installed project has it only where the tests stand in a clone.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from speed.encoding import our_side, peer_side, scores
from speed.epoch import measure as epoch
from speed.gpu import main as gpu
from speed.growth import main
from speed.methods import METHODS, rate
from speed.table import main as table
from speed.transfer import senteval_parameters

pytestmark = pytest.mark.slow


def test_both_sides_make_the_same_vectors_and_scores(minilm: Path) -> None:
    tasks = load_tasks(["pocket-pairs"], DataSource(None, hub=False), 12)
    ours = our_side(str(minilm), "cpu", "fp32")(tasks)
    theirs = peer_side(str(minilm), "cpu", "fp32")(tasks)
    np.testing.assert_allclose(ours["pocket-pairs"], theirs["pocket-pairs"], atol=1e-5)
    assert scores(tasks, ours)["pocket-pairs"] == pytest.approx(scores(tasks, theirs)["pocket-pairs"], abs=1e-6)


def test_an_epoch_is_worked_out_from_steps(tiny_bert: Path) -> None:
    """Two steps of four sentences; six operations a weight, token and pass, SimCSE's passes being two."""
    sentences = [f"sentence number {'very ' * (3 * i)}long" for i in range(20)]
    (spec,) = parse_methods("simcse:batch_size=4", all_recipes())
    row = epoch(spec, sentences, 2, str(tiny_bert), Runtime())
    assert row["sentences"] == 8
    assert row["million_seconds"] == pytest.approx(1e6 / row["sentences_per_second"], rel=0.01)
    tokens = [min(len(ids), 32) for ids in AutoTokenizer.from_pretrained(tiny_bert)(sentences[:8])["input_ids"]]
    assert row["tokens_per_sentence"] == pytest.approx(sum(tokens) / 8, abs=0.01)
    weights = 2 * (4 * 32**2 + 2 * 32 * 64)  # two layers: attention's four maps, and two of 32 x 64
    operations = 2 * 6 * weights * sum(tokens) / 8
    assert row["tflops"] == pytest.approx(operations * row["sentences_per_second"] / 1e12, rel=0.01)
    (spec,) = parse_methods("glove", all_recipes())
    with pytest.raises(UsageError, match="glove does not train on batches"):
        epoch(spec, sentences, 2, None, Runtime())


def test_methods_are_timed_beside_their_passes(tiny_bert: Path) -> None:
    sentences = [f"sentence number {i} is here" for i in range(64)]
    for name, passes in (("cosent", 1.0), ("simcse", 2.0), ("sentence-crops", 0.4), ("cot-bert", 3.0)):
        speed, stated = rate(name, str(tiny_bert), sentences)
        assert speed > 0 and stated == pytest.approx(passes), (name, stated)
    known = all_recipes()
    assert len(parse_methods(METHODS, known)) == 15


def test_on_a_gpu_a_step_casts_weights_together_and_waits_once_in_ten(tmp_path: Path) -> None:
    """One layer, counted on a pretended device."""
    out = tmp_path / "counts.csv"
    command = [sys.executable, "-m", "speed.counts", "--layers", "1", "--batch", "4", "--methods", "simcse,encode,run"]
    root = Path(__file__).resolve().parents[2]
    run([*command, "--out", str(out)], cwd=root, check=True)
    step, batch, whole_run = csv.DictReader(out.open(encoding="utf-8"))
    assert float(step["waits"]) <= 0.1 and float(batch["waits"]) == 0
    assert float(step["kernels"]) < 160 and float(step["casts"]) < 20
    assert float(batch["casts"]) < 4
    # 40 steps are read in four waits; each of four looks, and the texts, wait for what was not read and for vectors.
    assert float(whole_run["waits"]) <= 4 + 4 * 2 + 2


def test_growth_is_printed_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    main.callback(models=20, documents=1_000, queries=100, most=100, sentences=1_000, records=40, plan=16)  # type: ignore[misc]
    sizes = [line.split(" | ")[1] for line in capsys.readouterr().out.splitlines()[3:]]
    assert sizes[:6] == ["5 x 60", "10 x 60", "20 x 60", "100 x 10", "100 x 100", "100 x 1000"]
    assert sizes[6:9] == ["1 texts", "10 texts", "100 texts"]
    assert sizes[9:12] == ["10 sentences", "100 sentences", "1000 sentences"]
    assert sizes[12:] == [*(f"{n} records" for n in (2, 10, 40)), *(f"{n} rows" for n in (1, 4, 16))]


def test_the_table_has_a_line_for_each_work_beside_an_older_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).resolve().parents[2]
    table.callback(old=root, works="help,tokenise", rounds=1)  # type: ignore[misc]
    about, limits, _, _, _, *lines = capsys.readouterr().out.splitlines()
    assert "threads 1" in about and "bf16 product" in limits
    assert [line.split(" | ")[0] for line in lines] == ["| leaderboard --help", "| tokenising 5,000 texts"]
    for line, peer in zip(lines, ("–", "transformers"), strict=True):
        _, ours, before, peers = line.split(" | ")
        assert float(ours) > 0 and float(before.split()[0]) > 0 and peers.startswith(peer)


def test_measurements_of_a_gpu_end_when_their_time_is_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "steps.csv"
    gpu.callback(out=out, old=None, device="cpu", seconds=0.01, tiny=True)  # type: ignore[misc]
    (row,) = csv.DictReader(out.open(encoding="utf-8"))
    assert row["step"] == "warm-up: TFLOP/s of products" and "bf16" in row["values"]
    assert capsys.readouterr().out.count("not measured, the time is over") == 12


def test_senteval_is_given_the_settings_of_our_probes(tmp_path: Path) -> None:
    for setting, fast in ((FULL, False), (FAST, True)):
        given = senteval_parameters(tmp_path, fast=fast)
        assert given["kfold"] == setting.folds
        assert given["task_path"] == str(tmp_path)
        assert given["classifier"] == {
            "nhid": setting.recipe.hidden,
            "optim": setting.recipe.optimiser,
            "batch_size": setting.recipe.batch_size,
            "tenacity": setting.recipe.tenacity,
            "epoch_size": setting.recipe.epoch_size,
        }
