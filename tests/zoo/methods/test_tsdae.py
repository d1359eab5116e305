"""TSDAE: ten steps beside sentence-transformers' loss, and what is tied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ten_steps import cls_vectors, losses_beside
from test_dropoutviews import CORPUS, encoder_of

from zoo.encoder import Run, Runtime
from zoo.methods.tsdae import decoder_of

GOLDEN = {"tsdae": {"version": 1, "values": [-0.6738, 0.5341, -0.0658, 1.0, 0.3505, -0.0333, 0.156, 1.0]}}


def library_loss(objective: Any, noisy: torch.Tensor, noisy_mask: torch.Tensor, ids: torch.Tensor, _: Any) -> Any:
    """DenoisingAutoEncoderLoss.forward, with the modules of the objective in the place of its own."""
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    loss = losses.DenoisingAutoEncoderLoss.__new__(losses.DenoisingAutoEncoderLoss)
    torch.nn.Module.__init__(loss)
    loss.need_retokenization, loss.decoder = False, objective.decoder
    loss.tokenizer_decoder = type("Tokenizer", (), {"pad_token_id": objective.pad_id})()
    vectors = cls_vectors(objective.pooler.model, noisy, noisy_mask)
    loss.encoder = lambda _: {"sentence_embedding": vectors}
    return loss([{"input_ids": noisy, "attention_mask": noisy_mask}, {"input_ids": ids}], None)


def test_ten_steps_lose_as_the_library(vivid_bert: Path) -> None:
    encoder = encoder_of("tsdae", vivid_bert, dropout=0.0)
    ours, theirs = losses_beside(encoder, CORPUS, library_loss)
    assert max(theirs) - min(theirs) > 0.1
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


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
