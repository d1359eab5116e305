"""Methods of labelled pairs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_loss_ports import angle_in_batch

from zoo.encoder import Corpus, FitReport, Run, Runtime
from zoo.errors import ContractError, TrainingError, UsageError
from zoo.methods.angle import angle_similarity, in_batch_loss
from zoo.methods.cosent import graded_rows
from zoo.methods.infersent import InferSent
from zoo.methods.infersent_words import InferSentWords
from zoo.methods.matryoshka import Matryoshka
from zoo.methods.sbert import SBERT
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo.training.losses import ranking_loss

GOLDEN = {
    "sbert": {"version": 2, "values": [0.4799, -0.6471, 1.0, 0.4728, 0.2968, -0.1944, -1.0, -0.1293]},
    "infersent": {
        "version": 2,
        "settings": {"learning_rate": 1.0},
        "values": [0.0043, 0.9998, -0.6855, 1.0, 0.0493, 1.0, -0.2176, 0.3694],
    },
    "infersent-words": {
        "version": 2,
        "settings": {"learning_rate": 1.0},
        "values": [0.6578, 0.6652, -1.0, -0.9247, -0.0786, -0.4339, 1.0, 0.5225],
    },
    "angle": {"version": 2, "values": [-1.0, 0.5938, -0.5246, -0.2163, 1.0, -0.45, -0.2037, 0.4714]},
    "cosent": {"version": 2, "values": [-1.0, 0.57, -0.5093, -0.2455, 0.0533, 0.1946, -0.3561, -1.0]},
    "matryoshka": {"version": 2, "values": [0.0791, 0.3416, -1.0, -0.0182, 1.0, -0.2361, -0.2479, -0.1714]},
}


# SBERT: the pairs it trains on; BURT on NLI alone is the same training.

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


def test_phrase_pairs_are_left_out_and_no_nli_is_refused(tiny_bert: Path) -> None:
    encoder = SBERT(SBERT.Recipe(backbone=str(tiny_bert)), Runtime())
    pairs = nli()
    mixed = Corpus("m", [*pairs.sentences, "big dog", "large dog"], [*(pairs.labels or ()), "ppdb:entailment"])
    assert len(encoder.tasks(mixed, Run())[0]) == 30
    with pytest.raises(TrainingError, match="--pairs nli"):
        encoder.fit(Corpus("p", ["a", "b"], ["ppdb:entailment"]), run=Run())
    with pytest.raises(ContractError, match="--pairs nli"):
        encoder.fit(None, run=Run())


def test_the_checkpoint_is_picked_by_the_score_of_the_encoder(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr("zoo.methods.sbert.train_in_turn", lambda *_, **more: asked.update(more) or FitReport(True))
    encoder = SBERT(SBERT.Recipe(backbone=str(tiny_bert)), Runtime())
    encoder.fit(nli(), run=Run())
    assert asked["dev_score"] is None
    encoder.fit(nli(), dev_score=lambda scored: {"score": 7.0 if scored is encoder else 0.0}, run=Run())
    assert asked["dev_score"]() == {"score": 7.0}


# InferSent: the rule of its rate, the size of its token vectors, and corpora that it refuses.

RECIPES = {name: spec for name, spec in all_recipes().items() if spec.method == "infersent"}
THINGS = "dog cat river stone lamp garden train letter bridge apple".split()


def labelled_pairs() -> Corpus:
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


# InferSent on word vectors: the vectors of each text against a plain LSTM, and unknown words.

NLI_WORDS = "dog cat river stone lamp garden train letter bridge apple the is near no like".split()
SMALL = {"lstm_dim": 6, "classifier_dim": 8, "batch_size": 8, "epochs": 2}


def word_vectors(folder: Path) -> tuple[Path, np.ndarray]:
    """A file of word vectors, 8 wide, and the same matrix."""
    matrix = np.random.default_rng(0).normal(size=(len(NLI_WORDS), 8)).astype(np.float32)
    lines = [f"{word} {' '.join(repr(float(x)) for x in row)}" for word, row in zip(NLI_WORDS, matrix, strict=True)]
    path = folder / "words.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, matrix


def make(folder: Path, **more: object) -> InferSentWords:
    path, _ = word_vectors(folder)
    return InferSentWords(InferSentWords.Recipe(path=str(path), **{**SMALL, **more}), Runtime())


def test_vectors_are_the_largest_states_over_the_known_words(tmp_path: Path) -> None:
    encoder = make(tmp_path)
    _, matrix = word_vectors(tmp_path)
    lstm = torch.nn.LSTM(8, 6, batch_first=True, bidirectional=True)
    lstm.load_state_dict(encoder.head.lstm.state_dict())
    texts = ["The dog is near the river", "stone", "no cat xyzzy like apple", "the the the dog is near"]
    wanted = []
    for text in texts:
        known = [NLI_WORDS.index(word) for word in text.lower().split() if word in NLI_WORDS]
        with torch.no_grad():
            states, _ = lstm(torch.from_numpy(matrix[known])[None])
        wanted.append(states[0].max(0).values.numpy())
    np.testing.assert_allclose(encoder.encode(texts), np.stack(wanted), atol=1e-6)
    assert encoder.covers(["xyzzy plugh", "a dog"]).tolist() == [False, True]
    assert np.isfinite(encoder.encode(["xyzzy plugh"])).all()
    table = make(tmp_path, train_max_length=2).training_table(["the dog is near", "xyzzy", "stone"])
    assert table.lengths.tolist() == [2, 1, 1] and table.truncated == 1
    assert [NLI_WORDS[i] for i in table.row(0)] == ["the", "dog"] and table.row(1).tolist() == [len(NLI_WORDS)]


# CoSENT, AnglE and Matryoshka: their losses by hand, their pairs, nested vectors; ten steps are in test_loss_ports.

ROOT = Path(__file__).parents[3]
SCORED_WORDS = "cat dog tree house river stone cloud bird".split()
SENTENCES = [f"the {a} sees a {b} near the {a}" for a in SCORED_WORDS for b in SCORED_WORDS]
NLI = Corpus("nli", SENTENCES, ["entailment", "neutral", "contradiction", "entailment"] * 8)


def encoder_of(name: str, folder: Path, **fields: Any) -> Any:
    cls, recipe = parse_methods(name, all_recipes())[0].resolve()
    fields = {"batch_size": 8, "learning_rate": 1e-3, "accumulate": 1, "backbone": str(folder), **fields}
    return cls(dataclasses.replace(recipe, **fields), Runtime())


def test_the_losses_by_hand() -> None:
    """Two pairs in the wrong order by 0.1: log(1 + e^2); equal grades lose nothing."""
    cosines, grades = torch.tensor([0.5, 0.4]), torch.tensor([0.0, 1.0])
    assert float(ranking_loss(cosines, grades, 0.05)) == pytest.approx(np.log(1 + np.exp(2.0)), abs=1e-6)
    assert float(ranking_loss(cosines, torch.ones(2), 0.05)) == 0
    z, w = np.array([1 + 2j, 3 - 1j]), np.array([2 - 1j, 1 + 1j])
    quotient = (z * w.conj()).sum() / np.linalg.norm(w) / np.linalg.norm(z)
    u, v = (torch.tensor(np.concatenate([x.real, x.imag]))[None] for x in (z, w))
    assert float(angle_similarity(u, v)) == pytest.approx(abs(quotient.real + quotient.imag))
    same = torch.eye(4)[:2]
    assert float(in_batch_loss(same, same, torch.tensor([1.0, 0.5]), 0.05)) == pytest.approx(0.0, abs=1e-6)


def test_scores_from_0_to_5_as_in_the_released_code() -> None:
    """The figures that angle.yaml states; for scores 0 and 1 both losses are equal."""
    rows = torch.randn(16, 16, generator=torch.Generator().manual_seed(0))
    rows[1::2] = rows[::2] + 0.7 * rows[1::2]
    scores = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 5.0, 2.5])
    ours = [in_batch_loss(rows[::2], rows[1::2], grades, 0.05) for grades in (scores / 5, (scores >= 4).float())]
    theirs = angle_in_batch(rows, scores), angle_in_batch(rows, (scores >= 4).float())
    assert (round(float(theirs[0]), 3), round(float(ours[0]), 3)) == (8.957, 0.001)
    torch.testing.assert_close(ours[1], theirs[1])
    text = (ROOT / "configs" / "methods" / "angle.yaml").read_text(encoding="utf-8")
    assert "8.957 there, 0.001 here" in text


def test_the_library_s_angle_similarity() -> None:
    util = pytest.importorskip("sentence_transformers.util")
    u, v = torch.randn(6, 8), torch.randn(6, 8)
    torch.testing.assert_close(angle_similarity(u, v), util.pairwise_angle_sim(u, v))


def test_grades_come_from_scores_or_labels() -> None:
    rows, grades = graded_rows(Corpus("x", ["a"] * 6, scores=[5.0, 0.0, 2.5]), None)
    assert rows.tolist() == [0, 1, 2] and grades.tolist() == [1.0, 0.0, 0.5]
    rows, grades = graded_rows(NLI, None)
    assert rows.tolist()[:3] == [0, 2, 3] and grades.tolist()[:3] == [1.0, 0.0, 1.0]
    assert graded_rows(NLI, 0.25)[1].tolist()[:4] == [1.0, 0.25, 0.0, 1.0]
    with pytest.raises(ContractError, match="--pairs STSBenchmark or nli"):
        graded_rows(Corpus("x", ["a"] * 6), 0.5)
    with pytest.raises(TrainingError, match="fewer than two different"):
        graded_rows(Corpus("x", ["a"] * 6, scores=[1.0, 1.0, 1.0]), None)


def test_a_nested_vector_is_the_start_of_the_whole_one(tiny_bert: Path) -> None:
    full, cut = (encoder_of("matryoshka", tiny_bert, width=width) for width in (None, 8))
    assert cut.dim == 8 and Matryoshka.traits(full.recipe).exports and not Matryoshka.traits(cut.recipe).exports
    np.testing.assert_array_equal(cut.encode(SENTENCES[:3]), full.encode(SENTENCES[:3])[:, :8])
    with pytest.raises(UsageError, match="width 64 is more than the 32 dimensions"):
        encoder_of("matryoshka", tiny_bert, width=64)
    with pytest.raises(ValueError, match="shares of the dimensions"):
        Matryoshka.Recipe(nested=(2.0,))


@pytest.mark.parametrize(("stated", "steps"), [(100, 4), (5, 4), (3, 3)])
def test_a_warm_up_takes_at_most_half_of_the_steps(stated: int, steps: int, tiny_bert: Path) -> None:
    """Ten pairs in batches of four, three times: nine steps."""
    encoder = encoder_of("cosent", tiny_bert, batch_size=4, epochs=3, warmup_steps=stated)
    encoder.rows = 10
    assert encoder.settings().warmup_steps == steps
