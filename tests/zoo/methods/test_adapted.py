"""Decoders trained by adapters: rows of the training, a killed training, saved and exported encoders."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers as st
import torch
from fakes import skip_where_the_library_refuses_peft
from peft import PeftModel
from safetensors import safe_open
from transformers import AutoModel

import zoo
from tools.fidelity import decoders, start
from zoo.encoder import Corpus, Run, Runtime
from zoo.errors import Interrupted, UsageError, ZooError
from zoo.formats.export import write_sentence_transformers
from zoo.methods.adapted import AdaptedSimCSE

GOLDEN = {
    "adapted-simcse": {"version": 2, "values": [-0.6862, 0.3434, -0.7374, 1.0, 1.0, -0.0916, -0.3866, 0.2318]},
    "adapted-angle": {"version": 2, "values": [-0.7488, 0.382, -0.8938, 1.0, 1.0, -0.1015, -0.3554, 0.2756]},
}
SMALL = "batch_size=4:rank=4"
OTHERS = ("prompteol-sup-repo:supervised=false", "angle-llama")
LOSSES = ["prompteol-sup", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
ODD = ["", "is the cat old?", 'a "bird"', "the tree.", "the cat sees a dog " * 200]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = decoders.write_llama(tmp_path_factory.mktemp("adapted") / "llama")
    return folder


def encoder_of(name: str, folder: Path) -> Any:
    return zoo.create(f"{name}:{SMALL}:backbone={folder}")


def fit(encoder: Any, **run: Any) -> Any:
    corpus = start.TOY if not type(encoder).traits(encoder.recipe).needs_pairs else start.NLI
    return encoder.fit(corpus, run=Run(seed=3, **run), dev_score=lambda e: float(e.encode(["a tree"])[0, 0]))


@pytest.mark.parametrize("name", LOSSES)
def test_a_killed_training_goes_on_bit_equal_and_its_files_have_no_frozen_weight(
    name: str, llama: Path, tmp_path: Path
) -> None:
    name = f"{name}:eval_every=2:epochs=2"
    straight = encoder_of(name, llama)
    before = straight.encode(decoders.TEXTS)
    report = fit(straight)
    vectors = straight.encode(decoders.TEXTS)
    assert np.abs(vectors - before).max() > 1e-3
    asked = iter([0] * 4 + [15])
    with pytest.raises(Interrupted):
        fit(encoder_of(name, llama), folder=tmp_path, stop_signal=lambda: next(asked))
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) == 2
    for path in files:
        with safe_open(path, framework="np") as file:
            names = [key for key in file.keys() if not key.startswith(("optimizer/", "random/"))]  # noqa: SIM118
        assert names and all("lora_" in key for key in names), path
    resumed = encoder_of(name, llama)
    again = fit(resumed, folder=tmp_path)
    assert again.best_step == report.best_step and again.dev_scores == report.dev_scores
    assert np.array_equal(resumed.encode(decoders.TEXTS), vectors)


@pytest.mark.parametrize("name", LOSSES)
def test_peft_and_the_library_load_what_is_saved_and_exported(name: str, llama: Path, tmp_path: Path) -> None:
    skip_where_the_library_refuses_peft()
    encoder = encoder_of(name, llama)
    fit(encoder)
    texts = [*decoders.TEXTS, *ODD]
    vectors = encoder.encode(texts)
    encoder.save(tmp_path / "saved")
    assert np.array_equal(type(encoder).load(tmp_path / "saved").encode(texts), vectors)
    assert not (tmp_path / "saved" / "model.safetensors").exists(), "the decoder did not change"
    model = PeftModel.from_pretrained(AutoModel.from_pretrained(llama), tmp_path / "saved" / "adapters").eval()
    library = st.SentenceTransformer(str(llama), device="cpu")
    library[0].auto_model.load_adapter(str(tmp_path / "saved" / "adapters"))
    for i, text in enumerate(texts[:10]):
        ids = torch.from_numpy(encoder.token_table([text]).row(0).astype(np.int64))[None]
        for loaded in (model, library[0].auto_model):
            with torch.no_grad():
                state = loaded(input_ids=ids).last_hidden_state[0, -1]
            np.testing.assert_allclose(state, vectors[i], atol=1e-5)
    write_sentence_transformers(encoder, tmp_path / "out")
    exported = st.SentenceTransformer(str(tmp_path / "out"), device="cpu", trust_remote_code=False)
    # Of the last, longest text the library keeps a word less: it takes it for the template's, for here it is unknown.
    np.testing.assert_allclose(exported.encode(texts[:-1]), vectors[:-1], atol=1e-4)
    assert not list((tmp_path / "out").glob("adapter*"))
    assert np.array_equal(encoder.encode(texts), vectors), "the export leaves the encoder as it was"
    (tmp_path / "saved" / "adapters" / "adapter_model.safetensors").unlink()
    with pytest.raises(ZooError, match="adapter_model"):
        type(encoder).load(tmp_path / "saved")


def test_a_row_of_the_training_is_the_released_one(llama: Path) -> None:
    """A sentence is cut to so many tokens, decoded, put into the template and tokenised, without a period."""
    encoder = encoder_of("prompteol-sup-repo:train_max_length=5", llama)
    tokenizer = encoder.backbone.tokenizer
    table = encoder.training_table(["the cat sees a dog near the river", "a tree"])
    for row, text in zip((table.row(0), table.row(1)), ("the cat sees a dog", "a tree"), strict=True):
        assert row.tolist() == tokenizer(f'This sentence : "{text}" means in one word:"')["input_ids"]


def test_a_second_fit_goes_on_and_what_cannot_be_is_refused(llama: Path) -> None:
    encoder = encoder_of("prompteol-sup", llama)
    fit(encoder)
    first = encoder.encode(decoders.TEXTS)
    fit(encoder)
    assert np.abs(encoder.encode(decoders.TEXTS) - first).max() > 1e-4
    with pytest.raises(UsageError, match="two views"):
        fit(encoder_of("prompteol-sup:supervised=false:adapter_dropout=0", llama))
    with pytest.raises(UsageError, match="quux"):
        fit(encoder_of("prompteol-sup:targets=[quux]", llama))
    for fields in ({"rank": 0}, {"pooler": "avg"}, {"mlm_weight": 0.1}, {"warmup_steps": -1}):
        with pytest.raises(ValueError, match=r"have no use here|must"):
            AdaptedSimCSE.Recipe(**fields)


def test_without_peft_a_run_says_what_to_install(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.errors import MissingError

    monkeypatch.setitem(sys.modules, "peft", None)
    recipe = dataclasses.replace(AdaptedSimCSE.Recipe(), backbone=str(llama))
    with pytest.raises(MissingError, match=r"pip install 'zoo-bench\[peft\]'"):
        AdaptedSimCSE.sources(recipe, Runtime())
    with pytest.raises(MissingError, match="peft"):
        AdaptedSimCSE(recipe, Runtime()).fit(Corpus("nli", start.TRIPLETS, start.NLI.labels), run=Run())
