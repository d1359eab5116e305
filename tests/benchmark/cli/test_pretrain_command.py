"""`zoo-bench pretrain` from its command line: overrides, the folder it writes, scoring a checkpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fakes import Cli

from benchmark.data.sources import DataSource
from benchmark.pretraining import texts as command
from zoo.errors import UsageError
from zoo.pretraining.recipe import read_pretrain_recipe

SMALL = "tiny:layers=1:width=32:heads=2:inner=64:held_out_rows=32:batch_rows=4:warmup_steps=1:store=float32"


@pytest.fixture
def text(tmp_path: Path, pocket_sentences: list[str]) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(pocket_sentences), encoding="utf-8")
    return path


def test_recipes_take_overrides_and_name_what_is_wrong() -> None:
    recipe = read_pretrain_recipe("tiny:tie_embeddings=false:steps=7")
    assert (recipe.layers, recipe.tie_embeddings, recipe.steps) == (2, False, 7)
    with pytest.raises(UsageError, match="zoo-mini"):
        read_pretrain_recipe("zoo-mimi")
    with pytest.raises(UsageError, match="steps"):
        read_pretrain_recipe("tiny:step=7")


def test_a_model_is_written_and_scored_again_alike(
    cli: Cli, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    common = ("pretrain", SMALL, "--text", text, "--precision", "fp32")
    done = cli(*common, "--out", tmp_path / "model", "--steps", 3)
    assert done.code == 0, done.err
    facts = json.loads((tmp_path / "model" / "pretraining.json").read_text())
    assert facts["steps"] == 3 and facts["processes"] == 1
    overlap = json.loads((tmp_path / "model" / "overlap.json").read_text())
    assert overlap["excluded"] == facts["excluded_sentences"] and "STS12" in overlap["data_sets_not_found"]
    assert not list((tmp_path / "model" / "training").glob("*.safetensors"))
    scored = cli(*common, "--score", tmp_path / "model")
    assert scored.code == 0, scored.err
    numbers = [re.search(r"accuracy ([\d.]+) %, pseudo-perplexity ([\d.]+)", x.out) for x in (done, scored)]
    assert numbers[0] and numbers[1] and numbers[0].groups() == numbers[1].groups()


def test_either_a_folder_or_a_checkpoint_to_score_is_needed(cli: Cli, text: Path, tmp_path: Path) -> None:
    for more in ((), ("--out", tmp_path / "m", "--score", "zoo-mini")):
        answer = cli("pretrain", SMALL, "--text", text, *more)
        assert answer.code != 0 and "--out" in answer.err and "--score" in answer.err


def test_sentences_that_a_task_tests_are_left_out(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pocket's own test sentences, hidden in a text under another spelling, are not in the token file."""
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    tested, _ = command.tested_sentences(DataSource(None, hub=False))
    assert len(tested) > 500
    from benchmark.tasks import TASKS

    sentences = TASKS.get("pocket-pairs").load(DataSource(None, hub=False)).unlabelled()[:20]
    path = tmp_path / "text.txt"
    others = [f"sentence number {i} stays" for i in range(3000)]
    path.write_text("\n".join([f"{s.upper()} !" for s in sentences] + others))
    done = cli("pretrain", SMALL, "--text", path, "--out", tmp_path / "m", "--steps", 1, "--precision", "fp32")
    assert done.code == 0, done.err
    facts = json.loads((tmp_path / "m" / "pretraining.json").read_text())
    assert facts["excluded_sentences"] == len(sentences) == 20 and facts["sentences"] == 3000
