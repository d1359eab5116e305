"""What a run encodes and logs: each text once; what it tokenises: each word once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import FAKES, Cli
from test_runner import FAST, records

from benchmark.run.vectors import VectorStore
from zoo.encoder import Runtime
from zoo.errors import ContractError

pytestmark = pytest.mark.usefixtures("fakes")


def test_methods_on_one_backbone_tokenise_a_word_once(
    cli: Cli, tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six methods with one limit of length: one tokenizer's work."""
    from zoo.engine import tokens

    tokenised: list[str] = []
    plain = tokens.ChunkTokens._tokenised
    monkeypatch.setattr(tokens, "MEMORY", tokens.TokenMemory())
    monkeypatch.setattr(tokens, "_FEW", 0)

    def counting(road: tokens.ChunkTokens, texts: Sequence[str], *rest: Any) -> tokens.TokenTable:
        tokenised.extend(texts)
        return plain(road, texts, *rest)

    monkeypatch.setattr(tokens.ChunkTokens, "_tokenised", counting)
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


def test_the_store_refuses_bad_vectors() -> None:
    """The contract holds inside the store, not only in the probe."""
    with pytest.raises(ContractError, match="NaN"):
        VectorStore(FAKES["some-nan"](FAKES["some-nan"].Recipe(), Runtime()), "x").add(["A zebra"])


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
