"""`score_pairs` gives what the library's evaluator gives, and says what is wrong with three lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark
import zoo
from zoo.errors import UsageError

FIRST = [f"word {i} and {7 * i % 5}" for i in range(30)]
SECOND = [f"text {3 * i % 7} is {i % 4}" for i in range(30)]
GOLD = [float(i % 5) for i in range(30)]


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "dot", "manhattan"])
def test_it_gives_the_evaluators_numbers(similarity: str, tiny_bert: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    parts = [modules.Transformer(str(tiny_bert)), modules.Pooling(32, "mean")]
    model = SentenceTransformer(modules=parts, device="cpu", similarity_fn_name=similarity, prompts={"query": "q: "})
    expected = EmbeddingSimilarityEvaluator(FIRST, SECOND, GOLD)(model)
    scores = benchmark.score_pairs(model, FIRST, SECOND, GOLD)
    for name in ("spearman", "pearson"):
        assert scores[name] == pytest.approx(100 * expected[f"{name}_{similarity}"], abs=1e-3)


def test_a_recipe_an_encoder_and_an_object_are_taken(tiny_bert: Path) -> None:
    name = f"avg-last:backbone={tiny_bert}"
    encoder: Any = zoo.create(name)
    scores = benchmark.score_pairs(name, FIRST, SECOND, GOLD)
    assert scores == benchmark.score_pairs(encoder, FIRST, SECOND, np.array(GOLD))
    encoder.roles = replace(encoder.roles, similarity="euclidean")
    assert scores != benchmark.score_pairs(encoder, FIRST, SECOND, GOLD)


@pytest.mark.parametrize(
    ("lists", "sentence"),
    [
        ((FIRST[:2], SECOND, GOLD), "have 2, 30 and 30 entries"),
        ((FIRST, SECOND, [1.0] * 30), "no correlation"),
        ((FIRST, SECOND, [float("nan"), *GOLD[1:]]), "not a number"),
        ((FIRST[:1], SECOND[:1], GOLD[:1]), "no correlation"),
    ],
)
def test_lists_without_a_correlation_are_a_sentence(lists: tuple[Any, Any, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        benchmark.score_pairs("random", *lists)
