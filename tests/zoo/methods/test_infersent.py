"""InferSent: the rule of its rate, the size of its token vectors, and corpora that it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import TrainingError
from zoo.methods.infersent import InferSent
from zoo.recipes import all_recipes

GOLDEN = {
    "infersent": {
        "version": 2,
        "settings": {"learning_rate": 1.0},
        "values": [0.0043, 0.9998, -0.6855, 1.0, 0.0493, 1.0, -0.2176, 0.3694],
    }
}

RECIPES = {name: spec for name, spec in all_recipes().items() if spec.method == "infersent"}
THINGS = "dog cat river stone lamp garden train letter bridge apple".split()


def nli() -> Corpus:
    rows = [
        row
        for a in THINGS
        for b in THINGS[:4]
        for row in [
            (f"the {a} is near the {b}", f"the {a} is near", "entailment"),
            (f"the {a} is near the {b}", f"no {a} is near", "contradiction"),
            (f"the {a} is near the {b}", "people like music", "neutral"),
        ]
    ]
    return Corpus("nli", [text for a, b, _ in rows for text in (a, b)], [label for *_, label in rows])


def recipe_of(name: str, folder: Path, **more: Any) -> Any:
    cls, recipe = RECIPES[name].resolve()
    assert cls is InferSent
    small = {"lstm_dim": 6, "classifier_dim": 8, "backbone": str(folder)}
    return InferSent.Recipe(**{**vars(recipe), **small, **more})


@pytest.mark.parametrize(
    ("when", "accuracies", "wanted"),
    [
        ("falls", [], 0.1),
        ("falls", [50.0], 0.1 * 0.99),
        ("falls", [50.0, 49.0], 0.1 * 0.99 / 5 * 0.99),
        ("falls", [50.0, 49.0, 49.5], 0.1 * 0.99 / 5 * 0.99 * 0.99),
        ("falls", [50.0, 50.0], 0.1 * 0.99**2),
        ("no gain", [50.0, 49.0, 49.5], 0.1 * 0.99 / 5 * 0.99 / 5 * 0.99),
        ("no gain", [50.0, 50.0], 0.1 * 0.99 / 5 * 0.99),
        ("no gain", [50.0, 49.0, 51.0], 0.1 * 0.99 / 5 * 0.99 * 0.99),
    ],
)
def test_the_rate_is_divided_unless_accuracy_is_a_new_best(when: Any, accuracies: list[float], wanted: float) -> None:
    assert InferSent.Recipe(shrink_when=when).rate_after(accuracies) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("rms", [0.5, 2.0])
def test_token_vectors_are_as_large_as_word_vectors(tiny_bert: Path, rms: float) -> None:
    """BERT's are a tenth of GloVe's, and plain SGD at the paper's rate learned nothing from them."""
    encoder = InferSent(recipe_of("infersent", tiny_bert, token_rms=rms), Runtime())
    table = encoder.backbone.model.get_input_embeddings().weight.detach().double().numpy()
    expected = table * rms / np.sqrt(np.mean(table**2))
    np.testing.assert_allclose(encoder.head.words.numpy(), expected, rtol=1e-5, atol=1e-7)


def test_a_corpus_with_one_premise_or_none_is_refused(tiny_bert: Path) -> None:
    encoder = InferSent(recipe_of("infersent", tiny_bert), Runtime())
    with pytest.raises(TrainingError, match="single premise"):
        encoder.fit(Corpus("x", list("abac"), ["neutral", "entailment"]), run=Run())
    with pytest.raises(TrainingError, match="--pairs nli"):
        encoder.fit(Corpus("x", ["a", "b"], ["ppdb:entailment"]), run=Run())
