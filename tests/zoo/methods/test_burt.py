"""BURT: its three tasks, its negatives, the recipes of its ablations, ALBERT, resuming, learning."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.encoder import PHRASE_LABELS, Corpus, Run, Runtime
from zoo.engine.tokens import tokenise
from zoo.methods.burt import BURT, other_than
from zoo.methods.sbert import SBERT
from zoo.recipes import all_recipes
from zoo.training.siamese import PairObjective, pair_batches

GOLDEN = {"burt": {"version": 1, "values": [-0.7344, 0.1878, -1.0, 0.5406, 0.4099, -0.5096, -1.0, 0.4088]}}

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


# Recipes.


def test_the_ablations_of_table_4_change_one_thing_each(tiny_bert: Path) -> None:
    full = vars(recipe_of("burt", tiny_bert))
    assert full == vars(BURT.Recipe(backbone=str(tiny_bert)))
    changes = {
        name: {key: value for key, value in vars(recipe_of(name, tiny_bert)).items() if value != full[key]}
        for name in RECIPES
    }
    small = {
        "concatenation": "u*v", "head_bias": True, "head_rate": 50, "batch_size": 64, "learning_rate": 1e-4,
    }  # fmt: skip
    assert changes == {
        "burt": {},
        "burt-albert": {},
        "burt-human": {"paraphrases": (EQUIVALENCE,)},
        "burt-nli": {"objectives": ("nli",)},
        "burt-nli-pi": {"objectives": ("nli", "pi")},
        "burt-nli-ptc": {"objectives": ("nli", "ptc")},
        "burt-cls": {"pooling": "cls"},
        "burt-max": {"pooling": "max"},
        "burt-uv": {"concatenation": "u;v"},
        "burt-diff": {"concatenation": "|u-v|"},
        "burt-mul": {"concatenation": "u*v"},
        "burt-uv-mul": {"concatenation": "u;v;u*v"},
        "burt-diff-mul": {"concatenation": "|u-v|;u*v"},
        "burt-uv-diff-mul": {"concatenation": "u;v;|u-v|;u*v"},
        "burt-k1": {"negatives": 1},
        "burt-k5": {"negatives": 5},
        "burt-k7": {"negatives": 7},
        "burt-small": {"paraphrases": (EQUIVALENCE,), **small},
        "burt-nli-small": {"objectives": ("nli",), "paraphrases": (EQUIVALENCE,), **small},
    }
    assert RECIPES["burt-albert"].parameters["backbone"].startswith("albert/")


def test_the_paper_s_training_details(tiny_bert: Path) -> None:
    """Section 3.3: Adam 0.9, 0.98, 1e-9; warm-up over a tenth; batches of 16; dropout 0.1; NLI every second batch."""
    encoder = BURT(BURT.Recipe(backbone=str(tiny_bert)), Runtime())
    assert (encoder.recipe.dropout, encoder.recipe.adam_epsilon) == (0.1, 1e-9)
    tasks = encoder.tasks(pairs(), Run())
    settings = encoder.settings(tasks)
    assert (settings.batch_size, settings.adam_betas, settings.weight_decay) == (16, (0.9, 0.98), 0.0)
    assert (settings.steps, settings.warmup_steps) == (4, 1)  # 30 NLI pairs: 2 batches, every second
    heads = encoder.objective(tasks).heads
    assert [tuple(head.weight.shape) for head in heads] == [(3, 96), (2, 96), (3, 96)]
    assert all(head.bias is None for head in heads)


# Tasks.


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


# Training.


def test_nli_alone_is_sbert_with_burt_s_settings(tiny_bert: Path) -> None:
    burt = BURT(recipe_of("burt-nli", tiny_bert, learning_rate=1e-3), Runtime())
    same = {key: value for key, value in vars(burt.recipe).items() if hasattr(SBERT.Recipe(), key)}
    sbert = SBERT(SBERT.Recipe(**same), Runtime())
    for encoder in (burt, sbert):
        encoder.fit(pairs(), run=Run(seed=4))
    assert burt.backbone.weights_sha256() == sbert.backbone.weights_sha256()


def test_training_lowers_every_loss_and_tells_paraphrases_apart(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_of("burt-human", tiny_bert, learning_rate=2e-3, epochs=16, batch_size=10)
    encoder, corpus, objectives = BURT(recipe, Runtime()), pairs(), []
    tasks = encoder.tasks(corpus, Run(seed=0))
    batch = pair_batches(tasks, tokenise(encoder.backbone.tokenizer, corpus.sentences, max_length=32), 0)
    ends = np.cumsum([0, *map(len, tasks)])

    def losses(objective: PairObjective) -> np.ndarray:
        rows = [np.arange(start, end) for start, end in pairwise(ends)]
        with torch.no_grad():
            return np.array([float(objective.eval()(*batch(some))) for some in rows])

    torch.manual_seed(0)
    before = losses(encoder.objective(tasks))
    make = encoder.objective
    monkeypatch.setattr(encoder, "objective", lambda tasks: objectives.append(make(tasks)) or objectives[0])
    report = encoder.fit(corpus, run=Run(seed=0))
    assert report.steps == 96
    assert report.facts == {"pairs": {"NLI": 30, "PI": 40, "PTC": 30}}
    np.testing.assert_allclose(before, [np.log(3), np.log(2), np.log(3)], atol=0.4)
    assert (losses(objectives[0]) < 0.7 * before).all()
    vectors = encoder.encode([text for thing in THINGS for text in (f"big {thing}", f"large {thing}")])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors[::2] @ vectors[1::2].T
    assert np.diag(cosines).mean() > cosines.mean() + 0.02
