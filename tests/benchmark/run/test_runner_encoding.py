"""What a run encodes, tokenises and logs: each text once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import FAKES, Cli
from test_runner import FAST, records

from benchmark.data.sources import DataSource
from benchmark.run.vectors import VectorStore
from benchmark.tasks.loaded import load_tasks
from zoo.encoder import Corpus, Runtime
from zoo.errors import ContractError

pytestmark = pytest.mark.usefixtures("fakes")


def test_every_unique_text_is_encoded_once() -> None:
    """The store asks for each text once and keeps the order that it is asked in."""
    asked: list[str] = []

    class Counting(FAKES["bag"]):  # type: ignore[misc,valid-type]
        def encode(self, texts: Any) -> Any:
            asked.extend(texts)
            return super().encode(texts)

    encoder = Counting(Counting.Recipe(), Runtime())
    store = VectorStore(encoder, "counting")
    store.add(["a b", "c", "a b"])
    vectors = store(["c", "d e", "a b", "c"])
    assert sorted(asked) == ["a b", "c", "d e"]
    plain = FAKES["bag"](FAKES["bag"].Recipe(), Runtime())
    assert (vectors == plain.encode(["c", "d e", "a b", "c"])).all()


def test_methods_on_one_backbone_tokenise_a_text_once(
    cli: Cli, tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six methods with one limit of length: one tokenizer's work."""
    from zoo.engine import tokens

    tokenised: list[str] = []
    memory, plain = tokens.TokenMemory(), tokens._tokenise
    monkeypatch.setattr("zoo.methods.base.MEMORY", memory)

    def counting(tokenizer: Any, texts: Any, *rest: Any) -> Any:
        tokenised.extend(texts)
        return plain(tokenizer, texts, *rest)

    monkeypatch.setattr(tokens, "_tokenise", counting)
    six = [
        "cls",
        "avg-last",
        "avg-first-last",
        "avg-first-last-h1",
        "avg-top2",
        "whitening:fit_on=target:max_length=null",
    ]
    common = ("--backbone", tiny_bert, "--tasks", "pocket-pairs,pocket-words", "--out", tmp_path, *FAST)
    assert cli("run", "--methods", ",".join(six), *common).code == 0
    assert len(records(tmp_path)) == 12
    assert len(tokenised) == len(set(tokenised)) > 40


def test_dev_texts_are_tokenised_once_in_a_training(
    cli: Cli, tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the dev score is asked for; the task's texts are those of the dev score here."""
    from zoo.engine import tokens

    tokenised: list[str] = []
    memory, plain = tokens.TokenMemory(), tokens._tokenise

    def counting(tokenizer: Any, texts: Any, *rest: Any) -> Any:
        tokenised.extend(texts)
        return plain(tokenizer, texts, *rest)

    monkeypatch.setattr(tokens, "_tokenise", counting)
    monkeypatch.setattr("zoo.methods.base.MEMORY", memory)
    common = ("--backbone", tiny_bert, "--tasks", "pocket-pairs", "--seeds", 1, "--train-sentences", 48, *FAST)
    assert cli("run", "--methods", "simcse:batch_size=8:eval_every=2", *common, "--results", tmp_path).code == 0
    (record,) = records(tmp_path).values()
    assert len(record["training"]["dev_scores"]) == 3
    task = load_tasks(["pocket-pairs"], DataSource(None, hub=False), 20)[0]
    assert task.data is not None
    assert {tokenised.count(text) for text in task.data.texts()} == {1}


def test_the_store_refuses_bad_vectors() -> None:
    """The contract holds inside the store, not only in the probe."""
    with pytest.raises(ContractError, match="NaN"):
        VectorStore(FAKES["some-nan"](FAKES["some-nan"].Recipe(), Runtime()), "x").add(["A zebra"])


def test_a_corpus_is_identified_by_its_sentences() -> None:
    """The corpus's sha256 depends on the sentences and their order, not on its name."""
    shas = {Corpus("x", s).sha256() for s in (["a", "b"], ["b", "a"], ["ab"], ["a"], ["a", "b", ""])}
    assert len(shas) == 5
    assert Corpus("y", ["a", "b"]).sha256() in shas


def test_tensorboard_gets_what_the_log_says(cli: Cli, tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    done = cli(
        "run", "--methods", "simcse:batch_size=16:eval_every=4", "--suite", "pocket", "--seeds", "1", "--limit", "20",
        "--train-sentences", "128", "--results", str(tmp_path / "out"),
        "--tracker", "tensorboard", "--tracker-folder", str(tmp_path / "board"),
    )  # fmt: skip
    assert done.code == 0, done.err
    (folder,) = (tmp_path / "board").iterdir()
    board = accumulators.EventAccumulator(str(folder))
    board.Reload()
    log = next((tmp_path / "out" / "encoders").glob("*/training/log.jsonl"))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    settings = next(folder.glob("*/hparams.yml")).read_text(encoding="utf-8")
    assert "batch_size: 16\n" in settings and "temperature: 0.05\n" in settings
    for name in ("loss", "dev_score", "alignment", "uniformity"):
        wanted = [(line["step"], line[name]) for line in lines if name in line]
        seen = [(event.step, event.value) for event in board.Scalars(f"training/{name}")]
        assert [step for step, _ in seen] == [step for step, _ in wanted] != []
        assert [value for _, value in seen] == pytest.approx([value for _, value in wanted], rel=1e-6)
