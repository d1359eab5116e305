"""SimCSE: its loss in numpy, its two dropout views, its test vector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from transformers import AutoModel, AutoTokenizer

from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.pooling import pool
from zoo.errors import ContractError, TrainingError
from zoo.methods.simcse import SimCSE, SimCSEObjective, triplets
from zoo.modules.heads import TanhHead
from zoo.modules.pooler import TrainedPooler
from zoo.training.auxiliary import mask_some
from zoo.training.losses import info_nce

GOLDEN = {"simcse": {"version": 1, "values": [-0.7124, 0.5674, -0.1219, 1.0, 0.3934, -0.0514, 0.1505, 1.0]}}

IDS = torch.tensor([[101, 1037, 2235, 3899, 102], [101, 4542, 102, 0, 0], [101, 2048, 2308, 102, 0]])
MASK = (IDS != 0).long()


def objective_of(folder: Path, **fields: Any) -> SimCSEObjective:
    recipe = SimCSE.Recipe(**fields)
    return SimCSEObjective(TrainedPooler(AutoModel.from_pretrained(folder), recipe.pooler), recipe)


def numpy_info_nce(queries: np.ndarray, candidates: np.ndarray, temperature: float) -> float:
    total = 0.0
    for i, h in enumerate(queries.astype(np.float64)):
        cosines = [h @ c / np.linalg.norm(h) / np.linalg.norm(c) for c in candidates.astype(np.float64)]
        scores = np.exp(np.array(cosines) / temperature)
        total -= np.log(scores[i] / scores.sum())
    return total / len(queries)


@pytest.mark.parametrize("extra", [0, 7])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_info_nce_equals_numpy(temperature: float, extra: int) -> None:
    generator = torch.Generator().manual_seed(1)
    queries = torch.randn(5, 8, generator=generator)
    candidates = torch.cat([queries + 0.3, torch.randn(extra, 8, generator=generator)])
    wanted = numpy_info_nce(queries.numpy(), candidates.numpy(), temperature)
    assert float(info_nce(queries, candidates, temperature)) == pytest.approx(wanted, abs=1e-6)


def test_info_nce_is_float32_under_autocast() -> None:
    generator = torch.Generator().manual_seed(1)
    queries, candidates = (torch.randn(5, 8, generator=generator) for _ in range(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = info_nce(queries, candidates, 0.05)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(numpy_info_nce(queries.numpy(), candidates.numpy(), 0.05), abs=1e-5)


def test_the_views_of_a_sentence_differ_by_dropout_only(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zoo.methods.simcse as module

    views: list[torch.Tensor] = []

    def spy(h: torch.Tensor, h_plus: torch.Tensor, temperature: float, **_: Any) -> torch.Tensor:
        views.extend((h, h_plus))
        return (h * 0).sum()

    monkeypatch.setattr(module, "info_nce", spy)
    objective = objective_of(tiny_bert)
    objective.train()(IDS[:, None], MASK[:, None])
    objective.eval()(IDS[:, None], MASK[:, None])
    assert (views[0] - views[1]).abs().max() > 1e-4
    torch.testing.assert_close(views[2], views[3])


def test_head_starts_as_bert_initialises_linear_maps() -> None:
    torch.manual_seed(0)
    head = TanhHead(400)
    assert float(head.dense.weight.detach().std()) == pytest.approx(0.02, rel=0.02)
    assert float(head.dense.weight.detach().mean()) == pytest.approx(0, abs=2e-4)
    assert not head.dense.bias.any()


def test_training_changes_weights_test_vector_has_no_mlp(tiny_bert: Path) -> None:
    encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_bert), batch_size=4, learning_rate=1e-3), Runtime())
    before, mark = encoder.backbone.weights_sha256(), encoder.fingerprint()
    report = encoder.fit(Corpus("toy", [f"sentence number {i}" for i in range(8)]), run=Run(seed=1))
    assert report.fitted and report.steps == 2 and np.isfinite(report.final_loss)
    assert encoder.backbone.weights_sha256() != before and encoder.fingerprint() != mark
    ids = torch.tensor([encoder.backbone.tokenizer("a small dog")["input_ids"]])
    with torch.inference_mode():
        states = encoder.backbone.model(ids).last_hidden_state
    np.testing.assert_allclose(encoder.encode(["a small dog"])[0], states[0, 0].numpy(), atol=1e-6)


def test_training_cuts_sentences_at_the_training_length_only(tiny_bert: Path) -> None:
    encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_bert), train_max_length=8), Runtime())
    batch, rows = encoder.training_rows(Corpus("toy", ["word " * 50, "one"]), Run())
    ids, mask = batch(np.array([0, 1]))
    assert rows == 2 and ids.shape == (2, 1, 8) and mask.sum(2).tolist() == [[8], [3]]
    assert ids[0, 0, -1] == encoder.backbone.tokenizer.sep_token_id
    encoder.encode(["word " * 50])
    assert encoder.encoding_stats()["tokens"] == 52


TRIPLETS = [("a dog runs", "an animal moves", "a dog sleeps"), ("two men talk", "people speak", "nobody speaks")]


@pytest.mark.parametrize("weight", [0.0, float(np.log(2))])
def test_supervised_loss_equals_numpy_with_hard_negatives(tiny_bert: Path, weight: float) -> None:
    """SimCSE Eq. 5 and 8: alpha multiplies exp(cos(h_i, own hard negative) / temperature) only."""
    encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_bert), supervised=True, hard_negative_weight=weight), Runtime())
    torch.manual_seed(0)
    objective = encoder.objective().eval()
    batch = encoder.stacked(TRIPLETS)(np.arange(2))
    with torch.inference_mode():
        h, h_plus, h_minus = (v.double().numpy() for v in objective.embed(*batch))
        loss = float(objective(*batch))

    def score(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.exp(a @ b / np.linalg.norm(a) / np.linalg.norm(b) / 0.05))

    total = 0.0
    for i in range(2):
        positives = sum(score(h[i], h_plus[j]) for j in range(2))
        negatives = sum(score(h[i], h_minus[j]) * (np.exp(weight) if i == j else 1.0) for j in range(2))
        total -= np.log(score(h[i], h_plus[i]) / (positives + negatives))
    assert loss == pytest.approx(total / 2, abs=1e-5)


def test_triplets_pair_entailment_with_contradiction() -> None:
    sentences, labels = [], []
    for premise, hypothesis, label in [
        ("p", "e1", "entailment"), ("p", "n", "neutral"), ("q", "e", "entailment"), ("p", "c1", "contradiction"),
        ("p", "e2", "entailment"), ("p", "c2", "contradiction"), ("p", "e3", "entailment"), ("r", "c", "contradiction"),
    ]:  # fmt: skip
        sentences += [premise, hypothesis]
        labels.append(label)
    assert triplets(Corpus("nli", sentences, labels)) == [("p", "e1", "c1"), ("p", "e2", "c2")]
    with pytest.raises(TrainingError, match="no premise"):
        triplets(Corpus("nli", ["a", "b"], ["neutral"]))
    with pytest.raises(ContractError, match="--pairs"):
        triplets(Corpus("wiki", ["a", "b"]))


def nli(times: int = 4) -> Corpus:
    rows = [(a, b, "entailment") for a, b, _ in TRIPLETS] + [(a, c, "contradiction") for a, _, c in TRIPLETS]
    rows = [(f"{a} {i}", b, label) for i in range(times) for a, b, label in rows]
    return Corpus("nli", [text for a, b, _ in rows for text in (a, b)], [label for *_, label in rows])


def test_supervised_test_vector_has_the_mlp_also_saved(tiny_bert: Path, tmp_path: Path) -> None:
    recipe = SimCSE.Recipe(backbone=str(tiny_bert), supervised=True, mlp_only_train=False, batch_size=4, epochs=2)
    encoder = SimCSE(recipe, Runtime())
    assert SimCSE.traits(recipe).needs_pairs and not SimCSE.traits(recipe).needs_corpus
    before, mark = encoder.encode(["a small dog"]), encoder.fingerprint()
    report = encoder.fit(nli(), run=Run(seed=1))
    assert report.steps == 4 and encoder.fingerprint() != mark
    after = encoder.encode(["a small dog"])
    assert not np.allclose(before, after)
    ids = torch.tensor([encoder.backbone.tokenizer("a small dog")["input_ids"]])
    dense = encoder.mlp.dense
    with torch.inference_mode():
        cls = encoder.backbone.model(ids).last_hidden_state[0, 0].numpy()
    np.testing.assert_allclose(
        after[0], np.tanh(dense.weight.detach().numpy() @ cls + dense.bias.detach().numpy()), atol=1e-6
    )
    encoder.save(tmp_path / "saved")
    again = SimCSE.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.encode(["a small dog"]), after)
    assert again.fingerprint() == encoder.fingerprint()


LAYERS = {
    "cls": "cls",
    "cls_before_pooler": "cls",
    "avg": "last",
    "avg_top2": "top2",
    "avg_first_last": "first-last-h1",
}


@pytest.mark.parametrize("pooler", LAYERS)
def test_five_poolers_train_and_test_alike_only_cls_has_mlp(tiny_bert: Path, pooler: str) -> None:
    layers = LAYERS[pooler]
    encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_bert), pooler=pooler), Runtime())
    objective = encoder.objective().eval()
    with torch.inference_mode():
        vectors = objective.pooler(IDS, MASK)
        states = encoder.backbone.model(IDS, attention_mask=MASK, output_hidden_states=True).hidden_states
        wanted = pool(states, MASK, layers)
        if pooler == "cls":
            wanted = torch.tanh(objective.pooler.mlp.dense(wanted))
    torch.testing.assert_close(vectors, wanted)
    assert any("mlp" in name for name, _ in objective.named_parameters()) == (pooler == "cls")
    assert encoder.pooling == layers


def test_the_mlm_companion_adds_its_weighted_cross_entropy(tiny_mlm: Path) -> None:
    encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_mlm), mlm_weight=0.1), Runtime())
    objective = encoder.objective().eval()
    batch = (IDS[:, None], MASK[:, None])
    with torch.inference_mode():
        torch.manual_seed(5)
        h, h_plus, mlm = objective.embed(*batch)
        torch.manual_seed(5)
        loss = float(objective(*batch))
    assert int(mlm[:, 1].sum()) > 0
    wanted = numpy_info_nce(h.numpy(), h_plus.numpy(), 0.05) + 0.1 * float(mlm[:, 0].sum() / mlm[:, 1].sum())
    assert loss == pytest.approx(wanted, abs=1e-5)


def test_masking_takes_the_declared_share_and_no_special_token() -> None:
    torch.manual_seed(0)
    ids = torch.randint(1000, 2000, (200, 50))
    ids[:, 0], ids[:, -1] = 101, 102
    special_ids = torch.tensor([0, 101, 102, 103])
    corrupted, chosen = mask_some(ids, 0.15, mask_id=103, special_ids=special_ids, vocabulary=30522)
    assert not chosen[:, 0].any() and not chosen[:, -1].any()
    assert torch.equal(corrupted[~chosen], ids[~chosen])
    assert float(chosen[:, 1:-1].float().mean()) == pytest.approx(0.15, abs=0.01)
    masked, kept = (corrupted[chosen] == 103).float().mean(), (corrupted[chosen] == ids[chosen]).float().mean()
    assert float(masked) == pytest.approx(0.8, abs=0.03) and float(kept) == pytest.approx(0.1, abs=0.03)


def first_gradients(encoder: SimCSE, corpus: Corpus) -> list[torch.Tensor]:
    gradients: list[torch.Tensor] = []
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: gradients.extend(p.grad.clone() for g in optimizer.param_groups for p in g["params"])
    )
    encoder.fit(corpus, run=Run(seed=1))
    hook.remove()
    return gradients


class WithEqualViews(SimCSE):
    """Trains although dropout is off: gradients are compared, and the views may be equal."""

    views_by_dropout = False


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{}, {"mlm_weight": 0.1}])
def test_the_gradient_cache_gives_the_whole_batchs_gradient(
    tiny_mlm: Path, pocket_sentences: list[str], fields: dict[str, float]
) -> None:
    """With dropout off both ways see the same network; one step of plain SGD-like AdamW shows the gradient."""
    weights = []
    for chunk_rows in (None, 5, 3):
        recipe = SimCSE.Recipe(
            backbone=str(tiny_mlm), batch_size=16, chunk_rows=chunk_rows, dropout=0.0, learning_rate=1e-3, **fields
        )
        encoder = WithEqualViews(recipe, Runtime())
        if fields:  # masks are drawn chunk by chunk: only the repeatability of the cache itself can be compared
            encoder.fit(Corpus("p", pocket_sentences[:32]), run=Run(seed=1))
            again = WithEqualViews(recipe, Runtime())
            again.fit(Corpus("p", pocket_sentences[:32]), run=Run(seed=1))
            assert encoder.backbone.weights_sha256() == again.backbone.weights_sha256()
            continue
        weights.append(first_gradients(encoder, Corpus("p", pocket_sentences[:16])))
    for other in weights[1:]:
        for a, b in zip(weights[0], other, strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_an_augmented_positive_loses_words_and_nothing_else(tiny_bert: Path, pocket_sentences: list[str]) -> None:
    """SimCSE table 1: the second view has int(0.1 N) words less, or is a contiguous 90 %; the first is the sentence."""
    corpus = Corpus("pocket", pocket_sentences[:24])
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    rows = np.arange(24)
    for augment in ("crop:0.1", "delete:0.1:word"):
        encoder = SimCSE(SimCSE.Recipe(backbone=str(tiny_bert), augment=(augment,)), Runtime())
        batch, count = encoder.training_rows(corpus, Run(seed=3))
        ids, mask = batch(rows)
        assert count == 24 and ids.shape[:2] == (24, 2) and ids.shape == mask.shape
        for i, sentence in enumerate(corpus.sentences):
            plain, view = (ids[i, v][mask[i, v].bool()].tolist() for v in (0, 1))
            assert plain == tokenizer(sentence, truncation=True, max_length=32)["input_ids"]
            inner, kept = plain[1:-1], view[1:-1]
            if augment.startswith("crop"):
                assert len(kept) == len(inner) - int(0.1 * len(inner))
                assert any(inner[j : j + len(kept)] == kept for j in range(len(inner)))
            else:
                words, remaining = (
                    sum(not token.startswith("##") for token in tokenizer.convert_ids_to_tokens(some))
                    for some in (inner, kept)
                )
                assert remaining == words - int(0.1 * words)
        assert all(torch.equal(a, b) for a, b in zip(batch(rows), (ids, mask), strict=True))  # a resumed run's draws
    report = encoder.fit(corpus, run=Run(seed=3))
    assert report.steps == 1 and np.isfinite(report.final_loss)
