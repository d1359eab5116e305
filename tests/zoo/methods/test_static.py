"""Static averages against a slow re-implementation of docs/methods.md that works on token strings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import UsageError
from zoo.methods.static import STAGES, Static
from zoo.methods.static_lists import FREQUENT_BERT, FREQUENT_ROBERTA, PUNCTUATION_BERT

GOLDEN = {"static": {"version": 1, "values": [-0.6041, 0.0642, -0.2176, -1.0, 0.3746, -0.6271, -1.0, 0.7534]}}

# Typed from docs/methods.md, apart from the package's own lists.
FREQ36 = """. a the in , is to of and ' on man - s with for " at ##s woman are it two that you dog said playing
i an as was from : by white""".split()
FREQ_R = [
    "Ġ.", "Ġa", "Ġthe", "Ġin", "a", "Ġ, ", "Ġis", "Ġto", "Ġof", "Ġand", "Ġon", "Ġ'", "s", ".", "the", "Ġman", "-",
    "Ġwith", "Ġfor", "Ġat", "Ġwoman", "Ġare", 'Ġ"', "Ġthat", "Ġit", "Ġdog", "Ġsaid", "Ġplaying", "Ġwas", "Ġas", "Ġfrom",
    "Ġ:", "Ġyou", "Ġan", "i", "Ġby",
]  # fmt: skip
PUNCTUATION = ["[UNK]", *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|~", *"´’…‚¿–»€‘•”£“™—"]

TEXTS = [
    "A man is playing a guitar on the street.",
    "The Dog said : unbelievable, unquestionably!",
    "A white dog",  # BERT: nothing is left
    "the .",
    "'s , - .",
    "Electroencephalography & photosynthesis (2019) cost £3 – no, €4…",
    "Two women talk with 日本 friends ™ … } {",
    "  spaced   out  ",
    "",
]


def slow_vector(folder: Path, text: str, stage: str, roberta: bool) -> np.ndarray:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    embeddings = next(tensor for name, tensor in weights.items() if name.endswith("word_embeddings.weight"))

    def mean(tokens: list[str]) -> np.ndarray:
        return np.mean([embeddings[tokenizer.convert_tokens_to_ids(t)].astype(np.float64) for t in tokens], axis=0)

    if stage == "none":
        return mean([tokenizer.cls_token, *tokenizer.tokenize(text), tokenizer.sep_token])
    tokens = tokenizer.tokenize(" " + text)
    tokens = [t for t in tokens if t not in (FREQ_R if roberta else FREQ36)]
    if "sub" in stage:
        tokens = [t for t in tokens if ("Ġ" in t if roberta else "##" not in t)]
    if "pun" in stage:
        if roberta:
            tokens = [t for t in tokens if any(c.isascii() and c.isalnum() for c in t)]
        else:
            tokens = [t for t in tokens if t not in PUNCTUATION]
    if "case" in stage:
        if roberta:
            again = " "
            for token in tokens:
                again += token.replace("Ġ", "").lower() + " "
        else:
            again = " ".join(t.lower() for t in tokens) or "[PAD]"
        tokens = tokenizer.tokenize(again)
    return mean(tokens or (["Ġ"] if roberta else ["[PAD]"]))


@pytest.mark.parametrize("stage", ["none", "freq"])
def test_a_text_alone_has_the_vector_that_it_has_among_many(tiny_bert: Path, stage: str) -> None:
    encoder = Static(Static.Recipe(backbone=str(tiny_bert), remove=stage), Runtime())
    texts = [*TEXTS, *(" ".join(TEXTS[:count]) for count in range(len(TEXTS)))]
    together = encoder.encode(texts)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_array_equal(encoder.encode([text])[0], vector)


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("backbone", ["tiny_bert", "tiny_cased", "tiny_roberta"])
def test_every_stage_equals_the_slow_definition(backbone: str, stage: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(backbone)
    vectors = Static(Static.Recipe(backbone=str(folder), remove=stage), Runtime()).encode(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(
            vector, slow_vector(folder, text, stage, backbone == "tiny_roberta"), atol=1e-6, err_msg=repr(text)
        )


def test_a_capital_survives_freq_only_in_a_cased_vocabulary(tiny_bert: Path, tiny_cased: Path) -> None:
    """docs/methods.md: matching is case-sensitive and precedes lowering."""
    assert AutoTokenizer.from_pretrained(tiny_cased).tokenize("A dog") == ["A", "dog"]
    for folder, same in ((tiny_bert, True), (tiny_cased, False)):
        vectors = Static(Static.Recipe(backbone=str(folder), remove="freq"), Runtime()).encode(["A cat", "cat"])
        assert np.allclose(vectors[0], vectors[1]) is same


def row(folder: Path, token: str) -> Any:
    weights = load_file(folder / "model.safetensors")
    embeddings = next(tensor for name, tensor in weights.items() if name.endswith("word_embeddings.weight"))
    return embeddings[AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(token)]


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_text_with_nothing_left_is_pad_for_bert(tiny_bert: Path, stage: str) -> None:
    vectors = Static(Static.Recipe(backbone=str(tiny_bert), remove=stage), Runtime()).encode(
        ["the dog is on a man .", ""]
    )
    np.testing.assert_allclose(vectors, np.stack([row(tiny_bert, "[PAD]")] * 2), atol=1e-7)


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_text_with_nothing_left_is_the_lone_blank_for_roberta(tiny_roberta: Path, stage: str) -> None:
    vectors = Static(Static.Recipe(backbone=str(tiny_roberta), remove=stage), Runtime()).encode(["the man is", ""])
    np.testing.assert_allclose(vectors, np.stack([row(tiny_roberta, "Ġ")] * 2), atol=1e-7)


def test_lists_are_those_of_the_released_code() -> None:
    assert (len(FREQUENT_BERT), len(FREQUENT_ROBERTA), len(PUNCTUATION_BERT)) == (36, 36, 47)
    assert set(FREQUENT_BERT) == set(FREQ36)
    assert set(FREQUENT_ROBERTA) == set(FREQ_R)
    assert set(PUNCTUATION_BERT) == set(PUNCTUATION)
    assert "}" not in PUNCTUATION_BERT and "Ġ," not in FREQUENT_ROBERTA


@pytest.mark.slow
def test_another_vocabulary_is_refused_where_tokens_go(copied: Path) -> None:
    path = copied / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"##s"', '"##§s"'), encoding="utf-8")
    with pytest.raises(UsageError, match="remove: none"):
        Static(Static.Recipe(backbone=str(copied), remove="freq"), Runtime())
    assert Static(Static.Recipe(backbone=str(copied)), Runtime()).encode(["a dog"]).shape == (1, 32)


def masked_model(folder: Path, out: Path, *, tied: bool) -> Any:
    torch.manual_seed(0)
    config = BertConfig.from_pretrained(folder, tie_word_embeddings=tied)
    model = BertForMaskedLM(config)
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(folder).save_pretrained(out)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
def test_the_output_matrix_is_the_mlm_heads_rows(tiny_bert: Path, tmp_path: Path, tied: bool) -> None:
    model = masked_model(tiny_bert, tmp_path / "m", tied=tied)
    ids = AutoTokenizer.from_pretrained(tiny_bert)(TEXTS[0])["input_ids"]
    of = {
        matrix: Static(Static.Recipe(backbone=str(tmp_path / "m"), matrix=matrix), Runtime()).encode([TEXTS[0]])[0]
        for matrix in ("input", "output")
    }
    head = model.cls.predictions.decoder.weight.detach().numpy()
    np.testing.assert_allclose(of["output"], head[ids].mean(axis=0), atol=1e-6)
    assert np.allclose(of["input"], of["output"]) is tied


def counted(folder: Path, sentences: list[str], number: int) -> list[str]:
    """The most frequent tokens by the tokenizer's own strings; equal counts in the order of the vocabulary."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    counts = Counter(token for s in sentences for token in tokenizer.tokenize(" " + s))
    return sorted(counts, key=lambda t: (-counts[t], tokenizer.convert_tokens_to_ids(t)))[:number]


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["tiny_bert", "tiny_roberta"])
def test_a_list_counted_in_a_corpus_stands_for_the_papers(
    backbone: str, request: pytest.FixtureRequest, pocket_sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, corpus = request.getfixturevalue(backbone), Corpus("pocket", pocket_sentences[:200])
    tokens = counted(folder, pocket_sentences[:200], 12)
    monkeypatch.setitem(globals(), "FREQ_R" if backbone == "tiny_roberta" else "FREQ36", tokens)
    for stage in ("freq", "freq-sub-case-pun"):
        encoder = Static(Static.Recipe(backbone=str(folder), remove=stage, frequent=12), Runtime())
        report = encoder.fit(corpus, run=Run())
        assert report.fitted and report.facts == {"frequent": sorted(tokens)}
        for text, vector in zip(TEXTS, encoder.encode(TEXTS), strict=True):
            wanted = slow_vector(folder, text, stage, backbone == "tiny_roberta")
            np.testing.assert_allclose(vector, wanted, atol=1e-6, err_msg=repr(text))


def test_a_text_with_nothing_left_is_covered_unless_pad_is_zero(tiny_bert: Path) -> None:
    """BertModel starts [PAD] at zero; a trained checkpoint has a vector there, and the paper's code uses it."""
    encoder = Static(Static.Recipe(backbone=str(tiny_bert), remove="freq"), Runtime())
    assert not encoder.vectors[0].any()
    assert encoder.covers(["a dog", "a cat"]).tolist() == [False, True]
    encoder.vectors = encoder.vectors + 1
    assert encoder.covers(["a dog", "a cat"]).tolist() == [True, True]
