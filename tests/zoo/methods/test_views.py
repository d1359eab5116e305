"""Methods that compare two views of a sentence."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from zoo.encoder import Corpus, Encoder, Run, Runtime
from zoo.errors import ContractError, TrainingError, UsageError
from zoo.methods.consert import ConSERTContinued, ConSERTJoint, start_of
from zoo.methods.isbert import ISBert
from zoo.methods.rankcse import RankCSE, disagreement, list_mle, list_net
from zoo.methods.tsdae import decoder_of
from zoo.methods.twoviews import TwoViews, cut_features, cut_tokens, shuffled_positions
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

GOLDEN = {
    "mixcse": {"version": 2, "values": [-1.0, 0.5436, -0.3705, 0.0946, 0.5682, -0.2811, 0.1307, 1.0]},
    "rankcse": {"version": 2, "values": [-1.0, 0.5341, -0.5157, 0.2601, 0.9546, -0.4574, -0.1941, 1.0]},
    "simcse-plus-plus": {"version": 2, "values": [-1.0, 0.5268, -0.4563, 0.1273, 0.7511, -0.0969, -0.2756, 1.0]},
    "twoviews": {"version": 2, "values": [-1.0, 0.5146, -0.3937, 0.232, 0.8975, -0.1988, -1.0, 0.446]},
    "consert-continued": {"version": 2, "values": [0.5473, -0.2649, 0.6134, 1.0, 0.8357, -0.571, 1.0, 0.8833]},
    "consert-joint": {"version": 2, "values": [0.1076, 0.0846, -0.1939, 1.0, 1.0, -0.7157, -0.6007, 0.6811]},
    "isbert": {
        "version": 2,
        "tolerance": 0.003,
        "values": [-0.3647, 1.0, 0.9337, -0.6798, 0.0249, -0.3294, 1.0, 0.1364],
    },
    "tsdae": {"version": 2, "tolerance": 0.04, "values": [-0.0879, -0.3341, 0.8112, 1.0, 0.1651, -0.3629, 1.0, 0.4947]},
}


# SimCSE++, MixCSE and RankCSE: their losses by hand, negatives without dropout, teachers.

WORDS = "cat dog tree house river stone cloud bird".split()
CORPUS = Corpus("toy", [f"the {a} sees a {b} near the {a}" for a in WORDS for b in WORDS])


def encoder_of(name: str, folder: Path, **fields: Any) -> Any:
    cls, recipe = parse_methods(name, all_recipes())[0].resolve({"backbone": str(folder)})
    fields = {"batch_size": 8, "learning_rate": 1e-3, **fields}
    return cls(dataclasses.replace(recipe, **fields), Runtime())


def test_negatives_without_dropout_are_those_of_evaluation(tiny_bert: Path) -> None:
    objective = encoder_of("simcse-plus-plus", tiny_bert).objective().train()
    ids, mask = torch.randint(1000, 2000, (4, 6)), torch.ones(4, 6, dtype=torch.long)
    first, second, without = objective.embed(ids, mask)
    assert not torch.allclose(first, second) and objective.pooler.training and without.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(without, objective.eval().pooler(ids, mask))


def test_a_paper_s_mixture_is_one_negative_more(tiny_bert: Path) -> None:
    objective = encoder_of("mixcse", tiny_bert).objective()
    h, h_plus = (F.normalize(torch.randn(3, 4), dim=-1) for _ in range(2))
    mixture = F.normalize(0.2 * h_plus + 0.8 * h_plus[[1, 2, 0]], dim=-1)
    logits = torch.cat([h @ h_plus.T, (h * mixture).sum(1, keepdim=True)], 1).numpy() / 0.05
    wanted = np.mean([np.log(np.exp(row).sum()) - row[i] for i, row in enumerate(logits.astype(np.float64))])
    assert float(objective.contrast(h, h_plus)) == pytest.approx(wanted, abs=1e-4)


def test_rankings_by_hand() -> None:
    """The slip of the divergence as issue 44 states it in kind: negative where the divergence is positive."""
    p, q = torch.tensor([[0.9, 0.1]]), torch.tensor([[0.1, 0.9]])
    js = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
    entropy = 0.9 * np.log(0.9) + 0.1 * np.log(0.1)
    assert float(disagreement(p, q, clamped=False)) == pytest.approx(js, abs=1e-6)
    assert float(disagreement(p, q, clamped=True)) == pytest.approx(entropy, abs=1e-5) and entropy < 0 < js
    student, teacher = torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([[0.0, 5.0, 7.0]])
    e = np.exp([2.0, 3.0, 1.0])  # in the teacher's order
    likelihood = e[0] / e.sum() * e[1] / e[1:].sum()
    assert float(list_mle(student, teacher)) == pytest.approx(-np.log(likelihood), abs=1e-5)
    low = torch.tensor([[0.0, 40.0]])  # the worse one first: the last tail is e^-40 of the largest
    assert float(list_mle(low, torch.tensor([[0.0, 1.0]]), 1e-7)) == pytest.approx(40 + math.log(1e-7), abs=1e-3)
    assert float(list_net(torch.zeros(3, 3), torch.randn(3, 3))) == pytest.approx(np.log(2), abs=1e-6)


def test_teachers_are_trained_first(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = encoder_of("rankcse", tiny_bert, teachers=("simcse:batch_size=16", "avg-last"), batch_size=16)
    report = encoder.fit(CORPUS, run=Run(tmp_path, seed=1))
    assert report.steps == 4 and (tmp_path / "teacher-0").is_dir() and not encoder.vectors
    sources = RankCSE.sources(encoder.recipe, Runtime())
    assert [sources[f"teacher-{i}"]["method"] for i in range(2)] == ["simcse", "avg"]
    passes = RankCSE.traits(encoder.recipe).training_passes
    assert passes == pytest.approx(2 + 2 + 2 / 3)
    with pytest.raises(UsageError, match="has teachers itself"):
        RankCSE.traits(dataclasses.replace(encoder.recipe, teachers=("rankcse",)))


# ConSERT and CLEAR: the embedding-layer views, the augmented ones; test_releases has the loss.

SENTENCES = [f"the {a} sees a small {b}" for a in ("cat", "dog", "bird", "man") for b in ("tree", "house", "boat")]


def test_shuffled_positions_permute_the_attended_ones_only() -> None:
    torch.manual_seed(0)
    mask = torch.tensor([[1] * 9, [1] * 4 + [0] * 5])
    positions = shuffled_positions(mask, 2)
    assert sorted(positions[0].tolist()) == list(range(2, 11))
    assert sorted(positions[1, :4].tolist()) == [2, 3, 4, 5]
    assert positions[0].tolist() != list(range(2, 11))


def test_cutoff_clears_the_same_share_at_all_positions() -> None:
    torch.manual_seed(0)
    cut = cut_features(torch.ones(3, 4, 20), 0.2)
    assert (cut.sum(2) == 16).all()
    assert (cut == cut[:, :1]).all(), "one choice for all positions of a sentence"
    assert not torch.equal(cut[0], cut[1])


def test_embedding_views_reach_the_encoder_leave_no_hook(tiny_bert: Path) -> None:
    recipe = TwoViews.Recipe(
        backbone=str(tiny_bert), pooler="avg_top2", shuffle=(False, True), cutoff=(0.2, 0.0), dropout=0.0
    )
    encoder = TwoViews(recipe, Runtime())
    objective = encoder.objective().eval()
    batch = encoder.training_rows(Corpus("toy", SENTENCES), Run())[0](np.arange(6))
    ids, mask = batch[:2]
    with torch.no_grad():
        torch.manual_seed(0)
        first, second = objective.embed(*batch)
        plain = objective.pooler(ids, mask)
        torch.manual_seed(0)
        model = encoder.backbone.model
        embedded = cut_features(model.embeddings(input_ids=ids), 0.2)
        # By hand through the layers: the cut comes after the embedding layer's own LayerNorm.
        extended = (1.0 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        states = [embedded]
        for layer in model.encoder.layer:
            output = layer(states[-1], extended)
            states.append(output[0] if isinstance(output, tuple) else output)
        top2 = (states[-1] + states[-2]) / 2
        wanted = (top2 * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        positions = shuffled_positions(mask, 0)
        shuffled = model(input_ids=ids, attention_mask=mask, position_ids=positions, output_hidden_states=True)
    torch.testing.assert_close(first, wanted, atol=1e-5, rtol=1e-4)
    by_hand = (shuffled.hidden_states[-1] + shuffled.hidden_states[-2]) / 2
    by_hand = (by_hand * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
    torch.testing.assert_close(second, by_hand, atol=1e-5, rtol=1e-4)
    assert (plain - first).abs().max() > 1e-4 and (plain - second).abs().max() > 1e-6
    with torch.no_grad():
        torch.testing.assert_close(objective.pooler(ids, mask), plain)


@pytest.mark.slow
def test_both_views_are_augmented_differently(tiny_bert: Path) -> None:
    augment = ("delete:0.7:word", "span-delete:5x0.05", "span-reorder:5x0.05", "substitute:0.3")
    encoder = TwoViews(TwoViews.Recipe(backbone=str(tiny_bert), augment=augment, pooler="avg"), Runtime())
    ids, mask, other_ids, _ = encoder.training_rows(Corpus("toy", SENTENCES), Run())[0](np.arange(12))
    assert ids.shape != other_ids.shape or not torch.equal(ids, other_ids)
    assert (ids[:, 0] == 101).all() and (other_ids[:, 0] == 101).all()
    assert all(row[int(n) - 1] == 102 for row, n in zip(ids, mask.sum(1), strict=True))
    report = encoder.fit(Corpus("toy", SENTENCES), run=Run(seed=0))
    assert report.steps == 1 and np.isfinite(report.final_loss)


# ConSERT: its token cutoff, the checkpoint that is picked, and the second training that goes on from the first.

NLI_WORDS = "cat dog tree house river stone cloud bird".split()
NLI_SENTENCES = [
    f"the {a} sees a {b} near the old {a}" + " again" * (i % 3) for i, a in enumerate(NLI_WORDS) for b in NLI_WORDS
]
LABELS = ["entailment", "neutral", "contradiction", "neutral"]
PAIRS = Corpus("pairs", NLI_SENTENCES, LABELS * 8)


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

    encoder.fit(Corpus("toy", NLI_SENTENCES[:16]), dev_score=score, run=Run(seed=0))
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
    second.fit(Corpus("sentences", NLI_SENTENCES), run=Run(seed=2))
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
        ConSERTJoint(ConSERTJoint.Recipe(backbone=str(tiny_bert)), Runtime()).fit(Corpus("x", NLI_SENTENCES), run=Run())
    phrases = Corpus("phrases", NLI_SENTENCES[:4], ["ppdb:equivalence"] * 2)
    with pytest.raises(TrainingError, match="NLI"):
        continued(tiny_bert).fit(phrases, run=Run())


# IS-BERT: the head of the best dev score is kept; test_releases has its loss and gradients.


def make(folder: Path, **more: Any) -> ISBert:
    chosen = {"batch_size": 8, "learning_rate": 1e-3, "channels": 5, **more}
    return ISBert(ISBert.Recipe(backbone=str(folder), **chosen), Runtime())


def test_the_head_of_the_best_dev_score_is_kept(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    encoder, seen, values = make(tiny_bert, eval_every=1), [], iter([1.0, 2.0, 0.5])

    def score(e: Encoder) -> float:
        seen.append(e.encode(["a dog"])[0])
        return next(values)

    encoder.fit(Corpus("p", pocket_sentences[:24]), dev_score=score, run=Run(seed=1))
    np.testing.assert_array_equal(encoder.encode(["a dog"])[0], seen[1])
    assert np.abs(seen[1] - seen[2]).max() > 0


# TSDAE: what its decoder shares with its encoder, and how much of a sentence is deleted.


def test_the_decoder_has_the_encoder_s_weights(vivid_bert: Path) -> None:
    encoder = encoder_of("tsdae", vivid_bert)
    parameters = dict(encoder.backbone.model.named_parameters())
    for tied in (True, False):
        decoder = decoder_of(encoder.backbone, Runtime(), tied=tied)
        theirs = dict(decoder.bert.named_parameters())
        assert all((theirs[name] is p) is tied and torch.equal(theirs[name], p) for name, p in parameters.items())
        new = {name for name in theirs if name not in parameters}
        assert new and all("crossattention" in name for name in new)
    batch, _ = encoder.training_rows(CORPUS, Run())
    _, mask, ids, _ = batch(np.arange(8))
    words = int((ids[0] != 0).sum()) - 2
    assert int(mask[0].sum()) - 2 == words - int(0.6 * words)
