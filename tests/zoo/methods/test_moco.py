"""MoCo-BERT and ESimCSE: loss, queue and momentum update in numpy, views as declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel

from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import UsageError
from zoo.methods.moco import MoCo, MoCoObjective

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


def test_esimcse_has_in_batch_positives_with_gradient_and_only_past_keys_as_extra_negatives(tiny_bert: Path) -> None:
    recipe = MoCo.Recipe(
        backbone=str(tiny_bert), batch_size=3, queue_size=5, positives="query", momentum=0.995, augment=("repeat:0.32",)
    )
    encoder = MoCo(recipe, Runtime())
    torch.manual_seed(0)
    objective = encoder.objective().eval()
    past = np.empty((0, encoder.dim))
    for batch in batches(encoder, 3, 3):
        with torch.no_grad():
            h, h_plus, keys = (v.numpy() for v in objective.embed(*batch))
            loss = float(objective(*batch))
        assert loss == pytest.approx(info_nce(h, np.concatenate([h_plus, past])), abs=1e-4)
        past = np.concatenate([keys, past])[:5]
        np.testing.assert_allclose(objective.queue.held().numpy(), past, atol=1e-6)
    h, h_plus, keys = objective.embed(*batch)
    assert h_plus.requires_grad and not keys.requires_grad


def test_the_control_applies_one_linear_map_twice(tiny_bert: Path) -> None:
    """METHODS, section 6: with a single state, PT-BERT's released attention is V(V(y)), then the MLP."""
    torch.manual_seed(0)
    objective = MoCoObjective(AutoModel.from_pretrained(tiny_bert), MoCo.Recipe(double_linear=True)).eval()
    value, again, mlp = objective.query_branch.pooler.mlp
    assert value is again
    ids = torch.tensor([[101, 1037, 2235, 3899, 102]])
    with torch.no_grad():
        y = objective.query_branch.pooler.model(ids).last_hidden_state[:, 0]
        wanted = mlp((y @ value.weight.T + value.bias) @ value.weight.T + value.bias)
        torch.testing.assert_close(objective.query_branch(ids, torch.ones_like(ids)), wanted)


def test_only_the_keys_view_is_augmented_and_a_batch_is_always_augmented_alike(tiny_bert: Path) -> None:
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


def test_keeps_leave_most_views_as_they_are(tiny_bert: Path) -> None:
    encoder = MoCo(MoCo.Recipe(backbone=str(tiny_bert), augment=("reorder-repo",), keeps=2), Runtime())
    batch, rows = encoder.training_rows(Corpus("toy", SENTENCES), Run(seed=0))
    changed = []
    for start in range(0, rows, 8):
        ids, _, view_ids, _ = batch(np.arange(start, min(start + 8, rows)))
        changed += (ids != view_ids).any(1).tolist()
    assert 0.15 < np.mean(changed) < 0.5  # a third


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"queue_size": 32}, "must hold a batch"),
        ({"momentum": 1.5}, "between 0 and 1"),
        ({"keeps": -1}, "below 0"),
        ({"double_linear": True, "mlp_only_train": False}, "no part at test"),
    ],
)
def test_wrong_recipes_are_refused(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        MoCo.Recipe(**fields)


def test_an_unknown_augmentation_is_named(tiny_bert: Path) -> None:
    encoder = MoCo(MoCo.Recipe(backbone=str(tiny_bert), augment=("reoder:0.2",)), Runtime())
    with pytest.raises(UsageError, match="reorder"):
        encoder.training_rows(Corpus("toy", SENTENCES), Run())


@pytest.mark.parametrize("augment", [(), ("substitute:0.3", "crop:0.2")])
def test_a_stopped_training_ends_as_an_unbroken_one(tiny_bert: Path, tmp_path: Path, augment: tuple[str, ...]) -> None:
    from zoo.errors import Interrupted

    recipe = MoCo.Recipe(
        backbone=str(tiny_bert), batch_size=8, queue_size=20, augment=augment, learning_rate=1e-3, epochs=2
    )
    whole, cut, resumed = (MoCo(recipe, Runtime()) for _ in range(3))
    whole.fit(Corpus("toy", SENTENCES), run=Run(tmp_path / "whole", seed=1))
    asked = iter([None] * 9)
    with pytest.raises(Interrupted):
        cut.fit(Corpus("toy", SENTENCES), run=Run(tmp_path / "cut", seed=1, stop_signal=lambda: next(asked, 15)))
    resumed.fit(Corpus("toy", SENTENCES), run=Run(tmp_path / "cut", seed=1))
    assert resumed.backbone.weights_sha256() == whole.backbone.weights_sha256()
