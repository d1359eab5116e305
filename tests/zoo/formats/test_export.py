"""What is exported is opened by sentence-transformers itself, without remote code, and gives our vectors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers as st
import torch

import zoo
from zoo.check import PROBES
from zoo.encoder import Encoder
from zoo.errors import ContractError, CorruptError, UsageError, ZooError
from zoo.files import read_json, write_json
from zoo.formats.export import write_sentence_transformers
from zoo.methods.pooled import Average

pytestmark = pytest.mark.slow

CORPUS = zoo.Corpus("toy", [f"The {a} is near the {b}." for a in "river lamp train".split() for b in "sea map".split()])
TEXTS = [*PROBES, "The Committee POSTPONED its decision.", "", "word " * 1000]
EXPRESSED = {
    "cls": 32,
    "avg-last": 32,
    "simcse": 32,
    "simcse-sup": 32,  # keeps its MLP at test
    "moco": 32,
    "ptbert": 32,
    "clear": 32,
    "ct": 32,
    "sbert": 32,
    "burt-max": 32,
    "whitening:layers=last:k=5": 5,
    "whitening:base=simcse-sup:k=5": 5,
}


def library(folder: Path) -> Any:
    return st.SentenceTransformer(str(folder), device="cpu", trust_remote_code=False)


def make_encoder(name: str, backbone: Path) -> Encoder:
    encoder = zoo.create(name if name == "bag-of-words" else f"{name}:backbone={backbone}")
    if name.startswith("whitening") and "target" not in name:
        encoder.learn(encoder.base.encode(list(CORPUS.sentences)), zoo.Run())  # type: ignore[attr-defined]
    return encoder


@pytest.mark.parametrize("name", EXPRESSED)
def test_the_library_gives_our_vectors(name: str, tiny_bert: Path, tmp_path: Path) -> None:
    encoder = make_encoder(name, tiny_bert)
    write_sentence_transformers(encoder, tmp_path / "out", {"README.md": "# A card\n"})
    vectors, wanted = library(tmp_path / "out").encode(TEXTS), encoder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), EXPRESSED[name])
    atol = 1e-4 if "whitening" in name else 1e-5  # ours is whitened in float64; small eigenvalues magnify rounding
    np.testing.assert_allclose(vectors, wanted, atol=atol * float(np.linalg.norm(wanted, axis=1).mean()))
    assert (tmp_path / "out" / "README.md").read_text(encoding="utf-8") == "# A card\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_whitened_pretrained_encoder_keeps_all_modules(tiny_bert: Path, tmp_path: Path) -> None:
    """Of a folder that the library itself saved: pooling, Dense and Normalize, then the whitening."""
    from sentence_transformers.sentence_transformer import modules

    torch.manual_seed(1)
    parts = modules.Transformer(str(tiny_bert)), modules.Pooling(32, pooling_mode="max"), modules.Dense(32, 12)
    st.SentenceTransformer(modules=[*parts, modules.Normalize()], device="cpu").save(str(tmp_path / "theirs"))
    encoder = zoo.create(f"whitening:base=pretrained:backbone={tmp_path / 'theirs'}")
    encoder.fit(CORPUS, run=zoo.Run())
    write_sentence_transformers(encoder, tmp_path / "out")
    np.testing.assert_allclose(library(tmp_path / "out").encode(TEXTS), encoder.encode(TEXTS), atol=1e-4)


@pytest.mark.parametrize("kind", ["tiny_bert", "tiny_roberta", "without any special token"])
def test_a_tokenizer_without_padding_is_given_one(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Which token fills a batch does not show: it is masked."""
    backbone = tmp_path / "backbone"
    shutil.copytree(request.getfixturevalue(kind if kind.startswith("tiny") else "tiny_bert"), backbone)
    config = read_json(backbone / "tokenizer_config.json")
    left_out = ("pad_token", "added_tokens_decoder", *(["unk_token"] if " " in kind else []))
    config = {name: value for name, value in config.items() if name not in left_out}
    write_json(backbone / "tokenizer_config.json", {**config, "tokenizer_class": "PreTrainedTokenizerFast"})
    encoder = make_encoder("avg-last", backbone)
    assert encoder.backbone.tokenizer.pad_token is None  # type: ignore[attr-defined]
    write_sentence_transformers(encoder, tmp_path / "st")
    vectors = library(tmp_path / "st").encode(TEXTS[:-1], batch_size=8)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS[:-1]), atol=1e-5)


def test_nothing_is_written_over_or_half_written(tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError, match="mine exists; name a new folder"):
        write_sentence_transformers(make_encoder("cls", tiny_bert), tmp_path / "mine")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ZooError, match="cannot write"):
        write_sentence_transformers(make_encoder("cls", tiny_bert), tmp_path / "file" / "out")

    class Shifted(Average):
        def encode(self, texts: Any) -> Any:
            return super().encode(texts) + 1

    with pytest.raises(ContractError, match="Shifted: its vectors are not those of the exported folder"):
        write_sentence_transformers(Shifted(Average.Recipe(backbone=str(tiny_bert)), zoo.Runtime()), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "mine"]


@pytest.mark.parametrize("flip", [0.5, 0.9])
def test_a_damaged_encoder_is_not_exported(flip: float, tiny_bert: Path, tmp_path: Path) -> None:
    """Neither its own loading nor a run ships what differs by a bit from what was saved."""
    encoder = Average(Average.Recipe(backbone=str(tiny_bert)), zoo.Runtime())
    encoder.trained = True
    zoo.save(encoder, tmp_path / "encoder")
    weights = tmp_path / "encoder" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[int(flip * len(content))] ^= 4
    weights.write_bytes(content)
    with pytest.raises(CorruptError, match=r"model\.safetensors"):
        write_sentence_transformers(zoo.load(tmp_path / "encoder"), tmp_path / "exported")
    assert not (tmp_path / "exported").exists()
