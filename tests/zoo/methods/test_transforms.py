"""Transforms that are fitted on vectors: whitening, flow, and their common part."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.encoder import Corpus, FitReport, Run, Runtime, Traits
from zoo.errors import ContractError, TrainingError, UsageError
from zoo.methods.flow import Flow, NegativeLogLikelihood
from zoo.methods.pooled import Average
from zoo.methods.simcse import SimCSE
from zoo.methods.transform import base_of
from zoo.methods.whitening import Whitening, whitening
from zoo.recipes import all_recipes, build
from zoo.selection import parse_methods

GOLDEN = {
    "whitening": {"version": 2, "values": [1.0, -0.0471, -0.538, 0.6172, -0.2182, -0.1901, -0.8021, 1.0]},
    "flow": {"version": 2, "tolerance": 0.04, "values": [1.0, -0.8219, 0.58, -0.4389, 0.1372, -0.1616, 0.0458, -1.0]},
}


# A transform on any encoder: what it then needs, what its key says, and what base and map are fitted on.

SIMCSE = "simcse:batch_size=16:temperature=0.1"


def make(cls: type[Any], folder: Path, **recipe: object) -> Any:
    return cls(cls.Recipe(backbone=str(folder), **recipe), Runtime())


def traits(**recipe: object) -> Traits:
    return Whitening.traits(Whitening.Recipe(**recipe))


@pytest.fixture
def pairs(pocket_sentences: list[str]) -> Corpus:
    """Forty triplets: each premise twice, entailed and contradicted."""
    sentences = [text for i in range(40) for text in (pocket_sentences[i], pocket_sentences[40 + i])]
    doubled = [text for i in range(40) for text in (sentences[2 * i], sentences[2 * i + 1]) * 2]
    return Corpus("pairs", doubled, ["entailment", "contradiction"] * 40)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "corpus", "pairs", "transductive", "stochastic", "trained"),
    [
        ({}, True, False, False, False, False),
        ({"fit_on": "pairs"}, False, True, False, False, False),
        ({"fit_on": "target"}, False, False, True, False, False),
        ({"base": "cls"}, True, False, False, False, False),
        ({"base": "simcse"}, True, False, False, True, True),
        ({"base": "simcse", "fit_on": "target"}, True, False, True, True, True),
        ({"base": "simcse-sup"}, False, True, False, True, True),  # fitted on the pairs' sentences
        ({"base": "simcse-sup", "fit_on": "pairs"}, False, True, False, True, True),
        ({"base": "simcse-sup", "fit_on": "target"}, False, True, True, True, True),
        ({"base": "flow-target", "fit_on": "target"}, False, False, True, True, False),
    ],
)
def test_needs_are_those_of_base_and_transform_together(
    recipe: dict[str, Any], corpus: bool, pairs: bool, transductive: bool, stochastic: bool, trained: bool
) -> None:
    needs = traits(**recipe)
    assert (needs.needs_corpus, needs.needs_pairs) == (corpus, pairs)
    assert (needs.transductive, needs.stochastic) == (transductive, stochastic)
    assert needs.picks_checkpoint is trained and (needs.training_passes > 0) is trained


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"base": "simcse", "fit_on": "pairs"}, "trained on the corpus"),
        ({"base": "whitening-target"}, "fit_on must be target"),
        ({"base": "simcse", "layers": "last"}, "layers is for the plain average"),
    ],
)
def test_a_base_that_cannot_be_is_told_with_the_recipe(recipe: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build(Whitening.Recipe, recipe, "recipe x")


def test_the_command_line_names_a_base_given_the_backbone(tiny_bert: Path) -> None:
    spec = parse_methods("whitening:base=simcse:k=9", all_recipes())[0]
    cls, recipe = spec.resolve({"backbone": str(tiny_bert)})
    method, base_cls, base_recipe = base_of(recipe)
    assert (cls, method, base_cls) == (Whitening, "simcse", SimCSE)
    assert (recipe.k, base_recipe.backbone, base_recipe.max_length) == (9, str(tiny_bert), None)
    assert base_of(Whitening.Recipe(base="simcse-roberta"))[2].backbone == "FacebookAI/roberta-base"  # its own
    assert base_of(Whitening.Recipe(base="pretrained", backbone="x"))[2].model == "x"


def test_sources_tell_bases_apart_and_hold_no_folder(tiny_bert: Path) -> None:
    def sources(**recipe: object) -> dict[str, Any]:
        return Whitening.sources(Whitening.Recipe(backbone=str(tiny_bert), **recipe), Runtime())

    plain, cls, simcse, other = (sources(base=b) for b in (None, "cls", "simcse", SIMCSE))
    assert plain.keys() == {"backbone"} and plain["backbone"] == simcse["backbone"]
    assert cls["base"]["method"] == "cls" and simcse["base"]["recipe"]["temperature"] == 0.05
    assert simcse["base"] != other["base"] and other["base"]["recipe"]["temperature"] == 0.1
    assert str(tiny_bert) not in repr((plain, cls, simcse, other))


@pytest.mark.slow
def test_base_and_map_are_fitted_one_after_the_other(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    corpus = Corpus("pocket", pocket_sentences[:64])
    alone = SimCSE(base_of(Whitening.Recipe(base=SIMCSE, backbone=str(tiny_bert)))[2], Runtime())
    scores: list[int] = []
    alone_report = alone.fit(corpus, dev_score=lambda e: scores.append(e.dim) or 1.0, run=Run(seed=3))
    x = alone.encode(corpus.sentences)
    mean, kernel, rank = whitening(x, 8, 1e-6)
    wanted = (alone.encode(pocket_sentences[:9]) - mean) @ kernel
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)

    encoder = make(Whitening, tiny_bert, base=SIMCSE, k=8)
    report = encoder.fit(corpus, dev_score=lambda e: scores.append(e.dim) or 1.0, run=Run(seed=3))
    np.testing.assert_allclose(encoder.encode(pocket_sentences[:9]), wanted, atol=1e-5)
    assert scores == [32, 32]  # the dev score sees the base
    assert report.facts == {"k": 8, "rank": rank}
    assert (report.steps, report.final_loss, report.best_step) == (
        alone_report.steps,
        alone_report.final_loss,
        alone_report.best_step,
    )


def test_a_target_fit_adapts_the_base_too(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    texts = pocket_sentences[:60]
    encoder = make(Whitening, tiny_bert, base="whitening-target:k=16", k=4, fit_on="target")
    assert encoder.fit(None, run=Run()) == FitReport()
    adapted = encoder.adapt(texts)
    assert adapted.base.rank == 31 and encoder.base.rank is None
    mean, kernel, _ = whitening(adapted.base.encode(texts), 4, 1e-6)
    wanted = (adapted.base.encode(texts[:5]) - mean) @ kernel
    np.testing.assert_allclose(
        adapted.encode(texts[:5]), wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-5
    )


@pytest.mark.parametrize("cls", [Whitening, Flow])
@pytest.mark.parametrize("fit_on", ["corpus", "target"])
def test_zero_vectors_are_left_out_of_the_fit_and_stay_zero(cls: type[Any], fit_on: str, tmp_path: Path) -> None:
    """A text without a known word has no place that a map could move: its cosine stays 0."""
    draw = np.random.default_rng(0)
    lines = (f"w{i} " + " ".join(map(str, draw.normal(size=8))) for i in range(30))
    (tmp_path / "words.txt").write_text("\n".join(lines), encoding="utf-8")
    base = f"wordvectors:path={tmp_path / 'words.txt'}"
    known, unknown = [f"w{i} w{i + 1}" for i in range(28)], ["unknown words", "", "others"]

    def fitted(texts: list[str]) -> Any:
        encoder = cls(cls.Recipe(base=base, fit_on=fit_on), Runtime())
        encoder.fit(Corpus("words", texts), run=Run(seed=1))
        return encoder.adapt(texts)

    encoder = fitted([*unknown[:2], *known, unknown[2]])
    assert encoder.fingerprint() == fitted(known).fingerprint()
    vectors = encoder.encode([known[0], *unknown])
    assert vectors[0].any() and not vectors[1:].any()
    np.testing.assert_allclose(vectors[0], encoder.transform(encoder.base.encode(known[:1]))[0], rtol=1e-5)


def test_of_joined_pairs_the_map_is_fitted_on_those_of_nli(
    tiny_bert: Path, pocket_sentences: list[str], pairs: Corpus
) -> None:
    """Against scikit-learn's PCA with whitening on the sentences of the NLI pairs alone."""
    from sklearn.decomposition import PCA

    assert pairs.labels is not None
    phrases = pocket_sentences[100:140]
    labels = [*pairs.labels, *["ppdb:equivalence"] * 20]
    joined = Corpus("joined", [*pairs.sentences, *phrases], labels)
    encoder = make(Whitening, tiny_bert, fit_on="pairs", k=6)
    assert encoder.fit(joined, run=Run()).sentences == len(pairs.sentences)
    pca = PCA(6, whiten=True, svd_solver="full").fit(encoder.base.encode(pairs.sentences).astype(np.float64))
    wanted = pca.transform(encoder.base.encode(phrases).astype(np.float64))
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    vectors = encoder.encode(phrases).astype(np.float64)
    np.testing.assert_allclose(vectors @ vectors.T, wanted @ wanted.T, atol=1e-5)  # PCA leaves signs open

    part = Whitening.reads(encoder.recipe, joined)
    assert (part.sentences, part.labels) == (list(pairs.sentences), list(pairs.labels)) and "NLI" in part.name
    assert Whitening.reads(encoder.recipe, pairs) is pairs  # so keys of pairs that are NLI alone stay as they were
    assert Whitening.reads(Whitening.Recipe(fit_on="corpus"), joined) is joined
    based = Whitening.reads(Whitening.Recipe(base="burt", fit_on="pairs"), joined)
    assert based.sentences is joined.sentences and "its NLI pairs" in based.name  # BURT learns from the phrases
    with pytest.raises(TrainingError, match="labelled as NLI"):
        make(Whitening, tiny_bert, fit_on="pairs").fit(Corpus("phrases", phrases, labels[-20:]), run=Run())


