"""A transform on any encoder: what it then needs, what its key says, and what base and map are fitted on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zoo.encoder import Corpus, FitReport, Run, Runtime, Traits
from zoo.errors import TrainingError, UsageError
from zoo.methods.flow import Flow
from zoo.methods.simcse import SimCSE
from zoo.methods.transform import base_of
from zoo.methods.whitening import Whitening, whitening
from zoo.recipes import all_recipes, build
from zoo.selection import parse_methods

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


def test_a_flow_depends_on_the_seed() -> None:
    assert Flow.traits(Flow.Recipe()).stochastic and not traits().stochastic


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
