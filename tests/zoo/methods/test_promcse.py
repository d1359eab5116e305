"""PromCSE: the backbone stays as it was; a checkpoint of the release has its prefix."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from test_dropoutviews import CORPUS, encoder_of

from zoo.encoder import Run, Runtime
from zoo.errors import UsageError
from zoo.methods.pretrained import Pretrained

GOLDEN = {"promcse": {"version": 2, "values": [-1.0, 0.2617, -0.5751, 0.4356, 0.5863, 0.2904, -0.4409, 1.0]}}


def test_only_the_prefix_is_trained(vivid_bert: Path) -> None:
    encoder = encoder_of("promcse", vivid_bert, batch_size=32)
    before = copy.deepcopy(encoder.backbone.model.state_dict())
    untrained = encoder.encode(CORPUS.sentences[:5])
    encoder.fit(CORPUS, run=Run(seed=1))
    assert all(torch.equal(before[name], p) for name, p in encoder.backbone.model.state_dict().items())
    trained = encoder.encode(CORPUS.sentences[:5])
    assert np.abs(trained - untrained).max() > 1e-2


def test_a_checkpoint_of_the_release_is_read_with_its_prefix(vivid_bert: Path, tmp_path: Path) -> None:
    """The release saves its whole model: the backbone under `bert.`, the prefix and the MLP beside it."""
    encoder = encoder_of("promcse", vivid_bert, batch_size=32)
    encoder.fit(CORPUS, run=Run(seed=1))
    for path in (*vivid_bert.glob("*.json"), *vivid_bert.glob("*.txt")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    draws = torch.Generator().manual_seed(0)
    mlp = {
        "mlp.dense.weight": torch.randn(encoder.dim, encoder.dim, generator=draws),
        "mlp.dense.bias": torch.ones(encoder.dim),
    }
    tensors = {f"bert.{name}": weight.contiguous() for name, weight in encoder.backbone.model.state_dict().items()}
    tensors |= mlp | {"prefix_encoder.embedding.weight": encoder.drawn["prefix"].embedding.weight.detach()}
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})

    def read(pooling: str) -> Pretrained:
        return Pretrained(Pretrained.Recipe(model=str(tmp_path), pooling=pooling), Runtime())

    texts = CORPUS.sentences[:5]
    expected = torch.from_numpy(encoder.encode(texts))
    np.testing.assert_allclose(read("cls").encode(texts), expected, atol=1e-6)
    supervised = torch.tanh(expected @ mlp["mlp.dense.weight"].T + 1)
    np.testing.assert_allclose(read("pooler").encode(texts), supervised, atol=1e-5)
    assert (
        read("cls").fingerprint()
        != Pretrained(Pretrained.Recipe(model=str(vivid_bert), pooling="cls"), Runtime()).fingerprint()
    )
    with pytest.raises(UsageError, match="name pooling=cls or pooling=pooler"):
        read("mean")
    with pytest.raises(UsageError, match="the library has no module"):
        read("cls").stock_modules()