# Whitening against numpy's own covariance and SVD.


@pytest.fixture
def vectors() -> np.ndarray:
    """Correlated, shifted, of very different scales: 200 x 12."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(200, 12)) * np.geomspace(1, 50, 12)) @ rng.normal(size=(12, 12)) + 7


def make_of_whitening(folder: Path | str, **recipe: object) -> Whitening:
    return Whitening(Whitening.Recipe(backbone=str(folder), **recipe), Runtime())


@pytest.mark.parametrize("k", [None, 5])
def test_covariance_of_the_whitened_data_is_the_identity(vectors: np.ndarray, k: int | None) -> None:
    mean, kernel, rank = whitening(vectors, k, 1e-6)
    y = (vectors - mean) @ kernel
    width = k or 12
    assert kernel.shape == (12, width) and rank == 12
    np.testing.assert_allclose(np.cov(y, rowvar=False), np.eye(width), atol=1e-8)
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-10)


def test_fewer_samples_than_dimensions_stay_finite() -> None:
    x = np.random.default_rng(1).normal(size=(6, 20))
    mean, kernel, rank = whitening(x, None, 1e-6)
    assert rank == 5
    assert np.isfinite(kernel).all() and np.abs(kernel).max() < 1e3
    np.testing.assert_allclose(np.cov((x - mean) @ kernel, rowvar=False)[:5, :5], np.eye(5), atol=1e-8)
    assert not kernel[:, 5:].any()


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_vectors_are_told(count: int) -> None:
    with pytest.raises(ContractError, match=f"at least 2 vectors to fit, got {count}"):
        whitening(np.ones((count, 4)), None, 1e-6)


@pytest.mark.parametrize("k", [1, 32, 256, None, 33, 255, 4096])
def test_more_dimensions_than_there_are_are_refused_but_for_the_default(tiny_bert: Path, k: int | None) -> None:
    """The default is that of base models: of a smaller one it keeps all."""
    if k in (33, 255, 4096):
        with pytest.raises(UsageError, match=f"k={k}, but the vectors have only 32 dimensions"):
            make_of_whitening(tiny_bert, k=k)
    else:
        assert make_of_whitening(tiny_bert, k=k).dim == min(k or 32, 32)


def test_fitted_encoder_equals_the_numpy_recomputation(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    encoder = make_of_whitening(tiny_bert, k=6)
    sentences = pocket_sentences[:80]
    report = encoder.fit(Corpus("pocket", sentences), run=Run())
    pooled = Average(Average.Recipe(backbone=str(tiny_bert), layers="first-last-h1", max_length=64), Runtime())
    x = pooled.encode(sentences).astype(np.float64)
    u, s, _ = np.linalg.svd(np.cov(x, rowvar=False))
    y = (pooled.encode(sentences[:9]) - x.mean(0)) @ (u / np.sqrt(s))[:, :6]
    wanted = y / np.linalg.norm(y, axis=1, keepdims=True)
    vectors = encoder.encode(sentences[:9])
    assert vectors.shape == (9, 6) and vectors.dtype == np.float32
    np.testing.assert_allclose(vectors @ vectors.T, wanted @ wanted.T, atol=1e-4)  # cosines do not know the signs
    # The layer norm of an untrained BERT centres each state, so one direction of the 32 is empty.
    assert report.fitted and report.facts == {"k": 6, "rank": 31} and report.sentences == 80


def test_the_covariance_does_not_depend_on_the_chunks(vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = whitening(vectors, None, 1e-6)
    monkeypatch.setattr("zoo.methods.whitening._CHUNK", 7)
    mean, kernel, rank = whitening(vectors, None, 1e-6)
    assert rank == at_once[2]
    np.testing.assert_allclose(kernel @ kernel.T, at_once[1] @ at_once[1].T, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(mean, at_once[0])


@pytest.mark.slow
def test_the_rank_of_a_fit_to_a_task_is_stated(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    """At most k; that of the base where it is more; none for a map of other texts."""
    texts = pocket_sentences[:9]
    assert make_of_whitening(tiny_bert, fit_on="target", k=16).adapt(texts).fitted_rank() == 8
    assert make_of_whitening(tiny_bert, fit_on="target", k=4).adapt(texts).fitted_rank() == 4
    assert (
        make_of_whitening(tiny_bert, base="whitening-target:k=16", fit_on="target", k=4).adapt(texts).fitted_rank() == 8
    )
    fitted = make_of_whitening(tiny_bert)
    fitted.fit(Corpus("c", texts), run=Run())
    assert fitted.rank == 8 and fitted.fitted_rank() is None
    assert make_of_whitening(tiny_bert, fit_on="target").fitted_rank() is None


# BERT-flow: the likelihood rises, its loss is in bits, and each task of a target flow has the run's seed.

FAST = {"epochs": 4.0, "learning_rate": 1e-3, "batch_size": 16}


def make_of_flow(folder: Path | str, runtime: Runtime | None = None, **recipe: object) -> Flow:
    return Flow(Flow.Recipe(backbone=str(folder), **recipe), runtime or Runtime())


def weights(encoder: Any) -> dict[str, torch.Tensor]:
    return dict(encoder.glow.state_dict())


def same(a: Any, b: Any) -> bool:
    return all(torch.equal(value, weights(b)[name]) for name, value in weights(a).items())


def bits(encoder: Any, vectors: np.ndarray) -> float:
    with torch.inference_mode():
        return float(-encoder.glow.log_prob(torch.from_numpy(vectors)).mean() / (math.log(2) * vectors.shape[1]))


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[Flow, FitReport, np.ndarray, np.ndarray]]:
    """A flow learned on 600 real sentence vectors of zoo-mini; those, and 200 it has not seen."""
    sentences = Path(__file__).parents[3] / "benchmark" / "data" / "pocket" / "sentences.txt"
    texts = sentences.read_text(encoding="utf-8").splitlines()[:800]
    encoder = make_of_flow("zoo-mini", epochs=3.0, learning_rate=1e-3, batch_size=32)
    report = encoder.fit(Corpus("pocket", texts[:600]), run=Run(seed=0))
    vectors = encoder.base.encode(texts)
    yield encoder, report, vectors[:600], vectors[600:]


def test_likelihood_rises_in_training_and_on_unseen_sentences(
    real: tuple[Flow, FitReport, np.ndarray, np.ndarray],
) -> None:
    encoder, report, seen, unseen = real
    assert report.fitted and report.steps == 3 * math.ceil(600 / 32)
    assert report.facts["bits_per_dim"] < report.facts["bits_per_dim_start"] - 0.05
    assert report.facts["bits_per_dim"] == pytest.approx(bits(encoder, seen), abs=1e-4)
    # Against the best Gaussian without correlations, which is where the actnorms start.
    mean, deviation = seen.mean(0), seen.std(0)
    gaussian = (np.log(deviation) + 0.5 * np.log(2 * np.pi) + ((unseen - mean) / deviation) ** 2 / 2).mean() / np.log(2)
    assert bits(encoder, unseen) < gaussian - 0.05


def test_loss_is_bits_per_dimension_in_float32_under_bf16(tiny_bert: Path) -> None:
    encoder = make_of_flow(tiny_bert)
    vectors = torch.randn(9, 32)
    loss = NegativeLogLikelihood(encoder.glow)
    z, log_det = encoder.glow(vectors)
    log_p = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1) + log_det
    assert float(loss(vectors).detach()) == pytest.approx(float(-log_p.mean().detach()) / (math.log(2) * 32), rel=1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(loss(vectors), loss(vectors.double()))
        assert loss(vectors).dtype == torch.float32


def test_a_part_of_an_epoch_and_a_constant_rate(tiny_bert: Path, tmp_path: Path, pocket_sentences: list[str]) -> None:
    seen: list[tuple[int, float]] = []
    encoder = make_of_flow(tiny_bert, epochs=0.25, batch_size=4, learning_rate=7e-4)
    run = Run(seed=0, log_values=lambda step, values: seen.append((step, values["learning_rate"])))
    report = encoder.fit(Corpus("pocket", pocket_sentences[:200]), run=run)
    assert report.steps == 12  # a quarter of 50, to even
    assert seen == [(10, 7e-4), (12, 7e-4)]


@pytest.mark.slow
def test_a_target_flow_learns_each_task_with_the_runs_seed(
    tiny_bert: Path, tmp_path: Path, pocket_sentences: list[str]
) -> None:
    encoder = make_of_flow(tiny_bert, fit_on="target", **FAST)
    before = encoder.fingerprint()
    assert not encoder.fit(None, run=Run(seed=4)).fitted
    first, second = encoder.adapt(pocket_sentences[:60]), encoder.adapt(pocket_sentences[60:120])
    assert not same(first, second) and not same(first, encoder) and encoder.facts() == {}
    assert first.facts()["bits_per_dim"] < first.facts()["bits_per_dim_start"]
    fitted = make_of_flow(tiny_bert, **FAST)
    fitted.fit(Corpus("same", pocket_sentences[:60]), run=Run(seed=4))
    assert same(first, fitted)
    # The seed travels with the saved encoder: it matters to flows that are yet to come.
    assert encoder.fingerprint() != before
    encoder.save(tmp_path)
    assert same(Flow.load(tmp_path).adapt(pocket_sentences[:60]), first)
