"""`zoo-bench pretrain` from its command line: overrides, the folder it writes, scoring a checkpoint."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import torch
from fakes import Cli

from benchmark.data.sources import DataSource
from benchmark.pretraining import texts as command
from zoo.errors import UsageError
from zoo.pretraining.recipe import read_pretrain_recipe

pytestmark = pytest.mark.slow

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
    assert facts["steps"] == 3
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


BPE = (
    "zoo-mini-roberta:vocabulary=400:layers=1:width=16:heads=2:inner=32:row_length=16:batch_rows=4:held_out_rows=32"
    ":warmup_steps=2:decay_steps=4:eval_every=4:store=float32"
)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tiny:begin_from=/no/such", "--out", "m"], "/no/such"),
        (["tiny:tokenizer=no-such-thing", "--out", "m"], "no-such-thing"),
        (["tiny:teacher=/no/such:vocabulary_loss=full", "--out", "m"], "/no/such"),
        (["tiny", "--out", "/proc/no/folder"], "/proc/no"),
        (["tiny", "--score", "/no/such"], "/no/such"),
        (["tiny", "--out", "m", "--text", "no-such-text"], "no-such-text"),
        (["tiny:width=7", "--out", "m"], "multiple of the"),
    ],
)
def test_names_are_looked_up_before_any_text_is_read(
    cli: Cli, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    def read(*_: object) -> None:
        raise AssertionError("the text was read first")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "tested_sentences", read)
    answer = cli("pretrain", *arguments, "--text", text)
    assert answer.code != 0 and said in answer.err
    assert answer.err.count("\n") == 1, "one sentence"


def test_a_missing_data_set_says_what_that_means(cli: Cli, text: Path, tmp_path: Path) -> None:
    done = cli("pretrain", SMALL, "--text", text, "--out", tmp_path / "m", "--steps", 1, "--precision", "fp32")
    assert done.code == 0 and "not on this machine, so their sentences stay in the text if it has them:" in done.err


def test_the_card_has_the_line_that_makes_the_model_again(
    cli: Cli, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept on the way, finished early; the line of the card, typed elsewhere, gives the same weights at one go."""
    from zoo.files import read_tensors

    monkeypatch.chdir(text.parent)
    common = ("pretrain", BPE, "--text", "text.txt", "--precision", "fp32")
    first = cli(*common, "--out", "long", "--steps", 20, "--keep-at", "500", "--keep-state")
    assert first.code == 0, first.err
    kept = tmp_path / "long" / "kept" / "long-500"
    done = cli(*common, "--out", kept, "--finish", 3)
    assert done.code == 0, done.err
    card = (kept / "README.md").read_text()
    line = next(row.strip() for row in card.splitlines() if row.startswith("    zoo-bench pretrain"))
    assert (
        json.loads((kept / "pretraining.json").read_text())["resumed"] == 1
        and "| resumed | 1 times, at steps 8 |" in card
    )
    other = tmp_path / "elsewhere"
    other.mkdir()
    monkeypatch.chdir(other)
    (other / "text.txt").write_text(text.read_text())
    assert "kept" not in line
    again = cli(*shlex.split(line)[1:], "--precision", "fp32")
    assert again.code == 0, again.err
    a, _ = read_tensors(kept / "model.safetensors")
    b, _ = read_tensors(other / "long-500" / "model.safetensors")
    assert a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
    assert json.loads((other / "long-500" / "pretraining.json").read_text())["steps"] == 11


def test_help_says_how_values_are_changed(cli: Cli) -> None:
    assert "zoo-mini:steps=3000:learning_rate=5e-4" in cli("pretrain", "--help").out
    assert "NAME:key=value:key=value" in " ".join(cli("run", "--help").out.split())


def test_numbers_of_tokens_are_read(cli: Cli) -> None:
    from benchmark.cli.pretrain import TokenCounts

    assert TokenCounts().convert("30M, 1500k,7", None, None) == (7, 1_500_000, 30_000_000)
    wrong = cli("pretrain", "tiny", "--out", "m", "--keep-at", "1M,some")
    assert wrong.code == 2 and "1M,30M,500K" in wrong.err


def test_vectors_are_trained_and_have_rows(
    cli: Cli, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the cache by their recipes, and from any file; equal when made again; gensim reads back the same numbers."""
    models = pytest.importorskip("gensim.models")
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    missing = cli("run", "--methods", "word2vec-wiki", "--results", tmp_path / "r0")
    assert missing.code != 0 and "zoo-bench pretrain-vectors word2vec --text wiki" in missing.err + missing.out
    common = ("--text", text, "--dim", 12, "--epochs", 1, "--least-count", 3)
    for kind in ("word2vec", "fasttext"):
        assert cli("pretrain-vectors", kind, *common).code == 0
    path = tmp_path / "own.vec"
    done = cli("pretrain-vectors", "word2vec", *common, "--out", path)
    assert done.code == 0, done.err
    facts = json.loads(path.with_suffix(".json").read_text())
    assert facts["command"].endswith("--text text.txt --dim 12 --epochs 1 --least-count 3 --out own.vec")
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


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [("one line only", "v.vec", "nothing to train"), ("words " * 50, "v.npz", ".vec or .txt")],
)
def test_vectors_of_nothing_are_refused(cli: Cli, tmp_path: Path, content: str, name: str, said: str) -> None:
    pytest.importorskip("gensim", reason="pip install 'zoo-bench[vectors]'")
    (tmp_path / "t.txt").write_text(content)
    answer = cli("pretrain-vectors", "word2vec", "--text", tmp_path / "t.txt", "--out", tmp_path / name)
    assert answer.code == 2 and said in answer.err and not (tmp_path / name).exists()
