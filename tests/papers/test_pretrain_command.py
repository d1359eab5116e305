"""`zoo-bench pretrain` from its command line: overrides, the folder it writes; and tools/pretrain_vectors.py."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from fakes import Cli
from transformers import AutoTokenizer

from benchmark.data.sources import DataSource
from zoo.errors import UsageError
from zoo.tensors import read_tensors
from zoo_bench_papers.pretraining import texts as command
from zoo_bench_papers.pretraining.recipe import read_pretrain_recipe

pytestmark = pytest.mark.slow

SMALL = "tiny:layers=1:width=32:heads=2:inner=64:held_out_rows=32:batch_rows=4:warmup_steps=1"


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
    done = cli("pretrain", SMALL, "--text", path, "--out", tmp_path / "m", "--steps", 70, "--precision", "fp32")
    assert done.code == 0, done.err
    facts = json.loads((tmp_path / "m" / "pretraining.json").read_text())
    assert len(sentences) == 20 and facts["excluded_sentences"] == len(tested)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "m")
    assert facts["rows"] == sum(len(tokenizer(text)["input_ids"]) - 1 for text in others) // 62


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tiny:begin_from=/no/such", "--out", "m"], "/no/such"),
        (["tiny:tokenizer=no-such-thing", "--out", "m"], "no-such-thing"),
        (["tiny", "--out", "/proc/no/folder"], "/proc/no"),
        (["tiny", "--out", "m", "--text", "no-such-text"], "no-such-text"),
        (["tiny:width=7", "--out", "m"], "multiple of the"),
    ],
)
def test_names_are_looked_up_before_any_text_is_read(
    cli: Cli, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    def read(*_: object) -> None:
        raise AssertionError("the text was read first")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "tested_sentences", read)
    answer = cli("pretrain", *arguments, "--text", text)
    assert answer.code != 0 and message in answer.err
    assert answer.err.count("\n") == 1, "one sentence"


def test_the_card_has_the_line_that_makes_the_model_again(
    cli: Cli, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(text.parent)
    first = cli("pretrain", SMALL, "--text", "text.txt", "--precision", "fp32", "--out", "long", "--steps", 3)
    assert first.code == 0, first.err
    card = (tmp_path / "long" / "README.md").read_text()
    line = next(row.strip() for row in card.splitlines() if row.startswith("    zoo-bench pretrain"))
    shutil.move(tmp_path / "long", tmp_path / "first")
    again = cli(*shlex.split(line)[1:], "--precision", "fp32")
    assert again.code == 0, again.err
    a, b = (read_tensors(tmp_path / name / "model.safetensors")[0] for name in ("first", "long"))
    assert a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def pretrained(*arguments: object) -> Result:
    from tools.pretrain_vectors import main

    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_vectors_are_trained_and_have_rows(
    cli: Cli, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the cache by their recipes, and from any file; equal when made again; gensim reads back the same numbers."""
    models = pytest.importorskip("gensim.models")
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    missing = cli("run", "--methods", "word2vec-wiki", "--results", tmp_path / "r0")
    assert missing.code != 0 and "tools.pretrain_vectors word2vec --text wiki" in missing.err + missing.out
    common = ("--text", text, "--dim", 12, "--epochs", 1, "--least-count", 3)
    for kind in ("word2vec", "fasttext"):
        assert pretrained(kind, *common).exit_code == 0
    path = tmp_path / "own.vec"
    assert pretrained("word2vec", *common, "--out", path).exit_code == 0
    facts = json.loads(path.with_suffix(".json").read_text())
    read = models.KeyedVectors.load_word2vec_format(str(path))
    cached = models.KeyedVectors.load_word2vec_format(
        str(tmp_path / "cache" / "vectors" / "zoo-word2vec.bin"), binary=True
    )
    assert read.index_to_key == cached.index_to_key and len(read.index_to_key) == facts["words"]
    assert abs(read.vectors - cached.vectors).max() < 1e-6, "the same numbers, and in decimals"
    methods = f"word2vec-wiki,fasttext-wiki,wordvectors:split=marks:path={path}"
    run = cli("run", "--methods", methods, "--suite", "pocket", "--results", tmp_path / "results")
    assert run.code == 0, run.err
    rows = json.loads((tmp_path / "results" / "pocket.json").read_text())["rows"]
    scores = {row["method"].partition(":")[0]: row["average"]["mean"] for row in rows}
    assert set(scores) == {"word2vec-wiki", "fasttext-wiki", "wordvectors"}
    assert scores["word2vec-wiki"] == pytest.approx(scores["wordvectors"], abs=1e-3)
    assert scores["fasttext-wiki"] != scores["word2vec-wiki"]
