"""Pretraining: packed rows, starts, every shape as a backbone, and a killed training that ends bit-equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_pretraining import POCKET, SHAPES, SMALL, TEXTS, same, train, weights
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer, Trainer

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone, find_backbone
from zoo.engine.heads import mlm_head
from zoo.errors import UsageError
from zoo_bench_papers.pretraining.pretrain import predictions
from zoo_bench_papers.pretraining.texts import PlainTexts, packed_rows, split_rows


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A few steps of each architecture."""
    folders_by_shape = {name: tmp_path_factory.mktemp(name) / "model" for name in SHAPES}
    for name, recipe in SHAPES.items():
        train(folders_by_shape[name], recipe)
    return folders_by_shape


def test_rows_are_the_untested_sentences_in_order() -> None:
    tokenizer = AutoTokenizer.from_pretrained(find_backbone("zoo-mini").folder)
    lines = POCKET.read_text(encoding="utf-8").splitlines()
    tested = PlainTexts([POCKET], TEXTS.read, frozenset(line.lower() for line in lines[:7]), str.lower)
    rows = packed_rows(tested, tokenizer, 16)["input_ids"]
    stream = [i for line in lines[7:] if line.lower() not in tested.exclude for i in tokenizer(line)["input_ids"][1:]]
    rows = np.asarray(rows)
    assert rows[:, 1:-1].ravel().tolist() == stream[: rows.shape[0] * 14] and len(stream) - rows.shape[0] * 14 < 14
    assert set(rows[:, 0]) == {tokenizer.cls_token_id} and set(rows[:, -1]) == {tokenizer.sep_token_id}


@pytest.mark.parametrize("words", [0, 1, 12])
def test_a_text_shorter_than_a_row_is_refused(words: int, tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("dog " * words, encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(find_backbone("zoo-mini").folder)
    texts = PlainTexts([path], TEXTS.read)
    with pytest.raises(UsageError, match="shorter than one row of 16 tokens"):
        packed_rows(texts, tokenizer, 16)


def test_of_a_long_text_the_first_rows_are_read_alone() -> None:
    """As for `--steps 10`: ten steps' worth of rows, equal to the first of all."""
    lines, tokenizer = TEXTS.read(POCKET) * 40, AutoTokenizer.from_pretrained(find_backbone("zoo-mini").folder)
    read: list[str] = []

    def reading(path: Path) -> Iterator[str]:
        for line in lines:
            read.append(line)
            yield line

    few = packed_rows(PlainTexts([POCKET], reading), tokenizer, 16, 100)
    assert len(few) == 100 and 0 < len(read) < len(lines)
    np.testing.assert_array_equal(few["input_ids"], packed_rows(TEXTS, tokenizer, 16)[:100]["input_ids"])


def test_held_out_rows_come_from_all_over() -> None:
    rows = packed_rows(TEXTS, AutoTokenizer.from_pretrained(find_backbone("zoo-mini").folder), 16)
    training, held = split_rows(rows.add_column("number", np.arange(len(rows))), 96)
    numbers = np.asarray(held["number"])
    assert len(np.intersect1d(training["number"], numbers)) == 0 and len(training) + len(held) == len(rows)
    assert len(held) == 96 and numbers.min() == 0 and numbers.max() == len(rows) - 1
    with pytest.raises(UsageError, match="held_out_rows"):
        split_rows(rows, len(rows))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_folder_is_the_librarys_own_and_a_backbone(shape: str, folders: dict[str, Path]) -> None:
    kind = AutoModelForCausalLM if shape == "gpt2" else AutoModelForMaskedLM
    model, loading = kind.from_pretrained(folders[shape], dtype=torch.float32, output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"] and model.config.model_type == shape
    assert 0.1 in (getattr(model.config, "hidden_dropout_prob", None), getattr(model.config, "resid_pdrop", None))
    backbone = Backbone.load(str(folders[shape]), None, Runtime())
    ids = torch.randint(10, 290, (2, 9))
    with torch.no_grad():
        states = backbone.model(input_ids=ids).last_hidden_state
        logits = model.lm_head(states) if shape == "gpt2" else mlm_head(backbone.source, Runtime())(states)
        torch.testing.assert_close(logits, model(input_ids=ids).logits, atol=1e-5, rtol=1e-5)
    assert backbone.max_length == 512
    assert "zoo-bench pretrain ..." in (folders[shape] / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_the_loss_is_the_librarys(shape: str, folders: dict[str, Path]) -> None:
    """The head at labelled positions only gives the loss of the whole forward."""
    kind = AutoModelForCausalLM if shape == "gpt2" else AutoModelForMaskedLM
    model = kind.from_pretrained(folders[shape]).eval()
    ids = torch.randint(10, 290, (4, 14), generator=torch.Generator().manual_seed(2))
    labels = ids if shape == "gpt2" else ids.masked_fill(torch.arange(14) % 5 > 0, -100)
    logits, truth = predictions(model, ids, labels)
    loss = torch.nn.functional.cross_entropy(logits, truth)
    assert loss.item() == pytest.approx(model(input_ids=ids, labels=labels).loss.item(), rel=1e-5)


@pytest.mark.slow
def test_a_killed_training_ends_bit_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while a checkpoint is half written: the last whole checkpoint is taken, the cut one is not."""
    long = replace(SMALL, steps=20, dropout=0.1)
    train(tmp_path / "whole", long, every=3)
    saved = Trainer._save_rng_state

    def cut(self: Trainer, folder: str) -> None:
        if self.state.global_step == 9:
            raise KeyboardInterrupt
        saved(self, folder)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_save_rng_state", cut)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "cut", long, every=3)
    assert (tmp_path / "cut" / "training" / "checkpoint-9").exists()
    facts = train(tmp_path / "cut", long, every=3)
    assert facts["resumed_at"] == 6 and facts["steps"] == 20
    assert same(tmp_path / "whole", tmp_path / "cut")
    assert not (tmp_path / "cut" / "training").exists()
    assert train(tmp_path / "cut", long) == facts, "a finished training is not repeated"
    with pytest.raises(UsageError, match="another recipe"):
        train(tmp_path / "cut", SMALL)


@pytest.mark.slow
def test_it_goes_on_from_an_ancestor(folders: dict[str, Path], tmp_path: Path) -> None:
    """With a rate near 0 the weights are the ancestor's, in any shape that the recipe says."""
    recipe = replace(SMALL, begin_from=str(folders["roberta"]), layers=9, steps=1, learning_rate=1e-30)
    facts = train(tmp_path / "model", recipe)
    # A folder named `model` says nothing: its parent's name stands before it.
    ancestor = "/".join(folders["roberta"].parts[-2:])
    assert facts["model"]["layers"] == 2 and facts["ancestry"] == {"ancestors": [ancestor], "labelled": []}
    before, after = weights(folders["roberta"]), weights(tmp_path / "model")
    assert all(torch.allclose(before[name], after[name]) for name in before)
