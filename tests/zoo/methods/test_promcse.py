"""PromCSE: ten steps beside a port of its loss; the backbone stays as it was; saved and loaded."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from ten_steps import losses_beside
from test_dropoutviews import CORPUS, cosines, encoder_of

from zoo.encoder import Run

GOLDEN = {"promcse": {"version": 1, "values": [-1.0, 0.7705, -0.3311, 0.1886, -1.0, 0.7978, -0.0521, -0.1354]}}


def port(objective: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """get_prompt and cl_forward of the released models, with attention over prefix and tokens written out."""
    model, prefix = objective.pooler.model, objective.pooler.prefix
    n, length = ids.shape
    heads = model.config.num_attention_heads
    past = prefix.embedding(torch.arange(prefix.length)).expand(n, -1, -1)
    past = past.view(n, prefix.length, 2 * model.config.num_hidden_layers, heads, -1).permute(2, 0, 3, 1, 4).split(2)
    x = model.embeddings(input_ids=ids, position_ids=prefix.length + torch.arange(length)[None])
    seen = torch.cat([torch.ones(n, prefix.length), mask.float()], 1)[:, None, None]
    for layer, (keys, values) in zip(model.encoder.layer, past, strict=True):
        own = layer.attention.self
        q, k, v = (part(x).view(n, length, heads, -1).transpose(1, 2) for part in (own.query, own.key, own.value))
        logits = q @ torch.cat([keys, k], 2).transpose(2, 3) / q.shape[-1] ** 0.5
        weights = (logits + (1 - seen) * -10000.0).softmax(-1)
        mixed = (weights @ torch.cat([values, v], 2)).transpose(1, 2).reshape(n, length, -1)
        x = layer.attention.output(mixed, x)
        x = layer.output(layer.intermediate(x), x)
    z = torch.tanh(objective.pooler.mlp.dense(x[:, 0]))
    return F.cross_entropy(cosines(z, z) / 0.05, torch.arange(n))


def test_ten_steps_lose_as_the_released_code(vivid_bert: Path) -> None:
    ours, theirs = losses_beside(encoder_of("promcse", vivid_bert, dropout=0.0), CORPUS, port)
    assert max(theirs) - min(theirs) > 0.01
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_only_the_prefix_is_trained(vivid_bert: Path) -> None:
    encoder = encoder_of("promcse", vivid_bert, batch_size=32)
    before = copy.deepcopy(encoder.backbone.model.state_dict())
    untrained = encoder.encode(CORPUS.sentences[:5])
    encoder.fit(CORPUS, run=Run(seed=1))
    assert all(torch.equal(before[name], p) for name, p in encoder.backbone.model.state_dict().items())
    trained = encoder.encode(CORPUS.sentences[:5])
    assert np.abs(trained - untrained).max() > 1e-2
