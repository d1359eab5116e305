"""TSDAE: what its decoder shares with its encoder, and how much of a sentence is deleted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from test_dropoutviews import CORPUS, encoder_of

from zoo.encoder import Run, Runtime
from zoo.methods.tsdae import decoder_of

GOLDEN = {
    "tsdae": {"version": 2, "tolerance": 0.04, "values": [-0.0879, -0.3341, 0.8112, 1.0, 0.1651, -0.3629, 1.0, 0.4947]}
}


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
