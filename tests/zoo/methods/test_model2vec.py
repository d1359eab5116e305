"""model2vec: its parts against plain computations, and the whole against the package where it is installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from transformers import AutoModel, AutoTokenizer

from zoo.check import PROBES
from zoo.encoder import Runtime
from zoo.methods.model2vec import Model2Vec, kept_tokens

GOLDEN = {
    "model2vec": {
        "version": 2,
        "tolerance": 0.008,
        "values": [0.0165, -1.0, 0.4908, -0.5934, -0.0843, -1.0, 0.4872, -0.7693],
    }
}


def test_it_is_the_mean_pca_and_zipf_weights(tiny_bert: Path) -> None:
    encoder = Model2Vec(Model2Vec.Recipe(backbone=str(tiny_bert), dim=8), Runtime())
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_bert), AutoModel.from_pretrained(tiny_bert).eval()
    special = {"[CLS]", "[SEP]", "[MASK]"}
    kept = [i for i in range(len(tokenizer)) if tokenizer.convert_ids_to_tokens(i) not in special]
    kept = [i for i in kept if not tokenizer.convert_ids_to_tokens(i).startswith("[unused")]
    assert kept_tokens(tokenizer.backend_tokenizer).tolist() == kept
    rows = torch.tensor([[tokenizer.cls_token_id, i, tokenizer.sep_token_id] for i in kept])
    with torch.inference_mode():
        states = torch.cat([model(part).last_hidden_state.mean(1) for part in rows.split(2000)]).double().numpy()
    rank = np.arange(len(kept)) + 2
    share = 1 / rank / (1 / rank).sum()
    wanted = PCA(8, svd_solver="full").fit_transform(states) * (1e-4 / (1e-4 + share))[:, None]
    table = encoder.bag.weight.detach().numpy()[kept]
    wanted *= np.sign((wanted * table).sum(0))  # the sign of a component is free
    wanted[kept.index(tokenizer.unk_token_id)] = 0
    assert np.abs(table - wanted).max() < 1e-4 * np.abs(wanted).max()
    dropped = np.setdiff1d(np.arange(len(tokenizer)), kept)
    assert len(dropped) and not encoder.bag.weight.detach().numpy()[dropped].any()


@pytest.mark.slow
def test_it_equals_the_package(tiny_bert: Path) -> None:
    distill = pytest.importorskip("model2vec.distill")
    model, tokenizer = AutoModel.from_pretrained(tiny_bert), AutoTokenizer.from_pretrained(tiny_bert)
    theirs = distill.distill_from_model(model, tokenizer, device="cpu", pca_dims=16, quantize_to="float32")
    encoder = Model2Vec(Model2Vec.Recipe(backbone=str(tiny_bert), dim=16), Runtime())
    texts = [*PROBES, "an unknownxyz \u2603 word", ""]
    assert np.abs(theirs.encode(texts) - encoder.encode(texts)).max() < 5e-5  # PCA's last digits differ by machine
