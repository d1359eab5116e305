"""Backbones that only the tests of `zoo` need, made from the tiny BERT."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import architectures
import pytest
from fakes import fixed_bert


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of the golden vectors."""
    return fixed_bert(tmp_path_factory.mktemp("fixed") / "bert")


@pytest.fixture(scope="session")
def tiny_cased(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny BERT with a tokenizer that keeps case; unused ids became the capitalised words of the tests."""
    folder = tmp_path_factory.mktemp("cased") / "tiny-cased"
    shutil.copytree(tiny_bert, folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokenizer["normalizer"]["lowercase"] = False
    tokenizer["normalizer"]["strip_accents"] = False
    vocabulary = tokenizer["model"]["vocab"]
    for number, word in enumerate(["A", "The", "Dog", "Is", "On"]):
        vocabulary[word] = vocabulary.pop(f"[unused{number}]")
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    config_path = folder / "tokenizer_config.json"
    config = json.loads(config_path.read_text(encoding="utf-8"))
    config["do_lower_case"] = False
    config_path.write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture
def copied(tiny_bert: Path, tmp_path: Path) -> Path:
    """A copy of the tiny BERT that a test may damage."""
    return Path(shutil.copytree(tiny_bert, tmp_path / "copied"))


@pytest.fixture(scope="session")
def word_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Word vectors in GloVe's form, 8 wide: the words of the conformance check's sentences, their marks apart."""
    import numpy as np

    from zoo.check import PROBES, _toy_corpus

    text = " ".join([*PROBES, *_toy_corpus().sentences]).lower()
    words = sorted(set(text.replace(".", " . ").replace(",", " , ").replace("?", " ? ").split()))
    rows = np.random.default_rng(0).normal(size=(len(words), 8))
    path = tmp_path_factory.mktemp("words") / "toy.8d.txt"
    lines = [" ".join([word, *(f"{x:.5f}" for x in row)]) for word, row in zip(words, rows, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_mlm(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny BERT's shape with a masked-language-model head, random weights."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    folder = tmp_path_factory.mktemp("mlm") / "tiny-mlm"
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig.from_pretrained(tiny_bert)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def architecture(
    tiny_bert: Path, tiny_roberta: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """What makes the folder of a tiny checkpoint of one architecture, once."""
    root = tmp_path_factory.mktemp("architectures")
    return cache(lambda name: architectures.make(name, root / name, tiny_bert, tiny_roberta))


@pytest.fixture(scope="session")
def vivid_bert(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT with an MLM head, whose weights are large enough to tell sentences and places apart.

    Where all vectors are nearly equal, gradients are rounding errors, which Adam makes steps of.
    """
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    folder = tmp_path_factory.mktemp("vivid") / "vivid-bert"
    torch.manual_seed(0)
    config = BertConfig(**{**BertConfig.from_pretrained(tiny_bert).to_dict(), "initializer_range": 0.3})
    BertForMaskedLM(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder)
    return folder
