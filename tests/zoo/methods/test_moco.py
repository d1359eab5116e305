"""MoCo-BERT: loss, queue and momentum update in numpy, views as declared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from zoo.encoder import Corpus, Run, Runtime
from zoo.methods.moco import MoCo, MoCoObjective

GOLDEN = {"moco": {"version": 2, "values": [-1.0, 0.6143, -0.1747, -0.2514, 0.3754, -0.3844, -0.3879, 1.0]}}

WORDS = "cat dog tree house river stone cloud bird".split()
SENTENCES = [f"the {a} sees a {b} near the old {a}" for a in WORDS for b in WORDS if a != b]


def batches(encoder: MoCo, size: int, count: int) -> list[tuple[torch.Tensor, ...]]:
    batch, rows = encoder.training_rows(Corpus("toy", SENTENCES), Run(seed=3))
    assert rows == len(SENTENCES)
    return [batch(np.arange(i * size, (i + 1) * size)) for i in range(count)]


def info_nce(h: np.ndarray, candidates: np.ndarray, temperature: float = 0.05) -> float:
    def unit(x: np.ndarray) -> np.ndarray:
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    logits = unit(h.astype(np.float64)) @ unit(candidates.astype(np.float64)).T / temperature
    return float(np.mean([np.log(np.exp(row).sum()) - row[i] for i, row in enumerate(logits)]))


def test_loss_queue_and_momentum_step_by_step(tiny_bert: Path) -> None:
    """Four steps with batches of 3 and a queue of 8: the third batch no longer fits whole."""
    encoder = MoCo(MoCo.Recipe(backbone=str(tiny_bert), batch_size=3, queue_size=8), Runtime())
    torch.manual_seed(0)
    objective = encoder.objective().eval()
    queue = np.empty((0, encoder.dim))
    for ids, mask, view_ids, view_mask in batches(encoder, 3, 4):
        query, key = objective.query_branch, objective.key_branch
        with torch.no_grad():
            h, keys = query(ids, mask).numpy(), key(view_ids, view_mask).numpy()
            loss = float(objective(ids, mask, view_ids, view_mask))
        queue = np.concatenate([keys, queue])[:8]
        np.testing.assert_allclose(objective.queue.held().numpy(), queue, atol=1e-6)
        assert loss == pytest.approx(info_nce(h, queue), abs=1e-4)
        with torch.no_grad():
            for parameter in query.parameters():
                parameter.add_(0.01)
        wanted = [0.885 * k + 0.115 * q for k, q in zip(key.parameters(), query.parameters(), strict=True)]
        objective.after_step()
        for parameter, value in zip(key.parameters(), wanted, strict=True):
            torch.testing.assert_close(parameter, value)


def test_the_key_encoder_starts_as_a_copy_without_gradient(tiny_bert: Path) -> None:
    objective = MoCoObjective(AutoModel.from_pretrained(tiny_bert), MoCo.Recipe())
    pairs = zip(objective.key_branch.parameters(), objective.query_branch.parameters(), strict=True)
    assert all(torch.equal(k, q) and not k.requires_grad and q.requires_grad for k, q in pairs)


def test_keys_without_dropout_are_those_of_evaluation(tiny_bert: Path) -> None:
    for key_dropout in (True, False):
        recipe = MoCo.Recipe(backbone=str(tiny_bert), positives="query", key_dropout=key_dropout)
        encoder = MoCo(recipe, Runtime())
        objective = encoder.objective().train()
        ids, mask, *view = batches(encoder, 8, 1)[0]
        _, h_plus, keys = objective.embed(ids, mask, *view)
        with torch.no_grad():
            still = objective.eval().keys(ids, mask)
        assert torch.allclose(keys, still, atol=1e-6) is not key_dropout
        assert not torch.allclose(h_plus, objective.query_branch(*view), atol=1e-3), "the query's stays on"
        assert objective.train().key_branch.training is key_dropout and objective.query_branch.training


def test_the_control_applies_one_linear_map_twice(tiny_bert: Path) -> None:
    """with a single state, PT-BERT's released attention is V(V(y)), then the MLP."""
    torch.manual_seed(0)
    objective = MoCoObjective(AutoModel.from_pretrained(tiny_bert), MoCo.Recipe(double_linear=True)).eval()
    value, again, mlp = objective.query_branch.mlp
    assert value is again
    ids = torch.tensor([[101, 1037, 2235, 3899, 102]])
    with torch.no_grad():
        y = objective.query_branch.model(ids).last_hidden_state[:, 0]
        wanted = mlp((y @ value.weight.T + value.bias) @ value.weight.T + value.bias)
        torch.testing.assert_close(objective.query_branch(ids, torch.ones_like(ids)), wanted)


def test_only_the_keys_view_is_augmented_and_a_batch_alike(tiny_bert: Path) -> None:
    encoder = MoCo(MoCo.Recipe(backbone=str(tiny_bert), augment=("delete:0.3",), queue_size=64), Runtime())
    ids, mask, view_ids, view_mask = batches(encoder, 8, 1)[0]
    plain = MoCo(MoCo.Recipe(backbone=str(tiny_bert)), Runtime())
    assert torch.equal(ids, batches(plain, 8, 1)[0][0])
    lengths, view_lengths = mask.sum(1) - 2, view_mask.sum(1) - 2
    assert torch.equal(view_lengths, lengths - (0.3 * lengths).long())
    again = batches(encoder, 8, 1)[0]
    assert torch.equal(again[2], view_ids)
    other, _ = encoder.training_rows(Corpus("toy", SENTENCES), Run(seed=4))
    assert not torch.equal(other(np.arange(8))[2], view_ids)
