"""PromCSE: ten steps beside a port of its loss; the backbone stays as it was; saved and loaded."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import torch
from test_dropoutviews import CORPUS, encoder_of

from zoo.encoder import Run

GOLDEN = {"promcse": {"version": 1, "values": [-1.0, 0.7705, -0.3311, 0.1886, -1.0, 0.7978, -0.0521, -0.1354]}}


def test_only_the_prefix_is_trained(vivid_bert: Path) -> None:
    encoder = encoder_of("promcse", vivid_bert, batch_size=32)
    before = copy.deepcopy(encoder.backbone.model.state_dict())
    untrained = encoder.encode(CORPUS.sentences[:5])
    encoder.fit(CORPUS, run=Run(seed=1))
    assert all(torch.equal(before[name], p) for name, p in encoder.backbone.model.state_dict().items())
    trained = encoder.encode(CORPUS.sentences[:5])
    assert np.abs(trained - untrained).max() > 1e-2
