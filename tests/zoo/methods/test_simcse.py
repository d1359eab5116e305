"""SimCSE: its losses in numpy, its triplets, its poolers, the MLM companion, the gradient cache."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from zoo.encoder import Corpus, Run, Runtime
from zoo.engine.states import pool
from zoo.errors import ContractError, TrainingError
from zoo.methods.simcse import SimCSE, SimCSEObjective, SimCSERecipe, triplets
from zoo.modules.pooler import TrainedPooler
from zoo.progress import Progress
from zoo.training.losses import info_nce, mask_some

GOLDEN = {"simcse": {"version": 2, "values": [-1.0, 0.5478, -0.3679, 0.0983, 0.5947, -0.2991, 0.1237, 1.0]}}

IDS = torch.tensor([[101, 1037, 2235, 3899, 102], [101, 4542, 102, 0, 0], [101, 2048, 2308, 102, 0]])
MASK = (IDS != 0).long()


def numpy_info_nce(queries: np.ndarray, candidates: np.ndarray, temperature: float) -> float:
    total = 0.0
    for i, h in enumerate(queries.astype(np.float64)):
        cosines = [h @ c / np.linalg.norm(h) / np.linalg.norm(c) for c in candidates.astype(np.float64)]
        scores = np.exp(np.array(cosines) / temperature)
        total -= np.log(scores[i] / scores.sum())
    return total / len(queries)


def test_info_nce_is_float32_under_autocast() -> None:
    generator = torch.Generator().manual_seed(1)
    queries, candidates = (torch.randn(5, 8, generator=generator) for _ in range(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = info_nce(queries, candidates, 0.05)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(numpy_info_nce(queries.numpy(), candidates.numpy(), 0.05), abs=1e-5)


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


@pytest.mark.parametrize(
    ("fields", "alike"),
    [
        ({}, True),
        ({"positives": "halves"}, False),
        ({"augment": ("reorder:0.2",)}, False),
        ({"supervised": True}, False),
    ],
)
def test_two_equal_views_need_dropout(tiny_bert: Path, fields: dict[str, Any], alike: bool) -> None:
    assert SimCSE(SimCSE.Recipe(backbone=str(tiny_bert), **fields), Runtime()).views_by_dropout is alike


class HeadObjective(SimCSEObjective):
    def __init__(self, pooler: TrainedPooler, recipe: SimCSERecipe) -> None:
        super().__init__(pooler, recipe)
        self.head = torch.nn.Linear(pooler.dim, 3)

    def contrast(self, h: torch.Tensor, h_plus: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return super().contrast(*map(self.head, (h, h_plus, *others)))


class WithViews(SimCSE):
    """Views drawn by the run's seed, one to three of each sentence."""

    loss_of_batch = HeadObjective
    width = 2
    numbers: list[list[float]]

    def views(self, corpus: Corpus, draw: random.Random) -> list[tuple[str, ...]]:
        self.numbers = [[draw.random() for _ in range(self.width)] for _ in corpus.sentences]
        return [
            tuple(f"{text} {number}" for number in row)
            for text, row in zip(corpus.sentences, self.numbers, strict=True)
        ]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_views_of_a_subclass_are_drawn_by_the_seed_and_reach_its_loss(tiny_bert: Path, width: int) -> None:
    drawn, vectors = [], []
    for seed in (1, 1, 2):
        encoder = WithViews(SimCSE.Recipe(backbone=str(tiny_bert), batch_size=4), Runtime())
        encoder.width = width
        assert not encoder.views_by_dropout
        assert encoder.fit(Corpus("toy", [f"sentence {i}" for i in range(8)]), run=Run(seed=seed)).steps == 2
        drawn.append(encoder.numbers)
        vectors.append(encoder.encode(["a dog"]))
    assert drawn[0] == drawn[1] != drawn[2]
    assert np.array_equal(vectors[0], vectors[1]) and not np.array_equal(vectors[0], vectors[2])
    stream = io.StringIO()
    recipe = SimCSE.Recipe(backbone=str(tiny_bert), batch_size=4, dropout=0.0)
    without = WithViews(recipe, Runtime(progress=Progress(stream)))
    without.width = width
    assert without.fit(Corpus("toy", [f"sentence {i}" for i in range(8)]), run=Run()).steps == 2
    assert ("the two views of a sentence are equal" in stream.getvalue()) == (width == 1)
