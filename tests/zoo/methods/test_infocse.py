"""InfoCSE: what is trained, and what is refused; test_releases has ten steps beside the release."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_dropoutviews import CORPUS, encoder_of

from zoo.encoder import Run

GOLDEN = {
    "infocse": {
        "version": 2,
        # At the others' rate ten steps make rounding on some processors 25 times the tolerance.
        "settings": {"lower": 1, "mlm_weight": 0.5, "learning_rate": 3e-4},
        "values": [-1.0, 0.4687, -0.2257, -0.2531, 0.2977, -0.2372, 0.0548, 1.0],
    }
}


def test_masked_words_train_the_encoder_and_the_new_layers_alone(vivid_bert: Path) -> None:
    encoder = encoder_of("infocse", vivid_bert, batch_size=8, mlm_weight=1.0, dropout=0.0)
    torch.manual_seed(0)
    objective = encoder.objective()
    batch, _ = encoder.training_rows(CORPUS, Run(seed=1))
    sums = objective.embed(*batch(torch.arange(8).numpy()))[-1]
    sums[:, 0].sum().backward()
    assert (sums[:, 1] > 0).all()
    assert all(weight.grad is None for weight in objective.lower.parameters())
    for part in (objective.pooler.model.encoder, objective.upper, objective.mlm.head):
        assert any(weight.grad is not None and weight.grad.any() for weight in part.parameters())
    assert all(weight.grad is None for weight in objective.pooler.mlp.parameters())


@pytest.mark.parametrize("setting", [{"masked": 1.0}, {"lower": 0}, {"mlm_weight": -1.0}, {"pooler": "avg"}])
def test_settings_that_mean_nothing_are_refused(setting: dict[str, object], tiny_bert: Path) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        encoder_of("infocse", tiny_bert, **setting)
