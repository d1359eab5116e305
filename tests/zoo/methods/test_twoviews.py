"""ConSERT and CLEAR: the embedding-layer views, the augmented ones; test_releases has the loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.encoder import Corpus, Run, Runtime
from zoo.methods.twoviews import TwoViews, cut_features, shuffled_positions

GOLDEN = {"twoviews": {"version": 2, "values": [-1.0, 0.5146, -0.3937, 0.232, 0.8975, -0.1988, -1.0, 0.446]}}

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
