"""The pooler "sif": each token weighs a / (a + p), p counted in the training text, in training and at test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import zoo
from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import ContractError
from zoo.methods.moco import MoCo
from zoo.methods.pooled import Average
from zoo.methods.simcse import SimCSE
from zoo.methods.twoviews import TwoViews

TEXTS = [f"The {a} is near the {b}." for a in "river lamp train garden".split() for b in "sea map town".split()]
CORPUS = Corpus("toy", TEXTS)


def weights_of(tokenizer: object, a: float) -> dict[int, float]:
    counts = Counter(i for text in TEXTS for i in tokenizer(text)["input_ids"])  # type: ignore[operator]
    total = sum(counts.values())
    return {i: a / (a + count / total) for i, count in counts.items()}


def expected(folder: Path, texts: list[str], a: float) -> np.ndarray:
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    weights, rows = weights_of(tokenizer, a), []
    for text in texts:
        encoded = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            states = model(**encoded).last_hidden_state[0].double().numpy()
        token_weights = np.array([weights.get(int(i), 1.0) for i in encoded["input_ids"][0]])
        rows.append(token_weights @ states / token_weights.sum())
    return np.array(rows)


def test_the_mean_is_weighted_by_counts_of_the_training_text(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = Average(Average.Recipe(backbone=str(tiny_bert), layers="sif", sif_a=0.01), Runtime())
    plain = Average(Average.Recipe(backbone=str(tiny_bert)), Runtime())
    texts = [*TEXTS[:3], "a word that is not in them", "river"]
    assert np.allclose(encoder.encode(texts), plain.encode(texts), atol=1e-6)  # until tokens are counted
    assert encoder.fit(CORPUS, run=Run()).fitted
    wanted = expected(tiny_bert, texts, 0.01)
    assert np.abs(encoder.encode(texts) - wanted).max() < 1e-5
    assert np.abs(plain.encode(texts) - wanted).max() > 0.01
    zoo.save(encoder, tmp_path)
    again = zoo.load(tmp_path)
    assert np.abs(again.encode(texts) - wanted).max() < 1e-5 and again.fingerprint() == encoder.fingerprint()
    with pytest.raises(ContractError, match="counts tokens in a corpus"):
        encoder.fit(None, run=Run())


@pytest.mark.parametrize("cls", [SimCSE, MoCo, TwoViews])
def test_contrastive_methods_train_and_test_with_it(cls: type, tiny_bert: Path, tmp_path: Path) -> None:
    fields = {"backbone": str(tiny_bert), "pooler": "sif", "batch_size": 4, "sif_a": 0.01}
    fields |= {"queue_size": 8} if cls is MoCo else {}
    fields |= {"shuffle": (False, True)} if cls is TwoViews else {}
    encoder = cls(cls.Recipe(**fields), Runtime())
    encoder.fit(CORPUS, run=Run(seed=1))
    ones = torch.ones(len(encoder.token_weights.weights))
    for token, weight in weights_of(encoder.backbone.tokenizer, 0.01).items():
        ones[token] = weight
    assert torch.allclose(encoder.token_weights.weights, ones, atol=1e-6)
    vectors = encoder.encode(TEXTS)
    encoder.save(tmp_path)
    assert np.allclose(cls.load(tmp_path).encode(TEXTS), vectors, atol=1e-6)
    encoder.token_weights.weights.fill_(1)
    assert np.abs(encoder.encode(TEXTS) - vectors).max() > 1e-3  # the weights are read at test
