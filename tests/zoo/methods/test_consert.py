"""ConSERT: its token cutoff, the checkpoint that is picked, and the second training that goes on from the first."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.errors import ContractError, TrainingError
from zoo.methods.consert import ConSERTContinued, ConSERTJoint, start_of
from zoo.methods.twoviews import TwoViews, cut_tokens
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

GOLDEN = {
    "consert-continued": {"version": 2, "values": [0.5473, -0.2649, 0.6134, 1.0, 0.8357, -0.571, 1.0, 0.8833]},
    "consert-joint": {"version": 2, "values": [0.1076, 0.0846, -0.1939, 1.0, 1.0, -0.7157, -0.6007, 0.6811]},
}

WORDS = "cat dog tree house river stone cloud bird".split()
SENTENCES = [f"the {a} sees a {b} near the old {a}" + " again" * (i % 3) for i, a in enumerate(WORDS) for b in WORDS]
LABELS = ["entailment", "neutral", "contradiction", "neutral"]
PAIRS = Corpus("pairs", SENTENCES, LABELS * 8)


def resolved(text: str, **defaults: Any) -> tuple[type[Encoder], Any]:
    return parse_methods(text, all_recipes())[0].resolve(defaults)


def test_token_cutoff_clears_a_share_of_each_sentences_tokens() -> None:
    torch.manual_seed(0)
    mask = torch.tensor([[1] * 10, [1] * 5 + [0] * 5])
    cut = cut_tokens(torch.ones(2, 10, 3), mask, 0.4)
    cleared = (cut == 0).all(2)
    assert (cleared == (cut == 0).any(2)).all(), "whole tokens"
    assert cleared[0].sum() == 4 and cleared[1, :5].sum() == 2


def test_a_checkpoint_is_picked_by_the_pooling_of_training(tiny_bert: Path) -> None:
    recipe = dataclasses.replace(resolved("consert-repo", backbone=str(tiny_bert))[1], batch_size=8, epochs=1)
    encoder, seen = TwoViews(recipe, Runtime()), []

    def score(asked: Any) -> float:
        seen.append((asked.pooling, asked.encode(["the old cat"])[0].copy()))
        return float(len(seen))

    encoder.fit(Corpus("toy", SENTENCES[:16]), dev_score=score, run=Run(seed=0))
    assert {pooling for pooling, _ in seen} == {"last"} and encoder.pooling == "top2"
    states = encoder.backbone.model(
        **encoder.backbone.tokenizer("the old cat", return_tensors="pt"), output_hidden_states=True
    ).hidden_states
    np.testing.assert_allclose(seen[-1][1], states[-1][0].mean(0).detach().numpy(), atol=1e-5)
    wanted = ((states[-1] + states[-2]) / 2)[0].mean(0).detach().numpy()
    np.testing.assert_allclose(encoder.encode(["the old cat"])[0], wanted, atol=1e-5)


def continued(folder: Path, **fields: Any) -> ConSERTContinued:
    start = "consert-joint:batch_size=8:learning_rate=1e-3"
    more = {"batch_size": 8, "shuffle": (False, True), "learning_rate": 1e-3, "pooler": "avg", **fields}
    return ConSERTContinued(ConSERTContinued.Recipe(backbone=str(folder), start=start, **more), Runtime())


@pytest.mark.slow
def test_the_second_training_goes_on_from_the_first(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = continued(tiny_bert)
    first = ConSERTJoint(start_of(encoder.recipe)[2], Runtime())
    first.fit(PAIRS, run=Run(seed=2))
    second = TwoViews(TwoViews.Recipe(backbone=str(tiny_bert), batch_size=8, shuffle=(False, True)), Runtime())
    second.recipe = dataclasses.replace(second.recipe, learning_rate=1e-3, pooler="avg")
    second.backbone.model.load_state_dict(first.backbone.model.state_dict())
    second.fit(Corpus("sentences", SENTENCES), run=Run(seed=2))
    report = encoder.fit(PAIRS, run=Run(tmp_path, seed=2))
    assert encoder.backbone.weights_sha256() == second.backbone.weights_sha256()
    assert (report.steps, report.facts["start_steps"]) == (8, 4) and (tmp_path / "start").is_dir()


def test_needs_and_identity_are_those_of_both_trainings(tiny_bert: Path) -> None:
    encoder = continued(tiny_bert)
    traits = ConSERTContinued.traits(encoder.recipe)
    assert (traits.needs_pairs, traits.needs_corpus, traits.supervised) == (True, False, True)
    assert traits.training_passes == 4.0
    sources = ConSERTContinued.sources(encoder.recipe, Runtime())
    assert sources["start"]["method"] == "consert-joint" and sources["start"]["recipe"]["batch_size"] == 8
    assert str(tiny_bert) not in repr(sources["start"])
    plain = ConSERTContinued.Recipe(start="consert")
    assert ConSERTContinued.traits(plain).needs_corpus and not ConSERTContinued.traits(plain).supervised


def test_what_cannot_be_is_refused(tiny_bert: Path) -> None:
    with pytest.raises(ContractError, match="labelled pairs"):
        ConSERTJoint(ConSERTJoint.Recipe(backbone=str(tiny_bert)), Runtime()).fit(Corpus("x", SENTENCES), run=Run())
    phrases = Corpus("phrases", SENTENCES[:4], ["ppdb:equivalence"] * 2)
    with pytest.raises(TrainingError, match="NLI"):
        continued(tiny_bert).fit(phrases, run=Run())
