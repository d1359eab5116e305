"""BURT: its negatives, the pairs of its tasks, and NLI alone, which is SBERT."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zoo.encoder import PHRASE_LABELS, Corpus, Run, Runtime
from zoo.methods.burt import BURT, other_than
from zoo.methods.sbert import SBERT
from zoo.recipes import all_recipes

GOLDEN = {
    "burt": {"version": 2, "tolerance": 0.1, "values": [0.5689, -0.9956, 1.0, 0.9481, -0.3558, -0.1313, -0.9378, 1.0]}
}

pytestmark = pytest.mark.slow

RECIPES = {name: spec for name, spec in all_recipes().items() if spec.method == "burt"}
EQUIVALENCE, ENTAILMENT, INDEPENDENT = PHRASE_LABELS
THINGS = "dog cat river stone lamp garden train letter bridge apple".split()


def pairs() -> Corpus:
    """NLI and phrase pairs whose classes can be told from the words."""
    rows = []
    for a, b in zip(THINGS, [*THINGS[1:], THINGS[0]], strict=True):
        rows += [
            (f"the {a} is near the {b}", f"the {b} is near the {a}", "entailment"),
            (f"the {a} is near the {b}", f"no {a} is near no {b}", "contradiction"),
            (f"the {a} is near the {b}", "people like music", "neutral"),
            (f"big {a}", f"large {a}", EQUIVALENCE),
            (f"old {a}", f"{a}", ENTAILMENT),
            (f"{a} of gold", "on monday", INDEPENDENT),
        ]
    return Corpus("toy", [text for a, b, _ in rows for text in (a, b)], [label for *_, label in rows])


def recipe_of(name: str, folder: Path, **more: Any) -> Any:
    cls, recipe = RECIPES[name].resolve()
    assert cls is BURT
    return BURT.Recipe(**{**vars(recipe), "backbone": str(folder), **more})


def test_a_negative_is_any_other_phrase_and_all_are_drawn_alike() -> None:
    """Against counting: of 5 phrases, the 3 that are neither a nor b."""
    a, b = (np.repeat(side, 3000) for side in np.array([[0, 4, 1, 3], [1, 0, 3, 2]]))
    drawn = other_than(a, b, 5, np.random.default_rng(0))
    for i in range(0, len(a), 3000):
        counts = Counter(drawn[i : i + 3000].tolist())
        assert set(counts) == set(range(5)) - {int(a[i]), int(b[i])}
        assert max(abs(count - 1000) for count in counts.values()) < 150


@pytest.mark.parametrize("name", ["burt", "burt-human", "burt-k1"])
def test_paraphrases_have_each_pair_and_its_k_negatives(name: str, tiny_bert: Path) -> None:
    encoder, corpus = BURT(recipe_of(name, tiny_bert), Runtime()), pairs()
    task = encoder.tasks(corpus, Run(seed=2))[1]
    k = encoder.recipe.negatives
    rows = [
        (corpus.sentences[a], corpus.sentences[b], int(label))
        for a, b, label in zip(task.first, task.second, task.labels, strict=True)
    ]
    labels = corpus.labels or ()
    given = [
        (corpus.sentences[2 * i], corpus.sentences[2 * i + 1])
        for i, label in enumerate(labels)
        if label in encoder.recipe.paraphrases
    ]
    assert (task.classes, len(task)) == (2, len(given) * (1 + k))
    of_phrases = [i for i, label in enumerate(labels) if label in PHRASE_LABELS]
    phrases = {corpus.sentences[2 * i + side] for i in of_phrases for side in (0, 1)}
    drawn = set()
    for number, (target, paraphrase) in enumerate(given):
        group = rows[number * (1 + k) : (number + 1) * (1 + k)]
        assert group[0] == (target, paraphrase, 1)
        for a, b, label in group[1:]:
            assert a == target and label == 0 and b in phrases - {target, paraphrase}
            drawn.add(b)
    assert len(drawn) > 5
    again, other = (encoder.tasks(corpus, Run(seed=seed))[1] for seed in (2, 3))
    assert (again.second == task.second).all() and (other.second != task.second).any()


def test_classification_takes_all_classes_not_nlis_entailment(tiny_bert: Path) -> None:
    nli, _, ptc = BURT(BURT.Recipe(backbone=str(tiny_bert)), Runtime()).tasks(pairs(), Run())
    assert (len(nli), len(ptc)) == (30, 30)
    assert not set(nli.first) & set(ptc.first)
    assert np.bincount(ptc.labels).tolist() == np.bincount(nli.labels).tolist() == [10, 10, 10]


def test_nli_alone_is_sbert_with_burt_s_settings(tiny_bert: Path) -> None:
    burt = BURT(recipe_of("burt-nli", tiny_bert, learning_rate=1e-3), Runtime())
    same = {key: value for key, value in vars(burt.recipe).items() if hasattr(SBERT.Recipe(), key)}
    sbert = SBERT(SBERT.Recipe(**same), Runtime())
    for encoder in (burt, sbert):
        encoder.fit(pairs(), run=Run(seed=4))
    assert burt.backbone.weights_sha256() == sbert.backbone.weights_sha256()
