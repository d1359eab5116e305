"""InferSent: a step of its SGD by hand, the rule of its rate, what is fixed, an epoch resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.tokens import tokenise
from zoo.errors import TrainingError
from zoo.methods.infersent import InferSent
from zoo.recipes import all_recipes
from zoo.training.siamese import held_out_by_first, labelled_task, pair_batches

GOLDEN = {"infersent": {"version": 1, "values": [-0.0556, 1.0, -0.0445, -0.4255, 0.0864, 1.0, 0.1235, -0.7739]}}

RECIPES = {name: spec for name, spec in all_recipes().items() if spec.method == "infersent"}
LABELS = ("entailment", "neutral", "contradiction")
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


def test_the_recipes_are_the_paper_s_and_the_code_s() -> None:
    recipes = {name: spec.resolve()[1] for name, spec in RECIPES.items()}
    assert recipes["infersent"] == InferSent.Recipe()
    paper = recipes["infersent"]
    assert (paper.lstm_dim, paper.classifier_dim, paper.batch_size, paper.learning_rate) == (2048, 512, 64, 0.1)
    differ = {k: v for k, v in vars(recipes["infersent-repo"]).items() if v != vars(paper)[k]}
    assert differ == {"classifier": "linear", "shrink_when": "no gain"}


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


@pytest.mark.parametrize("name", RECIPES)
def test_one_epoch_is_plain_sgd_with_clipping(name: str, tiny_bert: Path) -> None:
    """By hand: w -= rate * g, g scaled to norm 0.01; one batch holds all, so the order does not matter."""
    recipe = recipe_of(name, tiny_bert, batch_size=1000, epochs=1, max_grad_norm=0.01)
    encoder, corpus = InferSent(recipe, Runtime()), nli()
    torch.manual_seed(7)
    encoder.head = encoder.new_head()
    objective = encoder.objective()
    linear = [module for module in objective.heads[0] if isinstance(module, torch.nn.Linear)]
    assert [layer.out_features for layer in linear] == ([8, 3] if name == "infersent" else [8, 8, 3])
    assert linear[0].in_features == 4 * 12
    train, _ = held_out_by_first(labelled_task("NLI", corpus, LABELS, ""), corpus, recipe.dev_share)
    table = tokenise(encoder.backbone.tokenizer, corpus.sentences, max_length=128)
    batch = pair_batches([train], table, 0)(np.random.default_rng([7, 0]).permutation(len(train)))
    objective(*batch).backward()
    gradients = {key: p.grad for key, p in objective.encoder.named_parameters()}
    norm = float(torch.sqrt(sum(p.grad.square().sum() for p in objective.parameters() if p.requires_grad)))  # type: ignore[arg-type]
    assert norm > 0.02
    wanted = {key: p.detach() - 0.1 * 0.01 / norm * gradients[key] for key, p in objective.encoder.named_parameters()}
    fresh = InferSent(recipe, Runtime())
    fresh.fit(corpus, run=Run(seed=7))
    for key, value in fresh.head.state_dict().items():
        torch.testing.assert_close(value, wanted[key], atol=1e-7, rtol=0)


@pytest.mark.parametrize("rms", [0.5, 2.0])
def test_token_vectors_are_as_large_as_word_vectors(tiny_bert: Path, rms: float) -> None:
    """BERT's are a tenth of GloVe's, and plain SGD at the paper's rate learned nothing from them."""
    encoder = InferSent(recipe_of("infersent", tiny_bert, token_rms=rms), Runtime())
    table = encoder.backbone.model.get_input_embeddings().weight.detach().double().numpy()
    expected = table * rms / np.sqrt(np.mean(table**2))
    np.testing.assert_allclose(encoder.head.words.numpy(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_training_learns_keeps_the_best_and_leaves_the_words(tiny_bert: Path, tmp_path: Path) -> None:
    recipe = recipe_of(
        "infersent", tiny_bert, token_rms=1.0, lstm_dim=24, batch_size=8, learning_rate=1.0, dev_share=0.2, epochs=8
    )
    encoder, corpus = InferSent(recipe, Runtime()), nli()
    words, mark = encoder.backbone.weights_sha256(), encoder.fingerprint()
    report = encoder.fit(corpus, run=Run(tmp_path / "run", seed=0))
    assert encoder.backbone.weights_sha256() == words and encoder.fingerprint() != mark
    assert report.facts["pairs"] == {"NLI": 96, "held out": 24}
    assert list(report.dev_scores) == [str(12 * epoch) for epoch in range(1, 9)]
    best = max(report.dev_scores.values())
    assert best > 80 and report.dev_scores[str(report.best_step)] == best
    assert report.sentences == 2 * 96 * 8
    encoder.save(tmp_path / "saved")
    assert not (tmp_path / "saved" / "model.safetensors").exists()


def scripted(monkeypatch: pytest.MonkeyPatch, values: list[float]) -> list[float]:
    """Accuracies in a given order; the learning rates of the steps between are collected."""
    import zoo.methods.bilstm as module

    rest = iter(values)
    monkeypatch.setattr(module, "accuracy", lambda *_: next(rest))
    rates: list[float] = []
    step = torch.optim.SGD.step

    def noted(self: torch.optim.SGD, *arguments: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.SGD, "step", noted)
    return rates


def test_the_rate_follows_the_accuracies_and_ends_the_training(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = scripted(monkeypatch, [50.0, 60.0, 59.0, 58.0, 57.0, 99.0])
    recipe = recipe_of("infersent", tiny_bert, batch_size=60, least_rate=2e-3, epochs=20)
    report = InferSent(recipe, Runtime()).fit(nli(), run=Run(seed=1))
    falling = [0.1, 0.1 * 0.99, 0.1 * 0.99**2, 0.1 * 0.99**3 / 5, 0.1 * 0.99**4 / 25]  # the next, / 125, is too low
    np.testing.assert_allclose(rates, np.repeat(falling, 2), rtol=1e-12)
    assert report.steps == 10 and report.best_step == 4


def test_a_corpus_with_one_premise_or_none_is_refused(tiny_bert: Path) -> None:
    encoder = InferSent(recipe_of("infersent", tiny_bert), Runtime())
    with pytest.raises(TrainingError, match="single premise"):
        encoder.fit(Corpus("x", list("abac"), ["neutral", "entailment"]), run=Run())
    with pytest.raises(TrainingError, match="--pairs nli"):
        encoder.fit(Corpus("x", ["a", "b"], ["ppdb:entailment"]), run=Run())
