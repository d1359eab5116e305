"""Plain lists of pairs are scored, and every reason of n/a stands in a table."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmark
import zoo
from benchmark.reasons import REASONS, page, reason
from zoo.errors import UsageError

# `score_pairs` gives what the library's evaluator gives, and says what is wrong with three lists.

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


# Every reason for n/a stands in one table, which the handbook shows, and is given somewhere.

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (ROOT / "benchmark", ROOT / "papers/zoo_bench_papers")
FILES = [path for room in ROOMS for path in sorted(room.rglob("*.py"))]
# Where a record or a value gets its reason.
GIVEN = {"Measured": 2, "Value": 3}


def test_the_handbook_has_every_reason() -> None:
    """`python -m benchmark.reasons` prints the table."""
    assert (ROOT / "docs/reference/missing.md").read_text(encoding="utf-8").endswith(f"\n\n{page()}")


def test_every_reason_is_given_and_no_other() -> None:
    """A literal anywhere in a file that gives reasons counts, since a name may be chosen before."""
    literals: set[str] = set()
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        direct = [node.args[0] for node in calls if getattr(node.func, "id", "") == "reason"]
        assert {a.value for a in direct if isinstance(a, ast.Constant)} <= REASONS.keys(), path
        if direct:
            literals |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)} & REASONS.keys()
    assert literals | {"quoted"} == REASONS.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_file_words_a_reason_of_its_own(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and (place := GIVEN.get(getattr(node.func, "id", ""))):
            words = node.args[place : place + 1] + [word.value for word in node.keywords if word.arg == "reason"]
            assert not any(isinstance(word, ast.JoinedStr) for word in words), f"{path}:{node.lineno}"
            assert not any(isinstance(getattr(word, "value", None), str) for word in words), f"{path}:{node.lineno}"


def test_a_reason_has_its_values() -> None:
    assert reason("uncovered", without=1200, texts=3000) == "1,200 of its 3,000 texts have no vector in the file"
    with pytest.raises(KeyError):
        reason("seeds", done=1)
