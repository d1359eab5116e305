"""SBERT: its recipes, the pairs it trains on, its test vector, learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.pooling import pool
from zoo.errors import ContractError, TrainingError
from zoo.methods.sbert import SBERT
from zoo.recipes import all_recipes

GOLDEN = {"sbert": {"version": 1, "values": [-0.7349, 0.2043, -1.0, 0.5407, 0.4184, -0.5001, -1.0, 0.421]}}

RECIPES = {name: spec for name, spec in all_recipes().items() if spec.method == "sbert"}
WORDS = "dog cat river stone lamp garden train letter bridge apple".split()


def nli(times: int = 1) -> Corpus:
    """Hypotheses that say so, do not, or speak of something else: separable."""
    rows = [
        (f"the {a} is near the {b}", hypothesis, label)
        for a, b in zip(WORDS, [*WORDS[1:], WORDS[0]], strict=True)
        for hypothesis, label in [
            (f"the {b} is near the {a}", "entailment"),
            (f"no {a} is near no {b}", "contradiction"),
            ("people like music", "neutral"),
        ]
    ] * times
    return Corpus("nli", [text for a, b, _ in rows for text in (a, b)], [label for *_, label in rows])


def recipe_of(name: str, folder: Path, **more: Any) -> Any:
    cls, recipe = RECIPES[name].resolve()
    assert cls is SBERT
    return SBERT.Recipe(**{**vars(recipe), "backbone": str(folder), **more})


def test_the_recipes_are_the_paper_s_and_the_code_s(tiny_bert: Path) -> None:
    assert sorted(RECIPES) == ["sbert", "sbert-small", "sbert-st"]
    paper, small, code = (recipe_of(name, tiny_bert) for name in sorted(RECIPES))
    assert paper == SBERT.Recipe(backbone=str(tiny_bert))
    assert (paper.batch_size, paper.learning_rate, paper.epochs, paper.warmup) == (16, 2e-5, 1, 0.1)
    differ = {key: value for key, value in vars(code).items() if value != vars(paper)[key]}
    assert differ == {"head_bias": True, "weight_decay": 0.01, "eval_every": 1000}
    differ = {key: value for key, value in vars(small).items() if value != vars(paper)[key]}
    assert differ == {"head_rate": 50, "batch_size": 64, "learning_rate": 1e-4}
    assert SBERT.traits(code).picks_checkpoint and not SBERT.traits(paper).picks_checkpoint
    assert SBERT.traits(paper).needs_pairs and not SBERT.traits(paper).needs_corpus


@pytest.mark.parametrize("bias", [False, True])
def test_the_head_is_three_classes_of_three_vectors(tiny_bert: Path, bias: bool) -> None:
    encoder = SBERT(SBERT.Recipe(backbone=str(tiny_bert), head_bias=bias), Runtime())
    tasks = encoder.tasks(nli(), Run())
    (head,) = encoder.objective(tasks).heads
    assert tuple(head.weight.shape) == (3, 3 * 32) and (head.bias is not None) == bias
    settings = encoder.settings(tasks)
    assert (settings.steps, settings.warmup_steps, settings.adam_betas) == (2, 1, (0.9, 0.999))


def test_phrase_pairs_are_left_out_and_no_nli_is_refused(tiny_bert: Path) -> None:
    encoder = SBERT(SBERT.Recipe(backbone=str(tiny_bert)), Runtime())
    pairs = nli()
    mixed = Corpus("m", [*pairs.sentences, "big dog", "large dog"], [*(pairs.labels or ()), "ppdb:entailment"])
    assert len(encoder.tasks(mixed, Run())[0]) == 30
    with pytest.raises(TrainingError, match="--pairs nli"):
        encoder.fit(Corpus("p", ["a", "b"], ["ppdb:entailment"]), run=Run())
    with pytest.raises(ContractError, match="--pairs nli"):
        encoder.fit(None, run=Run())


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "max", "cls"])
def test_the_test_vector_is_the_pooled_last_layer(pooling: Any, tiny_bert: Path) -> None:
    encoder = SBERT(SBERT.Recipe(backbone=str(tiny_bert), pooling=pooling, learning_rate=1e-3), Runtime())
    mark = encoder.fingerprint()
    report = encoder.fit(nli(), run=Run(seed=1))
    assert (report.steps, report.sentences, report.facts) == (2, 60, {"pairs": {"NLI": 30}})
    assert encoder.fingerprint() != mark
    ids = torch.tensor([encoder.backbone.tokenizer("a small dog")["input_ids"]])
    with torch.inference_mode():
        states = encoder.backbone.model(ids).last_hidden_state
        wanted = pool([states], torch.ones_like(ids), pooling)[0].numpy()
    np.testing.assert_allclose(encoder.encode(["a small dog"])[0], wanted, atol=1e-6)


@pytest.mark.slow
def test_training_tells_the_classes_apart(tiny_bert: Path) -> None:
    """Chance is a third; the loss begins at about ln 3."""
    encoder = SBERT(SBERT.Recipe(backbone=str(tiny_bert), learning_rate=2e-3, epochs=6, batch_size=10), Runtime())
    report = encoder.fit(nli(2), run=Run(seed=0))
    assert report.steps == 36 and report.final_loss is not None and report.final_loss < 0.4
    vectors = encoder.encode(["the dog is near the cat", "the cat is near the dog", "people like music"])
    a, b, c = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert a @ b > a @ c
